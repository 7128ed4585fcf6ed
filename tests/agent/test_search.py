"""The policy of the tree, and random search: its networks are varied, runnable, within limits."""

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from agent_runs import attempt, problem, settings

from genlab.agent.architecture.compare import compare_configs
from genlab.agent.architecture.schema import ModelConfig, parse_config, walk
from genlab.agent.architecture.template import count_parameters, write_source
from genlab.agent.architecture.training import Training, parse_training
from genlab.agent.config import Problem
from genlab.agent.goals.goal import Goal
from genlab.agent.planning.search import DEBUG_DEPTH, choose_parent, draw_proposal
from genlab.agent.registry import Attempt
from genlab.core.errors import GenlabError

SHAPE = (1, 28, 28)


def tried(run_id: str, value: float | None, parent: str = "", **fields: Any) -> Attempt:
    seeds = [] if value is None else [value]
    return attempt(1, *seeds, run_id=run_id, parent=parent, **fields)


def images(task: str = "classify", outputs: int = 10, most: int = 50_000) -> Problem:
    metric = "accuracy" if task == "classify" else "bits_per_dim"
    goal = Goal("", "mnist", metric, 0.5, max_parameters=most)
    return problem(goal, SHAPE, outputs, max_parameters=10**6)


def kinds(attempts: list[Attempt], metric: str = "accuracy") -> set[tuple[str, str]]:
    """Return the kinds and parents that runs of 60 seeds choose."""
    two_drafts = settings(Goal("", "mnist", metric, 0.5), drafts=2)
    choices = [choose_parent(replace(two_drafts, seed=seed), attempts, 0) for seed in range(60)]
    return {(kind, parent.run_id if parent else "") for kind, parent, _ in choices}


def test_drafts_come_first_and_calls_by_hand_are_none() -> None:
    assert kinds([]) == {("draft", "")}
    assert kinds([tried("a", 0.5), tried("tool", 0.9, kind="")]) == {("draft", "")}


def test_the_best_is_improved_in_the_metrics_direction() -> None:
    sure = [{"seed": 0, "metrics": {"accuracy": 0.6, "val_loss": 0.1}}]
    attempts = [tried("a", 0.5), tried("b", 0.7), tried("c", 0.6, "b", seeds=sure)]
    assert kinds(attempts) == {("improve", "b")}
    assert kinds(attempts, "val_loss") == {("improve", "c")}


def test_failed_leaves_are_debugged_sometimes_and_not_for_ever() -> None:
    attempts = [tried("a", 0.5), tried("b", None)]
    assert kinds(attempts) == {("improve", "a"), ("debug", "b")}
    for number in range(1, DEBUG_DEPTH):
        attempts.append(tried(f"b{number}", None, "b" if number == 1 else f"b{number - 1}"))
        assert kinds(attempts) == {("improve", "a"), ("debug", f"b{number}")}
    attempts.append(tried("last", None, f"b{DEBUG_DEPTH - 1}"))
    assert kinds(attempts) == {("improve", "a")}


def test_without_any_number_there_is_debugging_or_a_draft() -> None:
    assert kinds([tried("a", None), tried("b", None)]) == {("debug", "a"), ("debug", "b")}
    chain = [tried("a", None), tried("b", None)]
    chain += [tried(f"{name}{i}", None, name if i == 1 else f"{name}{i - 1}")
              for name in "ab" for i in range(1, DEBUG_DEPTH + 1)]  # fmt: skip
    assert kinds(chain) == {("draft", "")}


@pytest.mark.parametrize(("task", "outputs", "most"), [
    ("classify", 10, 50_000), ("classify", 10, 2_000), ("generate", 12, 200_000),
])  # fmt: skip
def test_proposals_run_and_stay_within_the_limit(task: str, outputs: int, most: int) -> None:
    rng = random.Random(1)
    design = None
    for step in range(24):
        parent = design if step % 6 else None
        design, change = draw_proposal(images(task, outputs, most), parent, rng)
        config, training = design
        assert change
        assert parse_config(config.model_dump(mode="json"), task) == config
        assert parse_training(training.model_dump(mode="json")) == training
        if parent:
            assert compare_configs(parent[0], config, parent[1], training)
        space: dict[str, Any] = {}
        exec(write_source(config, SHAPE, outputs, task), space)
        model = space[config.name]()
        x = torch.rand(2, *SHAPE)
        out = model(x) if task == "classify" else model.decode(model.encode(x)[0])
        assert out.shape == ((2, 10) if task == "classify" else (2, 12, 28, 28))
        assert sum(p.numel() for p in model.parameters()) <= most


def test_drafts_cover_the_space() -> None:
    rng = random.Random(2)
    drafts = [draw_proposal(images(), None, rng) for _ in range(80)]
    types = {layer["type"] for (config, _), _ in drafts for layer in walk(config)}
    assert {"Residual", "Conv2d", "Linear", "Dropout", "BatchNorm2d", "GroupNorm", "MaxPool2d",
            "AvgPool2d", "AdaptiveAvgPool2d", "ReLU", "GELU", "SiLU"} <= types  # fmt: skip
    assert any(layer.get("groups", 1) > 1 for (config, _), _ in drafts for layer in walk(config))
    recipes = [training for (_, training), _ in drafts]
    assert len({recipe.optimiser for recipe in recipes}) > 3
    assert any(recipe.augmentation for recipe in recipes)
    sizes = [count_parameters(config, SHAPE, 10, "classify") for (config, _), _ in drafts]
    assert sum(size > 25_000 for size in sizes) > 20


def test_the_same_generator_proposes_the_same_unless_it_was_tried() -> None:
    first, second = (draw_proposal(images(), None, random.Random(5)) for _ in range(2))
    assert first == second
    design, _ = draw_proposal(images(), None, random.Random(5), [first[0]])
    assert design != first[0]


@pytest.mark.parametrize("layers", [
    [],
    [{"type": "custom", "description": "anything"}],
    [{"type": "Conv2d", "out_channels": 8, "kernel_size": 99}],
    [{"type": "ChannelShuffle", "groups": 2}],
    [{"type": "Flatten"}, {"type": "Linear", "out_features": 4096}, {"type": "Linear",
                                                                    "out_features": 10}],
])  # fmt: skip
def test_any_parent_leads_to_a_proposal(layers: list[dict[str, Any]]) -> None:
    parent = ModelConfig(layers=tuple(layers)), Training()
    (config, _), _ = draw_proposal(images(most=20_000), parent, random.Random(3))
    assert 0 < count_parameters(config, SHAPE, 10, "classify") <= 20_000


def test_a_limit_that_nothing_meets_is_refused() -> None:
    with pytest.raises(GenlabError, match="at most 5"):
        draw_proposal(images(most=5), None, random.Random(0))
