"""Stage agent_iterate: equal params give equal numbers, and its work outlives its outs."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from agent_runs import ROOT, write_params
from PIL import Image
from scripted_llm import Server, reply
from stage_runs import Done, run_stage

from genlab.agent.config import Settings
from genlab.core.errors import GenlabError
from genlab.core.params import load_params, parse_params

TINY = {
    "goal": "dummy stripes, 100 % accuracy", "dataset": "dummy", "backend": "search",
    "max_iterations": 2,
}  # fmt: skip
OUTS = ("data/agent", "metrics/agent.json", "results/agent.json", "plots/agent")


def _stage(place: Path, **changes: Any) -> Done:
    write_params(place, **{**TINY, **changes})
    return run_stage(place, "agent_iterate")


def _numbers(place: Path) -> tuple[bytes, bytes]:
    """What git tracks of the stage: results, and the chart's pixels without its metadata."""
    with Image.open(place / "plots/agent/progress.png") as chart:
        return (place / "results/agent.json").read_bytes(), chart.tobytes()


def _numbers_of_any_planner(place: Path) -> tuple[bytes, bytes]:
    """The same without the planner's name in the statement, which says what was replayed."""
    results, pixels = _numbers(place)
    results, count = re.subn(rb"Research agent: planner [^;]+;", b"", results)
    assert count == 1
    return results, pixels


def test_its_work_outlives_its_outs(tmp_path: Path) -> None:
    assert _stage(tmp_path).status == 0
    first = _numbers(tmp_path)
    assert {path.name for path in (tmp_path / "data/agent").iterdir()} >= {
        "model_code.py", "model_config.yaml", "report.html", "weights.safetensors",
    }  # fmt: skip
    metrics = json.loads((tmp_path / "results/agent.json").read_text())
    assert metrics["attempts"] == 2
    assert metrics["best"]["seeds"] == 2
    low, high = metrics["best"]["test"]["accuracy_interval"]
    assert low < metrics["best"]["test"]["accuracy"] < high
    registry = next(tmp_path.glob("workspaces/*/experiments/registry.json"))
    before = registry.read_bytes()
    for name in OUTS:  # as dvc does before a stage starts
        path = tmp_path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert _stage(tmp_path).status == 0
    assert registry.read_bytes() == before
    assert _numbers(tmp_path) == first


def test_a_paid_run_is_replayed_without_a_key_to_the_same_numbers(tmp_path: Path) -> None:
    paid = tmp_path / "paid"
    replayed = tmp_path / "replayed"
    one_seed = {"seeds": 1}
    with Server(reply) as server:
        assert _stage(paid, backend="openai", base_url=server.url, **one_seed).status == 0
    transcript = paid / "data/agent/transcript.jsonl"
    replay = {**one_seed, "backend": "replay", "transcript": str(transcript)}
    assert _stage(replayed, **replay).status == 0
    assert _numbers_of_any_planner(replayed) == _numbers_of_any_planner(paid)
    lines = transcript.read_text(encoding="utf-8").splitlines(keepends=True)
    transcript.write_text("".join(lines[:1]), encoding="utf-8")
    cut = _stage(tmp_path / "cut", **replay)
    assert cut.status == 2
    assert f"{transcript.name}" in cut.stderr
    assert "asks for more than is recorded" in cut.stderr


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_search_is_drawn_once_and_taken_by_the_run(tmp_path: Path) -> None:
    place = tmp_path / "one"
    twin = tmp_path / "twin"
    with Server(reply) as server:
        changes = {"backend": "openai", "base_url": server.url, "compare_with_search": True}
        for folder in (place, twin):
            write_params(folder, **{**TINY, **changes})
            assert run_stage(folder, "agent_search").status == 0
        drawn = _contents(place / "data/agent_search")
        assert drawn == _contents(twin / "data/agent_search")
        assert not list(place.glob("data/.making/*"))
        done = run_stage(place, "agent_iterate")
    assert done.status == 0
    assert "search: training" not in done.stderr
    [experiments] = place.glob("workspaces/*/search/experiments")
    assert {path.name for path in experiments.glob("search_*")} == {"search_0001", "search_0002"}
    listed = json.loads((place / "results/agent_search.json").read_text())["attempts"]
    assert [row["attempt"] for row in listed] == [1, 2]
    best = max(sum(row["accuracy"]) / len(row["accuracy"]) for row in listed)
    compared = json.loads((place / "results/agent.json").read_text())["minus_search"]
    assert compared["search"] == pytest.approx(best)


def test_without_a_comparison_no_search_is_drawn(tmp_path: Path) -> None:
    write_params(tmp_path, **TINY)
    assert run_stage(tmp_path, "agent_search").status == 0
    assert json.loads((tmp_path / "results/agent_search.json").read_text())["attempts"] == []
    assert (tmp_path / "data/agent_search/project.json").is_file()


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset": "cifar10"},  # the goal names another
        {"goal": "a CNN, > 60 %", "dataset": "cifar10"},  # it is not among datasets
    ],
)
def test_a_goal_about_other_data_is_refused(changes: dict[str, str]) -> None:
    values: dict[str, Any] = load_params(ROOT / "params.yaml").model_dump()
    values["agent"].update(changes)
    with pytest.raises(GenlabError, match=changes["dataset"]):
        Settings.from_params(parse_params(values, "params.yaml"), Path("data"))
