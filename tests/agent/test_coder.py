"""No code is saved unchecked, and the record says who wrote it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from agent_runs import Scripted
from hypothesis import given, settings
from hypothesis import strategies as st

from genlab.agent.coder import Probed, Written, assemble, fault_of_text
from genlab.agent.llm import LLMFailure
from genlab.agent.space import Block, Input, ModelConfig
from genlab.agent.template import source

SHAPE: Input = (1, 28, 28)
CONFIG = ModelConfig(blocks=(Block(kind="plain", channels=8, halve=True),), hidden=(16,))
GOOD = source(CONFIG, SHAPE, 10)
COUNT = CONFIG.parameters(SHAPE, 10)


def coder(*codes: str | Exception) -> Scripted:
    """A tool LLM that answers with these files, the last for ever."""
    return Scripted(*(c if isinstance(c, Exception) else json.dumps({"code": c}) for c in codes))


def _built(code: str, name: str) -> Probed:
    if "BOOM" in code:
        return Probed(failure="RuntimeError at line 7 of model.py: boom")
    return Probed(COUNT * (3 if "WIDE" in code else 1), (2, 5 if "FIVE" in code else 10))


def _assembled(
    backend: Scripted | None,
    repairs: int = 2,
    probe: Callable[[str, str], Probed] = _built,
) -> Written:
    return assemble(CONFIG, SHAPE, 10, backend, probe, repairs)


def test_good_code_is_kept_as_it_came() -> None:
    written = _assembled(coder(GOOD))
    assert (written.source, written.origin, written.faults) == (GOOD, "llm", [])


def test_without_a_backend_the_template_writes() -> None:
    assert _assembled(None) == Written(GOOD, "template", [])


def test_a_fault_goes_back_and_the_repair_is_counted() -> None:
    backend = coder(GOOD + "# BOOM", GOOD)
    written = _assembled(backend)
    assert (written.source, written.origin) == (GOOD, "llm+repaired(1)")
    assert "boom" in written.faults[0]
    assert "boom" in backend.asked[1].messages[-1]["content"]
    assert backend.asked[1].messages[-2]["role"] == "assistant"


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("class CurrentModel(:", "does not parse"),
        ("import os\nclass CurrentModel: ...", "it imports 'os'; allowed are"),
        ("from torch_evil import x\nclass CurrentModel: ...", "it imports 'torch_evil'"),
        ("from . import x\nclass CurrentModel: ...", "it imports '.'"),
        ("class Other: ...", "no class CurrentModel in it (it has Other)"),
        ("", "no class CurrentModel in it (it has none)"),
        (GOOD + "# FIVE", "gives (2, 5) for two images, it must give (2, 10)"),
        (GOOD + "# WIDE", "parameters, the config says"),
        ("x" * 50_000, "at most 40000 are read"),
    ],
)
def test_after_the_last_repair_the_template_stands_in(code: str, fault: str) -> None:
    backend = coder(code)
    written = _assembled(backend)
    assert (written.source, written.origin, len(written.faults)) == (GOOD, "template", 3)
    assert fault in written.faults[0]
    assert len(backend.asked) == 3


def test_an_endpoint_that_gives_no_answer_costs_no_more_questions() -> None:
    backend = coder(GOOD + "# BOOM", LLMFailure("503 five times"))
    written = _assembled(backend)
    assert written.origin == "template"
    assert written.faults[-1] == "no answer: 503 five times"


@settings(max_examples=40)
@given(st.text(max_size=200) | st.sampled_from(["(" * 5000, "\0", "class A:\n" * 500, "𝕏 = 1"]))
def test_any_text_is_good_or_has_a_fault_in_a_line(text: str) -> None:
    fault = fault_of_text(text, "CurrentModel")
    assert fault
    assert "\n" not in fault
    assert len(fault) < 800
