"""Inputs that people bring: set-ups, file names and files, each with siblings of its kind.

`swap.inputs` is the share that behaves as expected (`tests/support/swap_inputs.py`).
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from swap_inputs import KINDS, behaves

from benchmarks.harness import Result, benchmark


@benchmark("swap.inputs")
def swap_inputs() -> Iterator[Result]:
    """Try every input and its siblings."""
    good: dict[str, str] = {}
    hits = 0
    for kind, checks in KINDS.items():
        done = 0
        for check in checks:
            with tempfile.TemporaryDirectory() as folder:
                done += behaves(check, Path(folder))
        hits += done
        good[kind] = f"{done} of {len(checks)}"
    count = sum(map(len, KINDS.values()))
    yield Result("swap.inputs", hits / count, n=count, details={"kinds": good})
