"""The failures that a diagnosis found."""

from collections.abc import Mapping
from typing import Any


def detected_issues(diagnosis: Any) -> list[str]:
    """Names of the collapses that were found, from `diagnosis.json`: a list, or {diagnoses: []}."""
    findings = diagnosis["diagnoses"] if isinstance(diagnosis, Mapping) else diagnosis
    return [finding["name"] for finding in findings if finding["found"]]
