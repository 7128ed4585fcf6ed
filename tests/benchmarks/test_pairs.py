"""Pairs of timed runs are stored, resumed, and compared stage by stage."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import pairs
from genlab.core import git

RUNS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"seconds": 100.0, "stages": {"train@a": {"seconds": 30.0}, "train@b": {"seconds": 50.0}}},
        {
            "seconds": seconds,
            "stages": {"train@a": {"seconds": 20.0}, "judges@a": {"seconds": 9.0}},
        },
    )
    for seconds in (40.0, 60.0, 90.0)
]


def test_the_median_of_the_ratios_counts() -> None:
    result = pairs.compare_walls("pipeline.ratio", RUNS)
    assert (result.value, result.n) == (0.6, 3)
    assert result.details["ratios"] == [0.4, 0.6, 0.9]


def test_stages_are_added_over_datasets() -> None:
    assert pairs.sum_stages(RUNS[0][0], ("train",)) == 80.0
    assert pairs.sum_stages(RUNS[0][1], ("judges", "evaluate")) == 9.0


def test_commits_run_in_turn_and_stored_runs_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "PLACE", tmp_path)
    head = git.resolve_commit(pairs.ROOT, "HEAD")
    measured = []

    def measure(clone: Path, environment: dict[str, str]) -> dict[str, Any]:
        assert (clone / "dvc.yaml").is_file()
        assert list((clone / "checkpoints").glob("*.judges.*")) == []
        assert not Path(environment["XDG_CACHE_HOME"]).exists()
        measured.append(clone)
        if len(measured) == 2:
            raise KeyboardInterrupt
        return {"seconds": float(len(measured))}

    with pytest.raises(KeyboardInterrupt):
        list(pairs.run_pairs("small", measure, head, 2))
    # Baseline and HEAD are one commit here, so that one run serves both sides of a pair.
    finished = list(pairs.run_pairs("small", measure, head, 2))
    seconds = [(before["seconds"], after["seconds"]) for before, after in finished]
    assert seconds == [(1.0, 1.0), (3.0, 3.0)]


def test_seconds_of_children_that_ended() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(10**7))'])"
    with subprocess.Popen(
        [sys.executable, "-c", f"{code}; print('done', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        assert pairs.children_seconds(process.pid) > 0
        process.communicate("\n")
