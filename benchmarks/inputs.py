"""Inputs that users bring: set-ups, file names and files, each with variants of its kind.

`swap.inputs` is the share that behaves as expected (`tests/support/swap_inputs.py`).
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from swap_inputs import KINDS, behaves

from benchmarks.harness import Result, benchmark


@benchmark("swap.inputs")
def swap_inputs() -> Iterator[Result]:
    """Try every input and its variants."""
    outcomes: dict[str, str] = {}
    passed = 0
    for kind, checks in KINDS.items():
        passed_of_kind = 0
        for check in checks:
            with tempfile.TemporaryDirectory() as folder:
                passed_of_kind += behaves(check, Path(folder))
        passed += passed_of_kind
        outcomes[kind] = f"{passed_of_kind} of {len(checks)}"
    count = sum(map(len, KINDS.values()))
    yield Result("swap.inputs", passed / count, n=count, details={"kinds": outcomes})
