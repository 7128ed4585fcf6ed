"""Cases: a template photograph, avatars, and who replaces whom, as folders that people can read."""

from genlab.benchmark.cases.case import (
    CASE_FILE,
    PRIVATE,
    Case,
    Region,
    Source,
    Swap,
    load_case,
    load_cases,
    split_by_consent,
)

__all__ = [
    "CASE_FILE",
    "PRIVATE",
    "Case",
    "Region",
    "Source",
    "Swap",
    "load_case",
    "load_cases",
    "split_by_consent",
]
