"""The agent's report tells what the files say, and nothing that a model wrote gets out of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agent_runs import EVIL, GOAL, SUMMARY, attempt, write_attempts
from pages import Page

from genlab.agent import report, snapshot
from genlab.agent.attempt import keep
from genlab.agent.comparison import search_workspace
from genlab.agent.goal import goal
from genlab.agent.registry import Registry
from genlab.agent.settings import Settings
from genlab.agent.story import RUN_KIND, run_file, story
from genlab.agent.workspace import Workspace, lay_out
from genlab.core.errors import GenlabError
from genlab.core.io import write_json
from genlab.core.params import load_params

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return lay_out(tmp_path / "project", GOAL.text)


def test_what_a_model_wrote_stays_text(workspace: Workspace) -> None:
    evil = attempt(
        2, 0.95, 0.95, 0.95, model_name="Net", decision="achieved", remark=EVIL, reason=EVIL,
        faults=[EVIL], edits=[EVIL], planner_failure=EVIL, plan_origin="llm",
        review={"assessment": EVIL, "strengths": [EVIL], "weaknesses": [EVIL],
                "decision": "revise", "revised_goal": EVIL},
    )  # fmt: skip
    code = f"class Net:\n    '''{EVIL}\n```\n'''"
    write_attempts(workspace, attempt(1, 0.5), evil, code=code)
    page = Page(report.write(workspace).read_text(encoding="utf-8"))
    assert not page.tags & {"script", "a", "iframe", "b", "link"}
    assert page.text.count("<script>alert(1)</script>") >= 9
    assert all(link.startswith("data:image/png") for link in page.addresses)
    markdown = (workspace.experiments / report.MARKDOWN).read_text(encoding="utf-8")
    before, fence, rest = markdown.partition("````python\n")
    assert fence  # longer than the fence within the code
    prose = before + rest.partition("\n````\n")[2]
    assert "<script" not in prose.replace("\\<script", "")
    assert "[a](" not in prose
    assert "\n# head" not in prose


def test_a_run_without_a_single_number_has_a_report(workspace: Workspace) -> None:
    write_attempts(workspace, attempt(1, failure="it broke <b>"), verdict="stopped: no gain")
    page = report.write(workspace).read_text(encoding="utf-8")
    assert "it broke &lt;b&gt;" in page
    assert "The best model" not in page
    assert story(workspace).best is None


def test_a_lucky_first_seed_does_not_pass_one_that_holds_on_all(workspace: Workspace) -> None:
    write_attempts(workspace, attempt(1, 0.5), attempt(2, 0.99, 0.2), attempt(3, 0.91, 0.91, 0.92))
    best = story(workspace).best
    assert best is not None
    assert best.iteration == 3


def test_search_at_the_same_budget_stands_beside_it(workspace: Workspace) -> None:
    beside = lay_out(search_workspace(workspace).root)
    for each in (attempt(1, 0.5), attempt(2, 0.7, 0.71, 0.72)):
        keep(beside.root / each.experiment_dir, each, "", SUMMARY, b"")
        Registry(beside).put(each)
    write_attempts(workspace, attempt(1, 0.5), attempt(2, 0.95, 0.93, 0.94))
    found = story(workspace).comparison
    assert found is not None
    assert found.difference == pytest.approx(0.23)
    assert found.interval is not None
    low, high = found.interval
    assert low == pytest.approx(0.23 - 2.776445 * 0.00816497, abs=1e-6)  # Welch, 4 degrees
    assert low + high == pytest.approx(0.46)
    assert found.words == "the run's best is better than search's"
    assert (found.run_reached, found.search_reached) == (2, None)
    page = report.write(workspace).read_text(encoding="utf-8")
    assert "95 % interval 0.2073 to 0.2527 (3 and 3 seeds)" in page


def test_the_snapshot_holds_neither_clock_nor_run_id(workspace: Workspace, tmp_path: Path) -> None:
    test = {"accuracy": 0.9, "low": 0.8, "high": 0.95, "loss": 0.1, "n": 10}
    best = attempt(2, 0.95, 0.93, 0.94, decision="achieved", test=test)
    write_attempts(workspace, attempt(1, 0.5), best)
    report.write(workspace)
    out, metrics, plots = tmp_path / "out", tmp_path / "agent.json", tmp_path / "plots"
    (out / "transcript.jsonl").parent.mkdir()
    (out / "transcript.jsonl").write_text("of an older run")
    snapshot.write(workspace, out, tmp_path / "metrics.json", metrics, plots)
    text = metrics.read_text()
    assert "qe_" not in text
    assert "2026" not in text
    assert "seconds" not in text
    found = json.loads(text)
    assert found["reached_by_agent"] is True
    assert found["best"]["val_accuracy"] == {"mean": 0.94, "min": 0.93, "max": 0.95}
    assert found["best"]["test_accuracy"] == {"accuracy": 0.9, "low": 0.8, "high": 0.95}
    assert {path.name for path in out.iterdir()} == {
        "model_code.py", "model_config.yaml", "weights.safetensors", "report.md", "report.html",
        "progress.png", "progress_dark.png",
    }  # fmt: skip
    first = (plots / "progress.png").read_bytes()
    report.write(workspace)
    snapshot.write(workspace, out, tmp_path / "metrics.json", metrics, plots)
    assert (plots / "progress.png").read_bytes() == first


def test_another_marking_or_other_data_make_another_key(tmp_path: Path) -> None:
    params = load_params(ROOT / "params.yaml").agent
    wanted = goal("mnist, > 90 % accuracy")
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train.npy").write_bytes(b"one")

    def key(**changes: Any) -> str:
        return snapshot.key(Settings(wanted, params.model_copy(update=changes), 0, tmp_path))

    first = key()
    assert key() == first
    assert key(subset=4000) != first
    assert key(max_iterations=9) != first
    (tmp_path / "mnist" / "train.npy").write_bytes(b"two")
    assert key() != first


def test_a_folder_without_a_run_is_reported_in_a_line(workspace: Workspace) -> None:
    with pytest.raises(GenlabError, match=r"run\.json is missing"):
        story(workspace)
    write_json(run_file(workspace), {"kind": RUN_KIND, "version": 1})
    with pytest.raises(GenlabError, match="is damaged"):
        story(workspace)
