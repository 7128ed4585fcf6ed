"""Proposals and prompts: what a language model is asked, and what is made of its answers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_runs import GOAL, ScriptedModel, attempt, problem, settings
from sandboxes import needs_sandbox

from genlab.agent.config import Problem
from genlab.agent.goals.goal import Goal
from genlab.agent.library.toolbox import Toolbox
from genlab.agent.planning.llm_planner import LLMPlanner
from genlab.agent.planning.prompts import describe, describe_history, describe_problem
from genlab.agent.registry import CODE, Draft
from genlab.agent.workspace import create_project


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


CODE_OF_PLANNER = """
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(256, 4)

    def forward(self, x):
        return self.head(x.flatten(1))
"""


@pytest.fixture
def toolbox(tmp_path: Path) -> Iterator[Toolbox]:
    with Toolbox(create_project(tmp_path / "one", GOAL), settings()) as box:
        yield box


def planner(toolbox: Toolbox, asked: Problem, *answers: dict[str, Any] | Exception) -> LLMPlanner:
    session: Any = ScriptedModel(*answers)
    return LLMPlanner(asked, session, toolbox)


def make(planner: LLMPlanner, *given: Any) -> Draft:
    """A proposal, where the planner does not stop."""
    attempts, pending = given
    draft = planner.propose(attempts, pending)
    assert draft is not None
    return draft


def test_a_proposal_is_read_with_its_training(toolbox: Toolbox) -> None:
    found = make(planner(toolbox, problem(), PROPOSAL), [], [])
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
        (({"change": "none"}, propose()), "no module to train on", "llm"),
    ],
)
def test_what_cannot_be_used_goes_back_with_the_reason_and_then_search_stands_in(
    toolbox: Toolbox, answers: tuple[dict[str, Any], ...], reason: str, origin: str
) -> None:
    pending = [make(planner(toolbox, problem(), PROPOSAL), [], [])]
    asked = planner(toolbox, problem(max_repairs=1, max_parameters=10_000), *answers)
    found = make(asked, [], pending)
    assert reason in asked.session.questions[1]  # type: ignore[attr-defined]
    assert found.origin == origin
    assert any(reason in note for note in found.notes)


def improved(toolbox: Toolbox, **answer: Any) -> tuple[LLMPlanner, Draft]:
    """A planner's answer to the question to improve the second attempt, and its draft."""
    review = {"lesson": "more width helps"}
    attempts = [attempt(1, 0.5, 0.6), attempt(2, 0.7, 0.8, review=review)]
    folder = toolbox.workspace.root / attempts[1].experiment_dir
    folder.mkdir(parents=True)
    (folder / CODE).write_text("# code of the parent\nclass Net: ...")
    asked = planner(toolbox, problem(drafts=1), {**PROPOSAL, **answer})
    return asked, make(asked, attempts, [])


def test_an_improvement_is_asked_with_config_recipe_code_and_lessons(toolbox: Toolbox) -> None:
    asked, draft = improved(toolbox, lesson="width", strengths="fast", decision="go on")
    (words,) = asked.session.questions  # type: ignore[attr-defined]
    assert draft.kind == "improve"
    assert draft.parent == attempt(2).run_id
    assert "Improve attempt 2" in words
    assert "# code of the parent" in words
    assert '"model_config"' in words
    assert "lesson: more width helps" in words
    assert draft.difference  # in fact, whatever the words say
    assert (asked.review.lesson, asked.review.strengths) == ("width", "fast")


def test_a_recipe_alone_trains_the_module_of_the_parent(toolbox: Toolbox) -> None:
    _, draft = improved(toolbox, model_config=None)
    assert draft.code == "# code of the parent\nclass Net: ..."
    assert draft.model_name == "Net"
    assert draft.config == attempt(2).design[0].model_dump(mode="json")
    assert draft.difference == ["lr 0.002 -> 0.01"]


def test_a_planner_may_send_its_module(toolbox: Toolbox) -> None:
    needs_sandbox()
    _, draft = improved(toolbox, model_config=None, code=CODE_OF_PLANNER)
    assert (draft.code, draft.model_name) == (CODE_OF_PLANNER, "Model")
    assert draft.config == {}
    assert draft.difference[0].startswith("code: ")


