"""The agent's loop: it follows a planner, believes only numbers, and survives being killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from agent_runs import settings
from llm_server import Reply, Request, Server, good, refusal, status
from scripted_llm import asked_for

from genlab.agent import backends, loop
from genlab.agent.attempt import attempts, mended, shown
from genlab.agent.coder import Written
from genlab.agent.goal import goal
from genlab.agent.lab import Lab
from genlab.agent.loop import Outcome, iterate
from genlab.agent.progress import Silent
from genlab.agent.registry import Registry
from genlab.agent.settings import Settings
from genlab.agent.workspace import CONFIG, MODEL, Workspace, lay_out
from genlab.core.errors import GenlabError

pytestmark = pytest.mark.slow

SMALLER = goal("dummy stripes", metric="parameters", at_most=100)  # than the baseline's 124
TINY = {"blocks": [{"kind": "plain", "channels": 4, "kernel": 1, "halve": True}]}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return lay_out(tmp_path / "project", "stripes")


def planner(
    *architectures: dict[str, Any], review: dict[str, Any] | None = None, branch: str | None = None
) -> Callable[[Request], Reply]:
    """A model that proposes one architecture after the other, the last one for ever."""
    left = list(architectures)

    def answer(request: Request) -> Reply:
        if asked_for(request) == "Review":
            return good({"assessment": "seen", "decision": "iterate", **(review or {})})
        architecture = left.pop(0) if len(left) > 1 else left[0]
        return good(
            {"modifications": "smaller", "branch_from": branch, "architecture": architecture}
        )

    return answer


@dataclass(frozen=True)
class Played:
    """How a run ended, and what its planner was asked."""

    outcome: Outcome
    questions: list[str]


@pytest.fixture
def play(lab: Lab, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Played]:
    """Run the loop with a planner that answers by `script`, from where the workspace stands."""
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-of-nobody")

    def played(chosen: Settings, script: Any) -> Played:
        known = attempts(mended(workspace))
        start = known[-1].place if known else 0
        with Server(script) as server:
            params = chosen.params.model_copy(update={"base_url": server.url})
            with backends.opened(params, workspace, Silent(), start=start) as backend:
                outcome = iterate(replace(chosen, params=params), backend, workspace, lab=lab)
        return Played(outcome, [asked_for(request) for request in server.requests])

    return played


Play = Callable[..., Played]


def test_search_begins_with_the_baseline_and_leaves_its_files(
    lab: Lab, workspace: Workspace
) -> None:
    chosen = settings(backend="search")
    outcome = iterate(chosen, None, workspace, lab=lab)
    assert outcome.verdict == "stopped: 3 attempts were made, as many as allowed"
    assert [each.plan_origin for each in outcome.attempts] == ["baseline", "search", "search"]
    assert {each.code_origin for each in outcome.attempts} == {"template"}
    assert outcome.attempts[2].parent in {each.run_id for each in outcome.attempts[:2]}
    for record in Registry(workspace).records():
        names = {path.name for path in (workspace.root / record.experiment_dir).iterdir()}
        assert names == {
            "model_config.yaml", "model_code.py", "summary.json", "results.json",
            "weights.safetensors",
        }  # fmt: skip
    assert outcome.best is not None
    code = workspace.root / outcome.best.experiment_dir / "model_code.py"
    assert (workspace.root / MODEL).read_text() == code.read_text()
    assert "architecture" in (workspace.root / CONFIG).read_text()
    again = iterate(chosen, None, workspace, lab=lab)
    assert [each.run_id for each in again.attempts] == [each.run_id for each in outcome.attempts]


def test_search_draws_by_seed_and_number_alone(lab: Lab, tmp_path: Path) -> None:
    def digests(name: str, seed: int, *most: int) -> list[str]:
        place = lay_out(tmp_path / name)
        for count in most:
            chosen = settings(backend="search", max_iterations=count, seed=seed)
            outcome = iterate(chosen, None, place, lab=lab)
        return [each.candidate.digest for each in outcome.attempts]

    in_one = digests("one", 5, 3)
    assert digests("resumed", 5, 2, 3) == in_one
    assert digests("other", 6, 2)[1] != in_one[1]


def test_a_planner_is_followed_until_the_numbers_reach_the_goal(play: Play) -> None:
    run = play(settings(SMALLER), planner(TINY, branch="1"))
    assert run.outcome.verdict == "achieved"
    last = run.outcome.attempts[-1]
    assert (last.iteration, last.parent) == (2, run.outcome.attempts[0].run_id)
    assert last.remark == "smaller"
    assert [each["seed"] for each in last.checked] == [0, 1]
    assert last.reason.startswith("the numbers reach parameters <= 100")
    assert run.questions == ["Proposal", "Review"]


def test_a_baseline_that_reaches_the_goal_is_no_find_of_the_agent(play: Play) -> None:
    easy = goal("dummy stripes", metric="parameters", at_most=10_000)
    run = play(settings(easy), planner(TINY))
    assert run.outcome.verdict == "baseline_reached_it"
    assert run.questions == []


@pytest.mark.parametrize(
    ("review", "last", "verdict"),
    [
        ({"decision": "achieved"}, "iterate", "stopped: 2 attempts"),
        ({"decision": "stop"}, "stop", "stopped: the planner says"),
        ({"decision": "revise", "revised_goal": "20 %"}, "revise", "stopped: 2 attempts"),
    ],
    ids=["a false claim", "stop", "another goal"],
)
def test_a_review_may_stop_the_run_and_nothing_more(
    play: Play, review: dict[str, str], last: str, verdict: str
) -> None:
    run = play(settings(max_iterations=2), planner(TINY, review=review))
    assert run.outcome.verdict.startswith(verdict)
    assert run.outcome.attempts[-1].decision == last
    assert run.outcome.attempts[-1].review["revised_goal"] == review.get("revised_goal", "")


WIDE = {"blocks": [{"kind": "plain", "channels": 9999, "kernel": 3, "halve": True}]}


@pytest.mark.parametrize(
    ("changes", "script", "failure"),
    [
        ({}, [refusal(), status(400, message="no"), refusal()], "refused"),
        ({"repair": False}, planner(WIDE), "was refused: blocks[0].channels"),
    ],
    ids=["no answer", "no repair"],
)
def test_where_the_planner_fails_search_steps_in_and_it_is_reported(
    play: Play, changes: dict[str, bool], script: Any, failure: str
) -> None:
    last = play(settings(max_iterations=2, **changes), script).outcome.attempts[-1]
    assert last.plan_origin == "search"
    assert failure in last.planner_failure
    assert last.values("accuracy")


def test_a_weak_planner_is_relieved_after_an_attempt_without_a_gain(play: Play) -> None:
    bigger = {"blocks": [{"kind": "plain", "channels": 64, "kernel": 1, "halve": True}]}
    fewest = goal("dummy stripes", metric="parameters", at_most=1)
    run = play(settings(fewest, relief=True), planner(bigger))
    assert [each.plan_origin for each in run.outcome.attempts] == ["baseline", "llm", "search"]
    assert run.outcome.attempts[2].remark.startswith("Search's turn")
    assert run.questions == ["Proposal", "Review", "Review"]


def test_a_spent_budget_ends_the_run_and_a_raised_one_takes_it_further(play: Play) -> None:
    tight = play(settings(max_tokens=30), planner(TINY))  # a question takes 18
    assert tight.outcome.verdict.startswith("stopped: budget of tokens is spent")
    assert len(tight.outcome.attempts) == 2
    raised = play(settings(), planner({**TINY, "hidden": [8]}))
    assert len(raised.outcome.attempts) == 3
    assert tight.questions == raised.questions == ["Proposal", "Review"]


BROKEN = """from torch import nn
class {name}(nn.Module):
    def forward(self, x):
        raise ValueError("it does not answer")
