"""A planner and a coder as a capable LLM would be, scripted, behind a real endpoint.

It plans a residual net, claims falsely that this reaches the goal, tries a depthwise one from the
baseline, branches back to the residual one, and widens it. It writes all code itself, gets one file
wrong and mends it when it is told, and miscounts parameters. The loop has to follow it, run its
code and no other, believe none of its claims, stop at the goal, and report what happened.
"""

from __future__ import annotations

import html
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from safetensors.numpy import load

from agent_server import (
    IMAGES,
    Reply,
    Request,
    Server,
    asked_for,
    everything,
    good,
    llm_server,
)
from agent_setting import Setting
from genlab.agent.attempt import CODE, SUMMARY, WEIGHTS, Attempt
from genlab.agent.progress import Silent
from genlab.agent.report import MARKDOWN, PAGE
from genlab.agent.run import run
from genlab.agent.story import Story, story
from genlab.agent.workspace import lay_out
from genlab.core.io import read_json

GOAL = "Design a CNN for Fashion-MNIST, at least 60 % accuracy"
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
        self.verdict = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.verdict(self.unit(x).mean(dim=(2, 3)))
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
        self.verdict = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = F.relu(self.each_norm(self.each(x)))
        x = F.max_pool2d(F.relu(self.across_norm(self.across(x))), 2, ceil_mode=True)
        return self.verdict(POOLED)
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
        self.thought = nn.Linear(32, 64)
        self.verdict = nn.Linear(64, CLASSES)

    def forward(self, x):
        x = self.units(x)
        x = x.mean(dim=(2, 3)) + x.amax(dim=(2, 3))
        return self.verdict(F.relu(self.thought(x)))
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
    """Answers question after question; `shape` of images is read off the first prompt."""

    def __init__(self) -> None:
        self.shape = (1, 28, 28)
        self.classes = 10
        self.asked: list[str] = []

    def __call__(self, request: Request) -> Reply:
        wanted = asked_for(request)
        number = self.asked.count(wanted)
        self.asked.append(wanted)
        told = {"Proposal": PLANS, "Review": REVIEWS, "Code": self.files}.get(wanted, (CLAIM,) * 9)
        if number >= len(told):
            return llm_server.refusal()  # the script is at its end: the loop should be, too
        if wanted == "Proposal":
            found = IMAGES.search(everything(request))
            assert found is not None
            channels, height, width, self.classes = map(int, found.groups())
            self.shape = (channels, height, width)
            return good(PLANS[number])
        if wanted == "Review":
            return good(REVIEWS[number])
        if wanted == "Code":
            return good({"code": self.files[number]})
        return good({"analysis": CLAIM})

    @property
    def files(self) -> list[str]:
        """What it writes, in order; the second one forgets to flatten."""
        wrong = DEPTHWISE.replace("POOLED", "x")
        right = DEPTHWISE.replace("POOLED", "x.mean(dim=(2, 3))")
        return [self._filled(file) for file in (TINY, wrong, right, WIDE)]

    @property
    def standing(self) -> list[str]:
        """The files that are right, in order of the attempts after the baseline."""
        tiny, _, depthwise, wide = self.files
        return [tiny, depthwise, wide]

    def _filled(self, file: str) -> str:
        return file.replace("CHANNELS", str(self.shape[0])).replace("CLASSES", str(self.classes))


