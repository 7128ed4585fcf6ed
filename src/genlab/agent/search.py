"""The honest baseline: random candidates, and mutations of the best one, without any LLM.

What an LLM's planner finds is worth something only where it beats this at the same budget, so it
draws from all that a planner may choose from, architecture and training.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from genlab.agent.candidate import BATCHES, OPTIMISERS, RATES, Candidate, Constraints, Training
from genlab.agent.space import (
    CHANNELS,
    DROPOUT,
    HIDDEN,
    MAX_BLOCKS,
    MAX_HIDDEN_LAYERS,
    Block,
    Input,
    ModelConfig,
    halved,
    repaired,
)

USUAL_CHANNELS, USUAL_HIDDEN = (8, 16, 24, 32, 48, 64, 96, 128), (32, 64, 128, 256)
USUAL_KERNELS = (3, 3, 3, 5)
USUAL_RATES = (*RATES, *RATES[2:6])  # all, and more often those that tend to work
USUAL_OPTIMISERS = (*OPTIMISERS, "adamw")
RANDOM_FIRST = 1  # attempts before mutation begins
TRIES = 200
EDITS = (1, 3)  # of one mutation, at least and at most
OF_TRAINING = 0.25  # share of the edits that change the training, not the architecture

Value = TypeVar("Value", int, float)

Change = Callable[[ModelConfig, random.Random], ModelConfig]


def random_config(rng: random.Random, shape: Input) -> ModelConfig:
    """A config as people write them: channels grow where the side is halved."""
    blocks, side = [], min(shape[1:])
    width = rng.choice(USUAL_CHANNELS[:4])
    for _ in range(rng.randint(1, 4)):
        halve = side > 4 and rng.random() < 0.7
        blocks.append(
            Block(
                kind=rng.choice(("plain", "residual", "depthwise")),
                channels=width,
                kernel=rng.choice(USUAL_KERNELS),
                halve=halve,
            )
        )
        if halve:
            side, width = halved(side), min(2 * width, CHANNELS[1])
    hidden = tuple(rng.choice(USUAL_HIDDEN) for _ in range(rng.randint(0, 2)))
    return ModelConfig(
        blocks=tuple(blocks),
        hidden=hidden,
        dropout=rng.choice((0.0, 0.0, 0.1, 0.25, 0.5)),
        norm=rng.choice(("batch", "batch", "none")),
        activation=rng.choice(("relu", "gelu", "silu")),
    )


def random_training(rng: random.Random) -> Training:
    """A training as people choose them."""
    return Training(
        lr=rng.choice(USUAL_RATES),
        batch_size=rng.choice(BATCHES),
        optimiser=rng.choice(USUAL_OPTIMISERS),
    )


def mutated(
    start: Candidate, rng: random.Random, constraints: Constraints, tried: Collection[str]
) -> Candidate:
    """A neighbour of `start` whose digest is not among `tried`: one to three small changes.

    Where TRIES neighbours in a row were all tried, a random candidate.
    """
    for _ in range(TRIES):
        config, training = start.config, start.training
        for _ in range(rng.randint(*EDITS)):
            if rng.random() < OF_TRAINING:
                training = _another_training(training, rng)
            else:
                config = rng.choice(CHANGES)(config, rng)
        found = _fitting(config, training, constraints)
        if found.digest not in tried:
            return found
    return untried(rng, constraints, tried)


def untried(rng: random.Random, constraints: Constraints, tried: Collection[str]) -> Candidate:
    """A random candidate that has not been tried; the last one drawn where all of TRIES have."""
    for _ in range(TRIES):
        found = _fitting(random_config(rng, constraints.shape), random_training(rng), constraints)
        if found.digest not in tried:
            break
    return found


def _fitting(config: ModelConfig, training: Training, constraints: Constraints) -> Candidate:
    drawn = config.model_dump()
    fitting = repaired(
        drawn, constraints.shape, constraints.classes, constraints.most_parameters
    ).config
    return Candidate(fitting, training)


def _another_training(training: Training, rng: random.Random) -> Training:
    new = rng.choice(
        (
            {"lr": _beside(training.lr, RATES, rng)},
            {"batch_size": _beside(training.batch_size, BATCHES, rng)},
            {"optimiser": rng.choice([each for each in OPTIMISERS if each != training.optimiser])},
        )
    )
    return training.model_copy(update=new)


def _beside(value: Value, known: Sequence[Value], rng: random.Random) -> Value:
    """The next one of `known` below or above `value`, which may lie between two of them."""
    below = [each for each in known if each < value][-1:]
    above = [each for each in known if each > value][:1]
    return rng.choice(below + above)


def _wider(config: ModelConfig, rng: random.Random) -> ModelConfig:
    factor = rng.choice((0.5, 0.75, 1.5, 2.0))
    blocks = tuple(
        block.model_copy(update={"channels": _within(block.channels * factor, CHANNELS)})
        for block in config.blocks
    )
    return config.model_copy(update={"blocks": blocks})


def _deeper(config: ModelConfig, rng: random.Random) -> ModelConfig:
    if len(config.blocks) >= MAX_BLOCKS:
        return config
    at = rng.randint(0, len(config.blocks))
    channels = config.blocks[at - 1].channels if at else 16
    kind = rng.choice(("plain", "residual", "depthwise"))
    new = Block(kind=kind, channels=channels, kernel=3, halve=rng.random() < 0.3)
    return config.model_copy(update={"blocks": (*config.blocks[:at], new, *config.blocks[at:])})


def _shallower(config: ModelConfig, rng: random.Random) -> ModelConfig:
    if len(config.blocks) < 2:
        return config
    at = rng.randrange(len(config.blocks))
    return config.model_copy(update={"blocks": config.blocks[:at] + config.blocks[at + 1 :]})


def _another_block(config: ModelConfig, rng: random.Random) -> ModelConfig:
    if not config.blocks:
        return config
    at = rng.randrange(len(config.blocks))
    block = config.blocks[at]
    new = rng.choice(
        (
            {"kind": rng.choice(("plain", "residual", "depthwise"))},
            {"kernel": rng.choice((1, 3, 5, 7))},
            {"halve": not block.halve},
            {"channels": rng.choice(USUAL_CHANNELS)},
        )
    )
    blocks = (*config.blocks[:at], block.model_copy(update=new), *config.blocks[at + 1 :])
    return config.model_copy(update={"blocks": blocks})


def _another_head(config: ModelConfig, rng: random.Random) -> ModelConfig:
    hidden = list(config.hidden)
    if hidden and rng.random() < 0.5:
        hidden.pop(rng.randrange(len(hidden)))
    elif len(hidden) < MAX_HIDDEN_LAYERS:
        hidden.insert(rng.randint(0, len(hidden)), rng.choice(USUAL_HIDDEN))
    else:
        at = rng.randrange(len(hidden))
        hidden[at] = _within(hidden[at] * rng.choice((0.5, 2.0)), HIDDEN)
    return config.model_copy(update={"hidden": tuple(hidden)})


def _another_way(config: ModelConfig, rng: random.Random) -> ModelConfig:
    dropout = min(max(config.dropout + rng.choice((-0.2, -0.1, 0.1, 0.2)), DROPOUT[0]), DROPOUT[1])
    new = rng.choice(
        (
            {"activation": rng.choice(("relu", "gelu", "silu"))},
            {"norm": "none" if config.norm == "batch" else "batch"},
            {"dropout": round(dropout, 2)},
        )
    )
    return config.model_copy(update=new)


def _within(value: float, limits: tuple[int, int]) -> int:
    return min(max(round(value), limits[0]), limits[1])


CHANGES: tuple[Change, ...] = (
    _wider,
    _deeper,
    _shallower,
    _another_block,
    _another_head,
    _another_way,
)
