"""A planner proposes; what is tried, and what counts as reached, is decided by the numbers."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from genlab.agent.answers import parse, response_format
from genlab.agent.candidate import Candidate, Constraints, Training
from genlab.agent.goal import goal
from genlab.agent.planner import BASELINE, Planned, planned, settled, stalled
from genlab.agent.proposal import Proposal, Review, proposal_in
from genlab.agent.registry import Record
from genlab.agent.space import Block, ModelConfig

CONSTRAINTS = Constraints((1, 28, 28), 10, 100_000, epochs=3, subset=5000)
GOAL = goal("fashion mnist, > 90 % accuracy")
ONE = ModelConfig(blocks=(Block(kind="plain", channels=16, halve=True),))
STARTS = {"base": Candidate(BASELINE), "one": Candidate(ONE)}


def _record(run_id: str, accuracy: float | None, origin: str = "llm") -> Record:
    return Record(
        run_id=run_id,
        timestamp=run_id,
        model_name="M",
        dataset="fashion_mnist",
        metrics_summary={} if accuracy is None else {"accuracy": accuracy},
        experiment_dir=f"experiments/{run_id}",
        plan_origin=origin,
    )


def _planned(proposal: dict[str, Any], tried: dict[str, str] | None = None) -> Planned:
    records = [_record("base", 0.7, "baseline"), _record("one", 0.8)]
    return planned(
        Proposal.model_validate(proposal), CONSTRAINTS, tried or {}, records,
        STARTS, "accuracy", random.Random(0),
    )  # fmt: skip


def test_a_repeat_is_refused_and_the_best_one_mutated() -> None:
    tried = {start.digest: name for name, start in STARTS.items()}
    repeat = {
        "architecture": ONE.model_dump(mode="json"),
        "modifications": "a wider one",
        "branch_from": "nowhere",
    }
    found = _planned(repeat, tried)
    assert found.digest not in tried
    assert (found.origin, found.parent) == ("search", "one")
    # What the planner said was of its own plan, and not of this one.
    assert found.edits == ["the proposal was tried as one: search's next instead"]
    assert found.remark == "Search's: the planner proposed one again."


def test_what_the_run_has_settled_is_overruled_and_reported() -> None:
    calls = {
        "input_size": [3, 28, 28],
        "eval_config": {"lr": 0.01, "epochs": 500, "subset": 5000, "seeds": [7]},
    }
    found = _planned({"architecture": ONE.model_dump(mode="json"), "calls": calls})
    assert found.edits == [
        "calls.input_size: [3, 28, 28] was overruled, every attempt has [1, 28, 28]",
        "calls.eval_config.epochs: 500 was overruled, every attempt has 3",
        "calls.eval_config.seeds: not the planner's to set, left out",
    ]
    assert found.origin == "llm+repaired(3)"
    assert found.training == Training(lr=0.01)


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ("fast", "calls.eval_config:"),
        ({"optimiser": "lion"}, "calls.eval_config.optimiser:"),
        ({"lr": "high"}, "calls.eval_config.lr:"),
        ({"batch_size": 10**6}, "calls.eval_config.batch_size:"),
    ],
)
def test_a_training_out_of_range_is_repaired_and_reported(asked: Any, place: str) -> None:
    calls = {"eval_config": asked}
    found = _planned({"architecture": ONE.model_dump(mode="json"), "calls": calls})
    [edit] = found.edits
    assert edit.startswith(place)


@pytest.mark.parametrize(
    ("said", "values", "holds", "reported"),
    [
        ("achieved", [0.91, 0.92, 0.93], "achieved", ""),
        ("achieved", [0.95, 0.95, 0.89], "iterate", "does not hold"),
        ("achieved", [], "iterate", "measured none"),
        ("achieved", [math.nan], "iterate", "does not hold"),
        ("iterate", [0.95, 0.96], "achieved", "whatever the planner said"),
        ("stop", [0.5], "stop", ""),
        ("revise", [0.5], "revise", ""),
    ],
)
def test_what_counts_as_reached_is_in_the_numbers(
    said: Any, values: list[float], holds: str, reported: str
) -> None:
    decision, why = settled(Review(decision=said), GOAL, values)
    assert decision == holds
    assert reported in why


def test_it_stalls_when_the_last_ones_brought_nothing() -> None:
    values = [0.7, 0.8, 0.79, None, 0.8]
    records = [_record(f"r{i}", value) for i, value in enumerate(values)]
    assert stalled(records, "accuracy", 3)
    assert not stalled(records, "accuracy", 4)
    assert not stalled(records[:3], "accuracy", 3)
    assert not stalled([*records, _record("r5", 0.81)], "accuracy", 3)
    assert not stalled([_record(f"r{i}", None) for i in range(5)], "accuracy", 3)


def _drawn(shape: dict[str, Any], rng: random.Random) -> Any:
    """Something that a grammar of `shape` lets through."""
    if "enum" in shape:
        return rng.choice(shape["enum"])
    if "anyOf" in shape:
        return _drawn(rng.choice(shape["anyOf"]), rng)
    kind = shape["type"]
    if kind == "object":
        return {name: _drawn(each, rng) for name, each in shape["properties"].items()}
    if kind == "array":
        return [_drawn(shape["items"], rng) for _ in range(rng.randint(0, shape["maxItems"]))]
    if kind == "integer":
        return rng.randint(shape["minimum"], shape["maximum"])
    return {"boolean": rng.random() < 0.5, "string": "x", "null": None}[kind]


@pytest.mark.parametrize("seed", range(20))
def test_what_the_schema_allows_fits_but_for_size_and_halvings(seed: int) -> None:
    rng = random.Random(seed)
    asked = response_format(proposal_in(CONSTRAINTS, tuple(STARTS)))["json_schema"]
    assert asked["strict"] is True
    drawn = parse(json.dumps(_drawn(asked["schema"], rng)), Proposal)
    assert isinstance(drawn, Proposal)
    found = _planned(drawn.model_dump())
    fine = (".halve: nothing is left", "kernel: ", "widths shrunk")
    assert drawn.calls["input_size"] == [1, 28, 28]
    assert [edit for edit in found.edits if not any(each in edit for each in fine)] == []


BLOCKS = [{"kind": "plain", "channels": 16}]
SGD = {"optimizer": "sgd", "lr": 0.01}


@pytest.mark.parametrize(
    "sloppy",
    [
        {"architecture": json.dumps({"blocks": BLOCKS})},
        {"blocks": BLOCKS, **SGD},
        {"architecture": {"blocks": BLOCKS, "width": 3}, "why": "x"},
        {"architecture": {"blocks": BLOCKS * 9}, "branch_from": 1},
        {"architecture": {"blocks": BLOCKS}, "modifications": ["a"]},
        {"architecture": {"blocks": BLOCKS}, "input_size": [1, 28, 28], "eval_config": SGD},
        {"architecture": None, "training": "fast", "branch_from": "None", "modifications": None},
    ],
)
def test_a_sloppy_proposal_is_understood(sloppy: dict[str, Any]) -> None:
    parsed = parse(f"Sure! {json.dumps(sloppy)} Good luck.", Proposal)
    assert isinstance(parsed, Proposal)
    found = _planned(parsed.model_dump())
    reported = sloppy.get("architecture") or sloppy
    assert bool(found.config.blocks) == ("blocks" in reported)
    if "optimizer" in {**sloppy, **sloppy.get("eval_config", {})}:
        assert (found.training.optimiser, found.training.lr) == ("sgd", 0.01)


def test_a_sloppy_review_is_understood() -> None:
    reported = {"assessment": ["a", "b"], "strengths": "small", "weaknesses": None}
    found = parse(json.dumps({**reported, "decision": " Stop"}), Review)
    assert found == Review(assessment="a b", strengths=["small"], decision="stop")
