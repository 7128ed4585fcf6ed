"""Zero-tolerance checks: `make faults` runs them at full size and records what they count."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from genlab.core.io import read_json, write_json

RESULTS = os.environ.get("GENLAB_FAULTS", "")
"""The file that a run at full size records to; empty in the ordinary tests."""


@pytest.fixture(scope="session")
def full_size() -> bool:
    """Whether the checks run at full size."""
    return bool(RESULTS)


@pytest.fixture
def record() -> Callable[..., None]:
    """Records how many of `n` checks failed under a name, at full size only."""

    def write(name: str, failed: int, *, n: int) -> None:
        print(f"{name}: {failed} of {n} failed")
        if RESULTS:
            path = Path(RESULTS)
            counts = read_json(path, producer_command="make faults") if path.exists() else {}
            counts[name] = {"tried": n, "failed": failed}
            write_json(path, dict(sorted(counts.items())))

    return write


@pytest.fixture
def only_full_size(full_size: bool) -> None:
    """Skips a check that takes minutes at any size."""
    if not full_size:
        pytest.skip("takes minutes; run: make faults")
