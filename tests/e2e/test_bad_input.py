"""Bad input, large files and Ctrl-C: one line with the fix, and no partial file."""

import os
import re
import resource
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest
import tiny
from clones import find_files
from disks import mounted
from stage_runs import Done, end, run_stage, start_stage, wait_for_epochs

CHECKPOINT = Path("data/checkpoints/arc_grids/model.safetensors")
DATA = Path("data/arc_grids")
LONG = {"epochs": 8, "samples_per_epoch": 640, "beta_max": 0.5}


def make_place(folder: Path, **training: object) -> Path:
    """A folder to run stages in: tiny params and tiny data, nothing trained."""
    (folder / DATA).mkdir(parents=True)
    tiny.write_params(folder, **training)
    tiny.write_dataset(folder / DATA)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return make_place(tmp_path / "place")


def check_refused(place: Path, done: Done) -> str:
    """The one line with which a stage refuses: exit 2 and nothing half done."""
    assert done.status == 2, done.stderr
    assert done.stdout == ""
    assert list(place.rglob("*.part*")) == []
    return done.line


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("evaluate", f"{CHECKPOINT}.*dvc repro train"),
        ("failure_gallery", r"evidence\.npz is missing.*dvc repro evaluate"),
    ],
)
def test_what_is_missing_is_one_line_that_names_place_and_fix(
    place: Path, command: str, pattern: str
) -> None:
    line = check_refused(place, run_stage(place, command))
    assert re.search(pattern, line), line
    assert not (place / "metrics").exists()


def test_an_unwritable_folder_is_one_line(place: Path) -> None:
    locked = place / "locked"
    locked.mkdir(mode=0o500)
    root = os.access(locked, os.W_OK)  # writes everywhere, but not on a read-only disk
    with mounted(locked, "ro,size=1m") if root else nullcontext():
        line = check_refused(place, run_stage(place, "train", "--output", "locked/checkpoint"))
    assert "locked" in line
    assert "writ" in line


def test_a_file_size_limit_is_one_line_and_leaves_no_partial_file(place: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        done = run_stage(place, "train")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "too large" in check_refused(place, done).lower()
    assert not (place / CHECKPOINT).exists()


def test_a_stopped_run_ends_where_an_uninterrupted_one_ends(tmp_path: Path) -> None:
    stopped = make_place(tmp_path / "stopped", **LONG)
    training = start_stage(stopped, "train")
    wait_for_epochs(stopped, training, 2)
    training.send_signal(signal.SIGINT)
    done = end(training)
    assert done.status == 130, done.stderr
    assert "interrupted" in done.line
    assert list(stopped.rglob("*.part*")) == []
    assert not (stopped / CHECKPOINT).exists()
    straight = make_place(tmp_path / "straight", **LONG)
    for place in (stopped, straight):
        done = run_stage(place, "train")
        assert done.status == 0, done.stderr
    expected = find_files(straight)
    assert {str(CHECKPOINT), "results/arc_grids/training.json"} <= set(expected)
    assert find_files(stopped) == expected
