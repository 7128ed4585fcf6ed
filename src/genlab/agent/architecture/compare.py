"""What differs: between config and module, between an attempt and its parent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genlab.agent.architecture.schema import ModelConfig
from genlab.agent.architecture.training import Training


def built_differences(
    config: ModelConfig, summary: Mapping[str, Any], requested_parameters: int | None = None
) -> list[str]:
    """What was requested and built otherwise: layer types with their counts, parameters."""
    raise NotImplementedError


def config_differences(
    parent: ModelConfig, child: ModelConfig, parent_training: Training, child_training: Training
) -> list[str]:
    """What a child changes, such as 'layers[2].out_channels 32 -> 64'."""
    raise NotImplementedError


def compact(config: ModelConfig, training: Training) -> str:
    """Architecture and training in one line, for prompts."""
    raise NotImplementedError
