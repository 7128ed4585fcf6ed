"""Files that version 96de87dd wrote are read, or one line says what to do.

tests/data/edition-96de87dd holds the files of that version: parameters, split, checkpoint, the
workspace of an agent run that was killed in its first training, and the store as SQL.
"""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from stage_runs import run_stage

from genlab.benchmark.store.repository import Store

ROOT = Path(__file__).resolve().parents[2]
EDITION = ROOT / "tests/data/edition-96de87dd"
WORKSPACE = "workspaces/dummy-stripes-99-accuracy"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files, with the store as a database, as the current directory."""
    folder = shutil.copytree(EDITION, tmp_path / "project")
    with sqlite3.connect(folder / "runs/genlab.sqlite3") as store:
        store.executescript((folder / "runs/store.sql").read_text())
    monkeypatch.chdir(folder)
    return folder


def run_agent(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "genlab.cli", "agent", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_checkpoint_of_that_time_is_refused_in_one_line_with_the_fix(project: Path) -> None:
    done = run_stage(project, "evaluate", "--dataset", "arc_grids")
    assert done.status == 2
    (line,) = done.stderr.splitlines()
    assert "version 5 instead of 6" in line
    assert "dvc repro" in line


def test_a_training_begins_with_the_data_and_the_parameters_of_that_time(project: Path) -> None:
    done = run_stage(project, "train", "--dataset", "arc_grids")
    assert done.status == 0, done.stderr


def test_an_unfinished_workspace_is_shown_and_its_resumption_says_what_to_do(
    project: Path,
) -> None:
    registry = (project / WORKSPACE / "experiments/registry.json").read_bytes()
    listed = run_agent(project, "list")
    assert WORKSPACE in listed.stdout
    resumed = run_agent(project, "resume")
    assert resumed.returncode == 2
    (line,) = resumed.stderr.splitlines()
    for text in ("genlab: error: ", WORKSPACE, "genlab agent GOAL --fresh"):
        assert text in line
    assert (project / WORKSPACE / "experiments/registry.json").read_bytes() == registry
    reported = run_agent(project, "report")
    assert reported.returncode == 0, reported.stderr
    assert (project / WORKSPACE / "experiments/report.html").is_file()


def test_a_store_opens_and_keeps_its_scores(project: Path) -> None:
    with Store(project / "runs/genlab.sqlite3") as store:
        paint, fail = store.items("2026-01-01")
    assert (paint.status, paint.failure_kind) == ("scored", "")
    assert paint.score == pytest.approx(0.635, abs=0.001)
    assert (fail.status, fail.failure_kind) == ("failed", "refused")
