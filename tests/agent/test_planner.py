"""Prompts and proposals: questions to a language model, and the drafts made of its answers."""

from collections.abc import Iterator, Sequence
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
from genlab.agent.registry import CODE, Attempt, Draft
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


def make_planner(
    toolbox: Toolbox, problem: Problem, *answers: dict[str, Any] | Exception
) -> LLMPlanner:
    session: Any = ScriptedModel(*answers)
    return LLMPlanner(problem, session, toolbox)


def make_draft(
    planner: LLMPlanner, attempts: Sequence[Attempt] = (), pending: Sequence[Draft] = ()
) -> Draft:
    """Propose an attempt; the planner does not stop."""
    draft = planner.propose(attempts, pending)
    assert draft is not None
    return draft


def test_a_proposal_is_read_with_its_training(toolbox: Toolbox) -> None:
    draft = make_draft(make_planner(toolbox, problem(), PROPOSAL))
    assert (draft.origin, draft.kind, draft.parent) == ("llm", "draft", "")
    assert draft.training["lr"] == 0.01
    assert draft.config["layers"][1]["out_features"] == 16
    assert draft.notes == ["the run decides on examples"]


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
def test_an_unusable_proposal_is_sent_back_with_the_reason_before_search_replaces_it(
    toolbox: Toolbox, answers: tuple[dict[str, Any], ...], reason: str, origin: str
) -> None:
    pending = [make_draft(make_planner(toolbox, problem(), PROPOSAL))]
    planner = make_planner(toolbox, problem(max_repairs=1, max_parameters=10_000), *answers)
    draft = make_draft(planner, pending=pending)
    assert reason in planner.session.questions[1]  # type: ignore[attr-defined]
    assert draft.origin == origin
    assert any(reason in note for note in draft.notes)


def improve(toolbox: Toolbox, **answer: Any) -> tuple[LLMPlanner, Draft]:
    """Ask a planner to improve the second attempt; return it and its draft."""
    review = {"lesson": "more width helps"}
    attempts = [attempt(1, 0.5, 0.6), attempt(2, 0.7, 0.8, review=review)]
    folder = toolbox.workspace.root / attempts[1].experiment_dir
    folder.mkdir(parents=True)
    (folder / CODE).write_text("# code of the parent\nclass Net: ...")
    planner = make_planner(toolbox, problem(drafts=1), {**PROPOSAL, **answer})
    return planner, make_draft(planner, attempts)


def test_an_improvement_is_asked_with_config_recipe_code_and_lessons(toolbox: Toolbox) -> None:
    planner, draft = improve(toolbox, lesson="width", strengths="fast", decision="go on")
    (words,) = planner.session.questions  # type: ignore[attr-defined]
    assert draft.kind == "improve"
    assert draft.parent == attempt(2).run_id
    assert "Improve attempt 2" in words
    assert "# code of the parent" in words
    assert '"model_config"' in words
    assert "lesson: more width helps" in words
    assert draft.difference  # computed, whatever the answer's words say
    assert (planner.review.lesson, planner.review.strengths) == ("width", "fast")


def test_a_recipe_alone_trains_the_module_of_the_parent(toolbox: Toolbox) -> None:
    _, draft = improve(toolbox, model_config=None)
    assert draft.code == "# code of the parent\nclass Net: ..."
    assert draft.model_name == "Net"
    assert draft.config == attempt(2).design[0].model_dump(mode="json")
    assert draft.difference == ["lr 0.002 -> 0.01"]


def test_a_planner_may_send_its_module(toolbox: Toolbox) -> None:
    needs_sandbox()
    _, draft = improve(toolbox, model_config=None, code=CODE_OF_PLANNER)
    assert (draft.code, draft.model_name) == (CODE_OF_PLANNER, "Model")
    assert draft.config == {}
    assert draft.difference[0].startswith("code: ")


def test_a_module_that_breaks_goes_back_to_its_planner(toolbox: Toolbox) -> None:
    needs_sandbox()
    broken = {**PROPOSAL, "model_config": None, "code": CODE_OF_PLANNER.replace("256", "255")}
    planner = make_planner(toolbox, problem(max_repairs=1), broken, PROPOSAL)
    draft = make_draft(planner)
    assert "code: RuntimeError" in planner.session.questions[1]  # type: ignore[attr-defined]
    assert draft.config


def test_a_planner_stops_after_patience(toolbox: Toolbox) -> None:
    stop = {**PROPOSAL, "decision": "stop"}
    attempts = [attempt(number, 0.5, 0.6) for number in (1, 2, 3)]
    assert make_planner(toolbox, problem(patience=3), stop).propose(attempts, []) is None
    early = make_draft(make_planner(toolbox, problem(patience=3), stop), attempts[:1])
    assert "the planner wants to stop after 1 attempts" in early.notes


def test_every_property_of_the_schema_is_required(toolbox: Toolbox) -> None:
    schema = make_planner(toolbox, problem()).schema.model_json_schema()
    assert set(schema["required"]) == set(schema["properties"])
    recipe = schema["properties"]["eval_config"]
    assert set(recipe["required"]) == set(recipe["properties"])


def test_the_problem_states_what_a_planner_has_to_know() -> None:
    goal = Goal("a CNN without BatchNorm, at least 45.005 %", "dummy", "accuracy", 0.45005)
    with_reference = replace(
        problem(goal),
        references={"small CNN": {"accuracy": 0.5, "accuracy_error": 0.01, "trainings": 3}},
    )
    words = describe_problem(with_reference)
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


@pytest.mark.parametrize("max_length", [0, 300, 10_000])
def test_the_oldest_attempts_are_shortened_first(max_length: int) -> None:
    attempts = [attempt(n, 0.5, 0.6, change=f"change {n} " * 20) for n in range(1, 6)]
    lines = describe_history(attempts, GOAL, max_length).splitlines()[1:6]
    is_full = ["Flatten" in line for line in lines]
    assert is_full == sorted(is_full)  # after a full line all lines are full
    assert all("accuracy 0.5500" in line for line in lines)
    assert all(f"change {number} " in line for number, line in enumerate(lines, 1))


def test_the_history_reports_errors_recall_cost_cuts_and_lessons() -> None:
    first = attempt(1, 0.5, 0.6, review={"lesson": "too slow"}, change="a first try")
    first.seeds[0] |= {"recall": [0.91, 0.25], "cut": True, "seconds": 114.2}
    first.metrics_summary["multiply_adds"] = 16_000_000
    words = describe_history([first, attempt(2)], GOAL, 10_000)
    for fact in (
        "accuracy 0.5500 ± 0.05", "recall in % by class 91 25", "16 M multiply-adds",
        "114 s per training", "cut: seeds 0", "lesson: too slow", "change: a first try", "missed",
        "failed: it broke",
    ):  # fmt: skip
        assert fact in words
    assert "qe_" not in words
    assert "2026" not in words


def test_prompts_of_a_small_model_hold_no_times() -> None:
    assert "s per training" not in describe(attempt(1, 0.5, 0.6), GOAL, small=True)
    assert "± 0.05" in describe(attempt(1, 0.5, 0.6), GOAL, small=True)
