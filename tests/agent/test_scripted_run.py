"""The loop follows a capable planner and coder, believes no claim, and reports what happened.

The scripted model plans a residual network, claims falsely that it reaches the goal, tries a
depthwise one from the baseline, branches back to the residual one and widens it. It writes all code
itself, gets one file wrong and fixes it, and miscounts parameters.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from pathlib import Path
from typing import Any

import llm_server
import pytest
from llm_server import Reply, Request, Server, good
from safetensors.numpy import load
from scripted_llm import IMAGES, asked_for, everything

from genlab.agent.attempt import CODE, SUMMARY, WEIGHTS
from genlab.agent.goal import goal
from genlab.agent.progress import Silent
from genlab.agent.report import MARKDOWN, PAGE
from genlab.agent.run import run
from genlab.agent.settings import Settings
from genlab.agent.story import Story, story
from genlab.agent.workspace import lay_out
from genlab.core.io import read_json
from genlab.core.params import AgentParams, load_params

GOAL = "Classify the dummy images, validation loss below 0.05"
CLAIM = "It has 123,456 parameters and looks sound."
NAMES = ("TinyResidual", "TinyDepthwise", "WideResidual")
HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
UNIT = '''class Unit(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.scan = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.scan_norm = nn.BatchNorm2d(outputs)
        self.blend = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.blend_norm = nn.BatchNorm2d(outputs)
        self.around = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.around_norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        y = F.relu(self.scan_norm(self.scan(x)))
        y = self.blend_norm(self.blend(y))
        return F.max_pool2d(F.relu(y + self.around_norm(self.around(x))), 2, ceil_mode=True)


'''
TINY = (
    HEAD
    + UNIT
    + '''class TinyResidual(nn.Module):
    """One unit."""

    def __init__(self):
        super().__init__()
        self.unit = Unit(CHANNELS, 8)
        self.readout = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.readout(self.unit(x).mean(dim=(2, 3)))
'''
)
DEPTHWISE = (
    HEAD
    + '''class TinyDepthwise(nn.Module):
    """A convolution a channel, then one across them."""

    def __init__(self):
        super().__init__()
        self.each = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS, bias=False)
        self.each_norm = nn.BatchNorm2d(CHANNELS)
        self.across = nn.Conv2d(CHANNELS, 8, 1, bias=False)
        self.across_norm = nn.BatchNorm2d(8)
        self.readout = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = F.relu(self.each_norm(self.each(x)))
        x = F.max_pool2d(F.relu(self.across_norm(self.across(x))), 2, ceil_mode=True)
        return self.readout(POOLED)
'''
)
WIDE = (
    HEAD
    + UNIT
    + '''class WideResidual(nn.Module):
    """Two units, and a hidden layer on the means and the peaks that they leave."""

    def __init__(self):
        super().__init__()
        self.units = nn.Sequential(Unit(CHANNELS, 16), Unit(16, 32))
        self.hidden = nn.Linear(32, 64)
        self.readout = nn.Linear(64, CLASSES)

    def forward(self, x):
        x = self.units(x)
        x = x.mean(dim=(2, 3)) + x.amax(dim=(2, 3))
        return self.readout(F.relu(self.hidden(x)))
'''
)


def block(kind: str, channels: int) -> dict[str, Any]:
    return {"kind": kind, "channels": channels, "kernel": 3, "halve": True}


PLANS: tuple[dict[str, Any], ...] = (
    {
        "branch_from": "1",
        "modifications": "A residual unit in place of the plain block.",
        "architecture": {"name": NAMES[0], "blocks": [block("residual", 8)]},
    },
    {
        "branch_from": "1",
        "modifications": "A depthwise convolution is cheaper; perhaps it is enough.",
        "architecture": {"name": NAMES[1], "blocks": [block("depthwise", 8)]},
    },
    {
        "branch_from": "2",
        "modifications": "Back to residual units: two, wider, with a hidden layer.",
        "architecture": {
            "name": NAMES[2],
            "blocks": [block("residual", 16), block("residual", 32)],
            "hidden": [64],
        },
        "calls": {"eval_config": {"lr": 0.01, "batch_size": 32, "optimiser": "adamw"}},
    },
)
REVIEWS: tuple[dict[str, Any], ...] = (
    {"assessment": "Good enough.", "decision": "achieved"},  # it is not
    {"assessment": "Too weak.", "decision": "revise", "revised_goal": "Be content with 20 %."},
    {"assessment": "There it is.", "strengths": ["wide"], "decision": "achieved"},
)


class Script:
    """Answers question after question; the images' shape is read from the first prompt."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.shape = ("1", "10")  # channels and classes

    def __call__(self, request: Request) -> Reply:
        kind = asked_for(request)
        number = self.asked[kind]
        self.asked[kind] += 1
        if kind == "Analysis":
            return good({"analysis": CLAIM})
        if kind == "Proposal" and (found := IMAGES.search(everything(request))):
            self.shape = (found[1], found[4])
        codes = [{"code": code} for code in self.codes]
        answers = {"Proposal": PLANS, "Review": REVIEWS, "Code": codes}[kind]
        return good(answers[number]) if number < len(answers) else llm_server.refusal()

    @property
    def codes(self) -> list[str]:
        """The files in the order in which they are written; the second one does not flatten."""
        wrong, right = (
            DEPTHWISE.replace("POOLED", pooled) for pooled in ("x", "x.mean(dim=(2, 3))")
        )
        channels, classes = self.shape
        return [
            code.replace("CHANNELS", channels).replace("CLASSES", classes)
            for code in (TINY, wrong, right, WIDE)
        ]


