"""Code of a config: shapes are inferred on torch's meta device, so it has concrete sizes."""

from __future__ import annotations

from genlab.agent.architecture.schema import ModelConfig

Shape = tuple[int, ...]
"""A shape without its batch dimension."""


def write_source(
    config: ModelConfig, input_size: tuple[int, int, int], outputs: int, task: str
) -> str:
    """Write the module of a config as one Python file; its class takes no arguments."""
    raise NotImplementedError


def count_parameters(
    config: ModelConfig, input_size: tuple[int, int, int], outputs: int, task: str
) -> int:
    """Number of parameters of the module that `write_source` writes."""
    raise NotImplementedError