def test_a_module_that_breaks_goes_back_to_its_planner(toolbox: Toolbox) -> None:
    needs_sandbox()
    broken = {**PROPOSAL, "model_config": None, "code": CODE_OF_PLANNER.replace("256", "255")}
    asked = planner(toolbox, problem(max_repairs=1), broken, PROPOSAL)
    draft = make(asked, [], [])
    assert "code: RuntimeError" in asked.session.questions[1]  # type: ignore[attr-defined]
    assert draft.config


def test_a_planner_stops_after_patience(toolbox: Toolbox) -> None:
    stop = {**PROPOSAL, "decision": "stop"}
    attempts = [attempt(number, 0.5, 0.6) for number in (1, 2, 3)]
    assert planner(toolbox, problem(patience=3), stop).propose(attempts, []) is None
    early = make(planner(toolbox, problem(patience=3), stop), attempts[:1], [])
    assert "the planner wants to stop after 1 attempts" in early.notes


def test_every_property_of_the_schema_is_required(toolbox: Toolbox) -> None:
    schema = planner(toolbox, problem()).schema.model_json_schema()
    assert set(schema["required"]) == set(schema["properties"])
    recipe = schema["properties"]["eval_config"]
    assert set(recipe["required"]) == set(recipe["properties"])


def test_the_problem_states_what_a_planner_has_to_know() -> None:
    goal = Goal("a CNN without BatchNorm, at least 45.005 %", "dummy", "accuracy", 0.45005)
    known = replace(
        problem(goal),
        references={"small CNN": {"accuracy": 0.5, "accuracy_error": 0.01, "trainings": 3}},
    )
    words = describe_problem(known)
    for fact in (
        "a CNN without BatchNorm", "accuracy >= 0.45005", "small CNN 0.5 ± 0.01 (3 seeds), which"
        " reaches the threshold already", "images of 1 x 16 x 16", "4 classes", "forward(x) takes",
        "at most 60,000 parameters", "60 s of CPU time",
    ):  # fmt: skip
        assert fact in words
    drawing = problem(Goal("", "mnist", "bits_per_dim", 3.5005), (3, 32, 32), 40)
    words = describe_problem(drawing)
    for fact in ("bits_per_dim <= 3.5005", "K x 3 links", "40 channels mean K = 4", "[-1, 1]"):
        assert fact in words


@pytest.mark.parametrize("room", [0, 300, 10_000])
def test_the_oldest_attempts_are_shortened_first(room: int) -> None:
    found = [attempt(n, 0.5, 0.6, change=f"change {n} " * 20) for n in range(1, 6)]
    lines = describe_history(found, GOAL, room).splitlines()[1:6]
    whole = ["Flatten" in line for line in lines]
    assert whole == sorted(whole)  # once whole, whole to the end
    assert all("accuracy 0.5500" in line for line in lines)
    assert all(f"change {number} " in line for number, line in enumerate(lines, 1))


def test_the_history_tells_errors_recall_cost_cuts_and_lessons() -> None:
    made = attempt(1, 0.5, 0.6, review={"lesson": "too slow"}, change="a first try")
    made.seeds[0] |= {"recall": [0.91, 0.25], "cut": True, "seconds": 114.2}
    made.metrics_summary["multiply_adds"] = 16_000_000
    words = describe_history([made, attempt(2)], GOAL, 10_000)
    for fact in (
        "accuracy 0.5500 ± 0.05", "recall in % by class 91 25", "16 M multiply-adds",
        "114 s per training", "cut: seeds 0", "lesson: too slow", "change: a first try", "missed",
        "failed: it broke",
    ):  # fmt: skip
        assert fact in words
    assert "qe_" not in words
    assert "2026" not in words


def test_a_small_model_is_told_nothing_that_a_clock_decides() -> None:
    assert "s per training" not in describe(attempt(1, 0.5, 0.6), GOAL, small=True)
    assert "± 0.05" in describe(attempt(1, 0.5, 0.6), GOAL, small=True)
