"""Reference models, measured once per workspace by the same judge (skeleton)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genlab.agent.evaluator.judge import Judge


def measure_references(judge: Judge, workspace_file: Path) -> dict[str, dict[str, float]]:
    """Metrics of each reference model by its name; read from `workspace_file` where it is there."""
    raise NotImplementedError
