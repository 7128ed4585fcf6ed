"""Whatever is proposed, a config that fits comes out, and its template runs and counts right."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from genlab.agent import search
from genlab.agent.candidate import BATCHES, OPTIMISERS, RATES, Candidate, Constraints, Training
from genlab.agent.space import Block, Input, ModelConfig, parsed, repaired
from genlab.agent.template import source
from genlab.core.errors import GenlabError

SHAPE: Input = (1, 28, 28)
MOST = 200_000
CONSTRAINTS = Constraints(SHAPE, 10, MOST, epochs=3, subset=1000)
SHAPES = st.sampled_from([(1, 28, 28), (3, 32, 32), (1, 16, 16), (3, 5, 9), (1, 2, 2), (2, 1, 1)])
KINDS = ("plain", "residual", "depthwise")
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ANYTHING = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=5)
BLOCKS = st.dictionaries(
    st.sampled_from([*Block.model_fields, "stride"]), ANYTHING | st.just("plain")
)
PROPOSALS = st.dictionaries(
    st.sampled_from([*ModelConfig.model_fields, "layers"]),
    ANYTHING | st.lists(BLOCKS, max_size=12) | st.lists(st.integers(-5, 5000), max_size=5),
)


def _built(config: ModelConfig, shape: Input, classes: int = 10) -> torch.nn.Module:
    names: dict[str, Any] = {}
    exec(compile(source(config, shape, classes), "current_model.py", "exec"), names)
    model = names[config.name]()
    assert isinstance(model, torch.nn.Module)
    return model


def _check(config: ModelConfig, shape: Input, classes: int = 10) -> None:
    model = _built(config, shape, classes)
    assert model(torch.zeros(2, *shape)).shape == (2, classes)
    assert sum(each.numel() for each in model.parameters()) == config.parameters(shape, classes)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(PROPOSALS, SHAPES)
def test_any_proposal_becomes_a_config_that_runs(proposed: dict[str, Any], shape: Input) -> None:
    found = repaired(proposed, shape, 10, MOST)
    assert found.config.parameters(shape, 10) <= MOST
    assert all("\n" not in edit for edit in found.edits)
    _check(found.config, shape)
    again = repaired(found.config.model_dump(), shape, 10, MOST)
    assert (again.config, again.edits) == (found.config, [])


def test_each_edit_names_the_place_and_what_was_there() -> None:
    proposed = {
        "name": "1 model",
        "blocks": [{"kind": "conv", "channels": 9999, "kernel": 4, "halve": "yes", "stride": 2}],
        "hidden": "64",
        "dropout": 1.5,
        "layers": 3,
    }
    edits = repaired(proposed, SHAPE, 10, 10**7).edits
    for reported in (
        "blocks[0].stride: no such field",
        "blocks[0].channels: 9999 became 256, allowed is 4..256",
        "blocks[0].kernel: 4 became 3",
        "blocks[0].halve: 'yes' is neither",
        "blocks[0].kind: 'conv' is none of plain, residual, depthwise",
        "hidden: '64' is no list",
        "name: '1 model' is no name of a class",
        "dropout: 1.5 became 0.7",
        "layers: no such field",
    ):
        assert any(edit.startswith(reported) for edit in edits), (reported, edits)


def test_a_config_that_is_too_large_shrinks_and_says_so() -> None:
    config = ModelConfig(blocks=(Block(kind="plain", channels=256),), hidden=(1024,))
    found = repaired(config.model_dump(), SHAPE, 10, 5000)
    assert found.config.parameters(SHAPE, 10) <= 5000
    assert "more than 5000" in found.edits[0]
    with pytest.raises(GenlabError, match=r"agent.max_parameters: 10 are fewer"):
        repaired(config.model_dump(), SHAPE, 10, 10)


def test_the_digest_tells_architectures_and_trainings_apart_and_not_names() -> None:
    one = ModelConfig(blocks=(Block(kind="plain", channels=16),))
    found = Candidate(one).digest
    assert found == Candidate(one.model_copy(update={"name": "Other"}), Training()).digest
    assert found != Candidate(one.model_copy(update={"dropout": 0.1})).digest
    for other in ({"lr": 0.01}, {"batch_size": 32}, {"optimiser": "sgd"}):
        assert found != Candidate(one, Training(**other)).digest


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_block_runs_and_counts_right(kind: Any) -> None:
    for norm in ("batch", "none"):
        blocks = tuple(Block(kind=kind, channels=c, kernel=5, halve=True) for c in (8, 8, 12))
        _check(ModelConfig(blocks=blocks, norm=norm, hidden=(16,), dropout=0.1), SHAPE)


def test_sides_are_those_of_the_template() -> None:
    blocks = tuple(Block(kind="plain", channels=4, halve=True) for _ in range(5))
    config = ModelConfig(blocks=blocks)
    assert config.sides(SHAPE) == [28, 14, 7, 4, 2, 2]
    assert "# 4 x 2 x 2" in source(config, SHAPE, 10)


def test_what_an_image_is_too_small_for_is_left_out() -> None:
    blocks = [{"kind": "plain", "channels": 4, "kernel": 7, "halve": True}] * 3
    found = repaired({"blocks": blocks}, (1, 4, 4), 10, MOST)
    assert [block.halve for block in found.config.blocks] == [True, False, False]
    assert [block.kernel for block in found.config.blocks] == [5, 3, 3]
    assert any("nothing is left to halve" in edit for edit in found.edits)


def test_a_file_of_a_config_is_read_with_one_line_for_its_first_fault() -> None:
    good = {"blocks": [{"kind": "plain", "channels": 8}]}
    assert parsed(good, "config.yaml").blocks[0].channels == 8
    with pytest.raises(GenlabError, match=r"^config.yaml: blocks.0.channels: .*got 1; mend it"):
        parsed({"blocks": [{"kind": "plain", "channels": 1}]}, "config.yaml")


def test_search_never_proposes_what_was_tried_and_all_of_it_runs() -> None:
    rng, tried = random.Random(0), set[str]()
    found = search.untried(rng, CONSTRAINTS, tried)
    for step in range(40):
        assert found.digest not in tried
        tried.add(found.digest)
        if step % 8 == 0:
            _check(found.config, SHAPE)
        found = search.mutated(found, rng, CONSTRAINTS, tried)


def test_search_draws_and_reaches_every_training_that_a_planner_may_choose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(0)
    whole = {(lr, size, name) for lr in RATES for size in BATCHES for name in OPTIMISERS}
    drawn = {tuple(search.random_training(rng).model_dump().values()) for _ in range(2000)}
    assert drawn == whole
    monkeypatch.setattr(search, "OF_TRAINING", 1.0)
    walked, now = set(), search.untried(rng, CONSTRAINTS, set())
    for _ in range(2000):
        now = search.mutated(now, rng, CONSTRAINTS, {now.digest})
        walked.add(tuple(now.training.model_dump().values()))
    assert walked == whole
