"""Bad input and large files: one line with the fix, and no partial file."""

import re
import resource
from pathlib import Path

import pytest
import tiny
from stage_runs import Done, run_stage

CHECKPOINT = Path("data/checkpoints/arc_grids/model.safetensors")
DATA = Path("data/arc_grids")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder to run stages in: tiny params and tiny data, nothing trained."""
    (tmp_path / DATA).mkdir(parents=True)
    tiny.write_params(tmp_path)
    tiny.write_dataset(tmp_path / DATA)
    return tmp_path


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


def test_a_file_size_limit_is_one_line_and_leaves_no_partial_file(place: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        done = run_stage(place, "train")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "too large" in check_refused(place, done).lower()
    assert not (place / CHECKPOINT).exists()
