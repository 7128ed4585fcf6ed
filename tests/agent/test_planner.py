"""Proposals and prompts: what a language model is asked, and what is made of its answers."""

from typing import Any

import pytest
from agent_runs import ScriptedModel, attempt, problem

from genlab.agent.llm_planner import LLMPlanner
from genlab.agent.planner import Review
from genlab.agent.prompts import describe, describe_history


def propose(*layers: dict[str, Any]) -> dict[str, Any]:
    return {
        "change": "A small perceptron.",
        "model_config": {"name": "Net", "layers": [{"type": "Flatten"}, *layers]},
        "input_size": [1, 16, 16],
        "eval_config": {"lr": 0.01, "examples": 10**9},
    }


PROPOSAL = propose({"type": "Linear", "out_features": 16}, {"type": "ReLU"})
LARGE = propose({"type": "Linear", "out_features": 5000})
UNKNOWN = propose({"type": "Convolution9d"})


def test_a_proposal_is_read_with_its_training() -> None:
    backend = ScriptedModel(PROPOSAL)
    found = LLMPlanner(problem(), backend).propose([], [])
    assert (found.origin, found.kind, found.parent) == ("llm", "draft", "")
    assert found.training["lr"] == 0.01
    assert found.config["layers"][1]["out_features"] == 16
    assert found.notes == ["the run decides on examples"]


@pytest.mark.parametrize(
    ("answers", "reason", "origin"),
    [
        ((UNKNOWN, propose()), "Convolution9d", "llm"),
        ((UNKNOWN, UNKNOWN), "Convolution9d", "search"),
        ((LARGE, propose()), "parameters", "llm"),
        ((PROPOSAL,), "tried already", "search"),
    ],
)
def test_what_cannot_be_used_goes_back_with_the_reason_and_then_search_stands_in(
    answers: tuple[dict[str, Any], ...], reason: str, origin: str
) -> None:
    pending = [LLMPlanner(problem(), ScriptedModel(PROPOSAL)).propose([], [])]
    backend = ScriptedModel(*answers)
    found = LLMPlanner(problem(max_repairs=1, max_parameters=10_000), backend).propose([], pending)
    assert reason in backend.asked[1]
    assert found.origin == origin
    assert any(reason in note for note in found.notes)


def test_the_next_proposal_is_asked_with_the_parent_and_the_wanted_modifications() -> None:
    review = Review(modifications=["double the channels"]).model_dump()
    found = [attempt(1, 0.5, 0.6), attempt(2, 0.7, 0.8, review=review)]
    backend = ScriptedModel(PROPOSAL)
    proposal = LLMPlanner(problem(drafts=1), backend).propose(found, [])
    words = backend.asked[0]
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