def faults(told: Story, script: Script) -> list[str]:
    """What the loop or its report got wrong, a line each."""
    promises = {
        "four attempts were made": len(told.attempts) == 4,
        "the goal was reached": told.verdict == "achieved",
        "every question was asked that had to be": Counter(script.asked)
        == Counter(Proposal=3, Code=4, Analysis=3, Review=3),
    }
    if len(told.attempts) == 4:
        _, residual, depthwise, wide = told.attempts
        promises |= {
            "it followed the plans": [each.model_name for each in told.attempts[1:]] == [*NAMES],
            "plans are the LLM's own": all(a.plan_origin == "llm" for a in told.attempts[1:]),
            "it trained as it was told": wide.training.model_dump()
            == PLANS[2]["calls"]["eval_config"],
            "it branched": [residual.parent, depthwise.parent, wide.parent]
            == [told.attempts[0].run_id, told.attempts[0].run_id, residual.run_id],
            "the LLM's code ran": all(map(ran, [told] * 3, told.attempts[1:], script.standing)),
            "one file was mended": [each.code_origin for each in told.attempts]
            == ["template", "llm", "llm+repaired(1)", "llm"],
            "a false claim was overruled": residual.decision == "iterate"
            and "does not hold" in residual.reason,
            "a revised goal was told and not taken": depthwise.decision == "revise"
            and bool(told.revised_goals),
            "it stopped at the goal": told.best is not None and told.best.run_id == wide.run_id,
            "on all seeds": wide.reached(told.settings.goal, told.settings.seeds),
            "a miscounted number was put right": "the LLM said 123,456 parameters"
            in str(
                read_json(folder(told, wide) / SUMMARY, producer_command="the agent")["overruled"]
            ),
            **report_promises(told, script),
        }
    return [f"broken: {promise}" for promise, kept in promises.items() if not kept]


def folder(told: Story, attempt: Attempt) -> Path:
    return told.workspace.root / attempt.experiment_dir


def ran(told: Story, attempt: Attempt, file: str) -> bool:
    """Whether `file` is what was kept, and the weights that were trained bear its own names."""
    kept = (folder(told, attempt) / CODE).read_text(encoding="utf-8")
    weights = load((folder(told, attempt) / WEIGHTS).read_bytes())
    return kept == file and "verdict.weight" in weights


def report_promises(told: Story, script: Script) -> dict[str, bool]:
    """What the report has to say, and whether it does."""
    text = (told.workspace.experiments / MARKDOWN).read_text(encoding="utf-8")
    page = (told.workspace.experiments / PAGE).read_text(encoding="utf-8")
    plain = re.sub(r"\\(.)", r"\1", text)
    metric = told.settings.goal.metric
    rows = [line for line in plain.splitlines() if re.match(r"\| \d+ \|", line)]
    return {
        "the report has the verdict": "attempt 4 reaches" in plain and "attempt 4 reaches" in page,
        "the report has a row an attempt": len(rows) == 4
        and all(
            f"{a.value(metric):.4f}" in row for a, row in zip(told.attempts, rows, strict=True)
        ),
        "the report has the best one's code": script.standing[-1].rstrip() in text
        and html.escape("class WideResidual(nn.Module):", quote=False) in html.unescape(page),
        "the report says who wrote what": "template 1, llm 2, llm+repaired 1" in plain,
        "the report overrules": "the LLM said 123,456 parameters" in plain,
    }


def scripted(setting: Setting) -> None:
    """Write `agent.scripted`: 1 where the loop and its report kept every promise."""
    found = judged(setting)
    for line in found:
        print(line)
    setting.keep("scripted", float(not found), n=1, seeds=[0], only="scripted")


def judged(setting: Setting, text: str = GOAL) -> list[str]:
    """Run the loop with the script; what broke."""
    with tempfile.TemporaryDirectory(prefix="genlab-agent-") as scratch:
        told, script = played(setting, text, Path(scratch) / "project")
        for each in told.attempts:
            print(f"{each.iteration}: {each.model_name}, {each.values('accuracy')}")
        return faults(told, script)


def played(setting: Setting, text: str, root: Path) -> tuple[Story, Script]:
    """The story of a run in `root`, and the script as it was asked."""
    script = Script()
    with Server(script) as server:
        settings = setting.settings(
            text,
            backend="openai",
            base_url=server.url,
            planning_model="scripted",
            compare_with_search=False,
        )
        workspace = lay_out(root, text)
        run(settings, workspace, Silent())
        return story(workspace), script
