"""The policy of the tree of attempts, and the space of random search."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

from genlab.agent.architecture.schema import ModelConfig
from genlab.agent.architecture.training import Training
from genlab.agent.registry import Attempt

Kind = Literal["draft", "improve", "debug"]


def choose_parent(
    attempts: Sequence[Attempt], *, drafts: int, rng: random.Random, metric: str, higher: bool
) -> tuple[Kind, Attempt | None]:
    """What to do next, and with which attempt."""
    raise NotImplementedError


def random_proposal(
    task: str,
    shape: tuple[int, int, int],
    outputs: int,
    max_parameters: int,
    parent_config: ModelConfig | None,
    parent_training: Training | None,
    rng: random.Random,
) -> tuple[ModelConfig, Training, str]:
    """A random draft, or one random change of the parent, with the change in a sentence."""
    raise NotImplementedError
