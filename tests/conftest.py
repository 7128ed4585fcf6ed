"""Settings and fixtures of all tests: one thread, no telemetry, shared clones."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before torch and numpy are imported: small sums are slower on two threads than on one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["WANDB_MODE"] = "offline"
os.environ["DVC_NO_ANALYTICS"] = "1"

import clones
import torch
from hypothesis import settings

# A shell's background jobs ignore Ctrl-C; so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test is timed: on a loaded machine a first call may take any time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

ROOT = Path(__file__).resolve().parent.parent
# Files of half a minute and more, the longest first; the first one makes the clone for others.
LONG = (
    "e2e/test_pipeline.py",
    "faults/test_agent_kill.py",
    "evaluation/test_image_evaluator.py",
    "e2e/test_server.py",
    "agent/test_loop.py",
    "docs/test_commands.py",
    "faults/test_stages.py",
    "e2e/test_browser.py",
    "vae/test_distributed.py",
)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of a test run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def reproduced(shared_folder: Path) -> Path:
    """A clone in which the pipeline has run once. Tests work on copies: `clones.copy_clone`."""
    return clones.make_once(shared_folder / "reproduced", clones.reproduce)


@pytest.fixture
def outside_any_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in tmp_path, above which git looks for no repository."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))


@pytest.fixture(autouse=True)
def denormals() -> Iterator[None]:
    """Undo, after each test, what `engine.make_deterministic` sets for the whole process."""
    yield
    torch.set_flush_denormal(False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test-fast` leaves out, by folder, and run the longest files first.

    A process that began the longest file last would work on it alone for minutes.
    """
    order = {str(ROOT / "tests" / name): index for index, name in enumerate(LONG)}
    for item in items:
        if "faults" in item.path.parts:
            item.add_marker(pytest.mark.slow)
        if "e2e" in item.path.parts:
            item.add_marker(pytest.mark.e2e)
    items.sort(key=lambda item: order.get(str(item.path), len(LONG)))
