"""The loop follows a capable planner and coder, believes no claim, and reports what happened.

The scripted model plans a wide network, claims falsely that it reaches the goal, then branches back
to the baseline with one that does. It writes all code itself, gets one file wrong and fixes it, and
miscounts parameters.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from agent_runs import settings
from llm_server import Reply, Request, Server, good
from safetensors.numpy import load
from scripted_llm import answer, asked_for

from genlab.agent.attempt import CODE, SUMMARY, WEIGHTS
from genlab.agent.goal import goal
from genlab.agent.progress import Silent
from genlab.agent.report import MARKDOWN, PAGE
from genlab.agent.run import run
from genlab.agent.story import Story, story
from genlab.agent.workspace import lay_out
from genlab.core.io import read_json

GOAL = goal("dummy stripes", metric="parameters", at_most=100)  # the baseline has 124
CLAIM = "It has 123,456 parameters and looks sound."


def plan(name: str, channels: int) -> dict[str, Any]:
    block = {"kind": "plain", "channels": channels, "kernel": 1, "halve": True}
    return {
        "branch_from": "1",
        "modifications": f"Try {channels} channels.",
        "architecture": {"name": name, "blocks": [block]},
        "calls": {"eval_config": {"lr": 0.01, "batch_size": 32, "optimiser": "sgd"}},
    }


PLANS = (plan("Wide", 64), plan("Narrow", 4))
REVIEWS: tuple[dict[str, Any], ...] = (
    {"assessment": "Good enough.", "decision": "achieved"},  # it is not
    {"assessment": "There it is.", "strengths": ["narrow"], "decision": "achieved"},
)


class Script:
    """Answers question after question; the first file of the second network has a fault."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.codes: list[str] = []

    def __call__(self, request: Request) -> Reply:
        kind = asked_for(request)
        self.asked[kind] += 1
        number = self.asked[kind] - 1
        if kind == "Code":
            code = f"# By hand.\n{answer(request)['code']}"
            self.codes.append(code.replace("self.layers(x)", "self.gone(x)") if number == 1 else code)
            return good({"code": self.codes[-1]})
        return good({"Proposal": PLANS, "Review": REVIEWS}.get(kind, [{"analysis": CLAIM}] * 2)[number])


Played = tuple[Story, Script]


@pytest.fixture(scope="module")
def played(lab: object, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """A run that follows the script."""
    script = Script()
    with pytest.MonkeyPatch.context() as patch, Server(script) as server:
        patch.setenv("OPENAI_API_KEY", "none")
        chosen = settings(GOAL, base_url=server.url, seeds=1, compare_with_search=False)
        workspace = lay_out(tmp_path_factory.mktemp("scripted") / "project", GOAL.text)
        run(chosen, workspace, Silent())
        return story(workspace), script


def test_plans_and_code_of_the_model_are_what_was_trained(played: Played) -> None:
    story, script = played
    baseline, wide, narrow = story.attempts
    assert script.asked == Counter(Proposal=2, Code=3, Analysis=2, Review=2)
    assert [each.code_origin for each in story.attempts] == ["template", "llm", "llm+repaired(1)"]
    for attempt, asked, code in zip((wide, narrow), PLANS, script.codes[::2], strict=True):
        assert attempt.plan_origin == "llm"
        assert attempt.model_name == asked["architecture"]["name"]
        assert attempt.parent == baseline.run_id
        assert attempt.training.model_dump() == asked["calls"]["eval_config"]
        folder = story.workspace.root / attempt.experiment_dir
        assert (folder / CODE).read_text(encoding="utf-8") == code
        assert load((folder / WEIGHTS).read_bytes())


def test_no_claim_is_believed_and_the_run_stops_at_the_goal(played: Played) -> None:
    story, _ = played
    _, wide, narrow = story.attempts
    assert (wide.decision, narrow.decision) == ("iterate", "achieved")
    assert (story.verdict, story.best) == ("achieved", narrow)
    path = story.workspace.root / wide.experiment_dir / SUMMARY
    assert "123,456" in str(read_json(path, producer_command="the agent")["overruled"])


def test_the_report_holds_verdict_numbers_code_and_origins(played: Played) -> None:
    story, script = played
    text = (story.workspace.experiments / MARKDOWN).read_text(encoding="utf-8")
    page = (story.workspace.experiments / PAGE).read_text(encoding="utf-8")
    plain = re.sub(r"\\(.)", r"\1", text)
    rows = [line for line in plain.splitlines() if re.match(r"\| \d+ \|", line)]
    for attempt, row in zip(story.attempts, rows, strict=True):
        assert f"{attempt.value('parameters'):g}" in row
    assert script.codes[-1].rstrip() in text
    assert "class Narrow(nn.Module):" in html.unescape(page)
    for said in ("attempt 3 reaches", "template 1, llm 1, llm+repaired 1"):
        assert said in plain
        assert said in html.unescape(page)
