"""Proposals and prompts: what a language model is asked, and what is made of its answers."""

from collections.abc import Sequence
from typing import Any

import pytest
from agent_runs import attempt, problem
from pydantic import BaseModel

from genlab.agent.planner import LLMPlanner, Review
from genlab.agent.prompts import describe, describe_history
from genlab.llm.chat import Answer, LLMFailure, Message

LAYERS = [{"type": "Flatten"}, {"type": "Linear", "out_features": 16}, {"type": "ReLU"}]
PROPOSAL: dict[str, Any] = {
    "change": "A small perceptron.",
    "model_config": {"name": "Net", "layers": LAYERS},
    "input_size": [1, 16, 16],
    "eval_config": {"lr": 0.01, "examples": 10**9},
}


class Script:
    """A backend that gives its replies in order and keeps what it was asked."""

    def __init__(self, *replies: Any) -> None:
        self.replies, self.asked = list(replies), list[list[Message]]()

    def ask(
        self,
        role: str,
        messages: Sequence[Message],
        *,
        schema: type[BaseModel] | None = None,
        functions: Sequence[dict[str, Any]] = (),
    ) -> Answer:
        self.asked.append(list(messages))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        assert schema is not None
        return Answer(str(reply), schema.model_validate(reply), (), "script", 1, 1, 0.0, 0.0)


def test_a_proposal_is_read_with_its_training() -> None:
    backend = Script(PROPOSAL)
    found = LLMPlanner(problem(), backend).propose([], [])
    assert (found.origin, found.kind, found.parent) == ("llm", "draft", "")
    assert found.training["lr"] == 0.01
    assert found.config["layers"][1]["out_features"] == 16
    assert found.notes == ["the run decides on examples"]


def test_what_cannot_be_used_goes_back_with_the_reason_and_then_search_stands_in() -> None:
    wrong = PROPOSAL | {"model_config": {"name": "Net", "layers": [{"type": "Convolution9d"}]}}
    backend = Script(wrong, wrong)
    found = LLMPlanner(problem(max_repairs=1), backend).propose([], [])
    assert "Convolution9d" in backend.asked[1][-1]["content"]
    assert found.origin == "search"
    assert any("Convolution9d" in note for note in found.notes)


def test_too_many_parameters_are_refused() -> None:
    layers = [{"type": "Flatten"}, {"type": "Linear", "out_features": 5000}]
    backend = Script(PROPOSAL | {"model_config": {"name": "Net", "layers": layers}}, PROPOSAL)
    found = LLMPlanner(problem(max_parameters=10_000), backend).propose([], [])
    assert "parameters" in backend.asked[1][-1]["content"]
    assert found.origin == "llm"


def test_a_config_is_not_tried_twice() -> None:
    first = LLMPlanner(problem(), Script(PROPOSAL)).propose([], [])
    backend = Script(PROPOSAL, LLMFailure("gone"))
    found = LLMPlanner(problem(), backend).propose([], [first])
    assert "tried already" in backend.asked[1][-1]["content"]
    assert found.origin == "search"


def test_the_next_proposal_is_asked_with_the_parent_and_the_wanted_modifications() -> None:
    review = Review(modifications=["double the channels"]).model_dump()
    found = [attempt(1, 0.5, 0.6), attempt(2, 0.7, 0.8, review=review)]
    backend = Script(PROPOSAL)
    proposal = LLMPlanner(problem(drafts=1), backend).propose(found, [])
    words = backend.asked[0][-1]["content"]
    assert proposal.kind == "improve"
    assert proposal.parent == found[1].run_id
    assert "Improve attempt 2" in words
    assert "double the channels" in words
    assert "logistic regression 0.5" in words
    assert proposal.difference  # in fact, whatever the words say


@pytest.mark.parametrize("room", [0, 300, 10_000])
def test_the_oldest_attempts_are_shortened_first(room: int) -> None:
    found = [attempt(n, 0.5, 0.6, change=f"change {n} " * 20) for n in range(1, 6)]
    lines = describe_history(found, "accuracy", room).splitlines()[1:]
    whole = ["change" in line for line in lines]
    assert len(lines) == len(found)
    assert whole == sorted(whole)  # once whole, whole to the end
    assert all("accuracy 0.5500" in line for line in lines)


def test_prompts_hold_no_clock_and_no_folder() -> None:
    words = describe_history([attempt(1, 0.5), attempt(2)], "accuracy", 10_000)
    assert "qe_" not in words
    assert "2026" not in words
    assert "1.5" not in words
    assert "failed: it broke" in words
    assert "min 0.5000, max 0.6000" in describe(attempt(1, 0.5, 0.6), "accuracy")