"""


def test_a_model_that_cannot_be_trained_is_a_failed_attempt_and_the_run_goes_on(
    lab: Lab, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        loop, "assemble", lambda config, *_: Written(BROKEN.format(name=config.name), "template")
    )
    outcome = iterate(settings(backend="search", max_iterations=2), None, workspace, lab=lab)
    assert [each.decision for each in outcome.attempts] == ["failed", "failed"]
    assert outcome.best is None
    assert outcome.attempts[0].values("accuracy") == []
    assert "does not answer" in shown(outcome.attempts)[0].failure


def test_what_a_kill_came_between_is_put_right(lab: Lab, workspace: Workspace) -> None:
    outcome = iterate(settings(backend="search", max_iterations=2), None, workspace, lab=lab)
    path = workspace.experiments / "registry.json"
    path.write_text(json.dumps(json.loads(path.read_text())[:1]))  # the second is not entered yet
    (workspace.experiments / "qe_20200101_000000").mkdir()  # and a third was just begun
    (workspace.experiments / "qe_20200101_000000" / "model_code.py").write_text("half")
    found = attempts(mended(workspace))
    assert [each.run_id for each in found] == [each.run_id for each in outcome.attempts]
    assert not (workspace.experiments / "qe_20200101_000000").exists()


def test_two_runs_do_not_work_in_one_workspace(lab: Lab, workspace: Workspace) -> None:
    class Second(Silent):
        def begin(self, number: int, most: int) -> None:
            with pytest.raises(GenlabError, match="another run"):
                iterate(settings(backend="search"), None, workspace, lab=lab)

    iterate(settings(backend="search", max_iterations=1), None, workspace, Second(), lab)