Played = tuple[Story, Script]


@pytest.fixture(scope="module")
def played(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """A run that follows the script."""
    script = Script()
    with Server(script) as server:
        changes = {
            "goal": GOAL, "backend": "openai", "base_url": server.url, "planning_model": "scripted",
            "compare_with_search": False, "max_iterations": 5, "patience": 5, "epochs": 3,
            "subset": 600, "validation": 150, "seeds": 1, "max_parameters": 20_000,
            "max_tokens": 0, "max_seconds": 0.0, "time_limit": 900.0,
        }  # fmt: skip
        params = AgentParams(**{**load_params(root / "params.yaml").agent.model_dump(), **changes})
        workspace = lay_out(tmp_path_factory.mktemp("scripted") / "project", GOAL)
        run(Settings(goal(GOAL), params), workspace, Silent())
        return story(workspace), script


def test_plans_of_the_model_are_followed_and_branched_as_it_asked(played: Played) -> None:
    first, residual, depthwise, wide = played[0].attempts
    assert [each.model_name for each in (residual, depthwise, wide)] == [*NAMES]
    assert {each.plan_origin for each in (residual, depthwise, wide)} == {"llm"}
    parents = [each.parent for each in (residual, depthwise, wide)]
    assert parents == [first.run_id, first.run_id, residual.run_id]
    assert wide.training.model_dump() == PLANS[2]["calls"]["eval_config"]


def test_each_question_is_asked_once_and_one_file_is_fixed(played: Played) -> None:
    story, script = played
    assert script.asked == Counter(Proposal=3, Code=4, Analysis=3, Review=3)
    origins = [each.code_origin for each in story.attempts]
    assert origins == ["template", "llm", "llm+repaired(1)", "llm"]


def test_the_code_of_the_model_is_what_was_trained(played: Played) -> None:
    story, script = played
    tiny, _, depthwise, wide = script.codes
    for attempt, code in zip(story.attempts[1:], (tiny, depthwise, wide), strict=True):
        folder = story.workspace.root / attempt.experiment_dir
        assert (folder / CODE).read_text(encoding="utf-8") == code
        assert "readout.weight" in load((folder / WEIGHTS).read_bytes())


def test_no_claim_is_believed(played: Played) -> None:
    story, _ = played
    _, residual, depthwise, wide = story.attempts
    assert residual.decision == "iterate"
    assert depthwise.decision == "revise"
    assert story.revised_goals
    summary = read_json(
        story.workspace.root / wide.experiment_dir / SUMMARY, producer_command="the agent"
    )
    assert "the LLM said 123,456 parameters" in str(summary["overruled"])


def test_it_stops_at_the_goal(played: Played) -> None:
    story, _ = played
    assert story.verdict == "achieved"
    assert story.best == story.attempts[-1]
    assert story.attempts[-1].reached(story.settings.goal, story.settings.seeds)


def test_the_report_holds_verdict_numbers_code_and_origins(played: Played) -> None:
    story, script = played
    text = (story.workspace.experiments / MARKDOWN).read_text(encoding="utf-8")
    page = (story.workspace.experiments / PAGE).read_text(encoding="utf-8")
    plain = re.sub(r"\\(.)", r"\1", text)
    rows = [line for line in plain.splitlines() if re.match(r"\| \d+ \|", line)]
    for attempt, row in zip(story.attempts, rows, strict=True):
        assert f"{attempt.value(story.settings.goal.metric):.4f}" in row
    assert "attempt 4 reaches" in plain
    assert "attempt 4 reaches" in page
    assert script.codes[-1].rstrip() in text
    assert "class WideResidual(nn.Module):" in html.unescape(page)
    assert "template 1, llm 2, llm+repaired 1" in plain
