"""The README's sections of agent, benchmark and app say what their files say."""

import json
import shutil
from pathlib import Path

import pytest

from genlab.evaluation.reports import job_report, report
from genlab.evaluation.reports.targets import read_targets

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("job", job_report.JOBS)
def test_the_committed_readme_says_what_the_committed_files_say(job: str) -> None:
    found = job_report.texts(ROOT, job)
    assert found, f"README.md has no place for {job}"
    assert report.stale(found) == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for folder in ("benchmarks", "metrics", "results"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "benchmarks/targets.yaml", tmp_path / "benchmarks")
    (tmp_path / "results" / "benchmarks.json").write_text(
        json.dumps(
            {
                "swap.ordered": {"value": 0.97, "interval": [0.9, 1.0], "n": 60, "seeds": [0]},
                "swap.kill_lost": {"value": 3.0, "interval": None, "n": 20, "seeds": [0]},
            }
        )
    )
    marks = "".join(
        marker.format(dataset="benchmark") + "\n" for marker in (report.BEGIN, report.END)
    )
    (tmp_path / "README.md").write_text(f"# Before\n{marks}after\n")
    return tmp_path


def test_a_bar_is_reached_missed_or_not_measured(repository: Path) -> None:
    [text] = job_report.texts(repository, "benchmark").values()
    rows = {row.split("`")[1]: row for row in text.splitlines() if "(`swap." in row}
    assert set(rows) == set(read_targets(ROOT, "swap."))
    assert rows["swap.ordered"].endswith("| 0.97 | 0.9, 1 | 60 | 0.95 | 1 | reached |")
    assert rows["swap.kill_lost"].endswith("| **missed** |")
    assert rows["swap.score_s"].endswith("| not measured |")
    assert text.startswith("# Before\n")
    assert text.endswith("after\n")


def test_tools_without_a_score_stand_last_in_the_leaderboard(repository: Path) -> None:
    tool = {"low": None, "high": None, "rank": None, "scored": 0, "cases": 2}
    scored = {"low": 0.4, "high": 0.6, "rank": 1, "scored": 2, "cases": 2}
    (repository / "metrics" / "benchmark.json").write_text(
        json.dumps({"tools": {"broken": {**tool, "score": None}, "good": {**scored, "score": 0.5}}})
    )
    [text] = job_report.texts(repository, "benchmark").values()
    assert text.index("| `good` | 1 | 0.5 | 0.4, 0.6 | 2 | 2 |") < text.index(
        "| `broken` | – | – |"
    )


def test_a_readme_without_that_section_is_left_alone(repository: Path) -> None:
    assert job_report.texts(repository, "app") == {}
