"""What the planner chooses from: classifiers that compose by construction.

A `ModelConfig` is a row of convolutional blocks, a pooling to one cell, and a row of hidden layers.
A weak LLM under a grammar gets fields right and shapes wrong (a kernel wider than its image, the
ninth halving of 28 pixels); here no choice of fields can make shapes that do not fit, and
`repaired` turns what an LLM meant into the nearest config that is allowed, saying what it changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genlab.core.errors import GenlabError

Kind = Literal["plain", "residual", "depthwise"]
MAX_BLOCKS, MAX_HIDDEN_LAYERS = 8, 3
CHANNELS, KERNELS, HIDDEN = (4, 256), (1, 3, 5, 7), (8, 1024)
DROPOUT = (0.0, 0.7)
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
DEFAULT_NAME = "CurrentModel"
LEAST_SIDE = 2  # an image is halved no further

Input = tuple[int, int, int]
"""Channels, height, width."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Block(_Part):
    """One convolutional block: convolution, norm, activation, and perhaps a halving of the side."""

    kind: Kind = Field(description="plain, residual (adds its input) or depthwise separable")
    channels: int = Field(ge=CHANNELS[0], le=CHANNELS[1], description="channels it puts out")
    kernel: Literal[1, 3, 5, 7] = Field(3, description="side of its kernel")
    halve: bool = Field(False, description="whether it halves the side of the image")


class ModelConfig(_Part):
    """A convolutional classifier; without blocks it is a multilayer perceptron."""

    name: str = Field(DEFAULT_NAME, pattern=f"^{NAME.pattern}$", description="class name")
    blocks: tuple[Block, ...] = Field(max_length=MAX_BLOCKS, description="convolutional blocks")
    hidden: tuple[int, ...] = Field(
        (), max_length=MAX_HIDDEN_LAYERS, description="widths of the hidden layers after them"
    )
    dropout: float = Field(0.0, ge=DROPOUT[0], le=DROPOUT[1], description="before each layer")
    norm: Literal["batch", "none"] = Field("batch", description="after each convolution")
    activation: Literal["relu", "gelu", "silu"] = Field("relu", description="nonlinearity")

    def sides(self, shape: Input) -> list[int]:
        """The shorter side of the image before the first block and after each of them."""
        sides = [min(shape[1:])]
        for block in self.blocks:
            sides.append(halved(sides[-1]) if block.halve else sides[-1])
        return sides

    def parameters(self, shape: Input, classes: int) -> int:
        """Trainable parameters, in closed form."""
        norm, total, before = self.norm == "batch", 0, shape[0]
        for block in self.blocks:
            total += _of_block(block, before, norm)
            before = block.channels
        if not self.blocks:
            before = shape[0] * shape[1] * shape[2]
        for width in (*self.hidden, classes):
            total += (before + 1) * width
            before = width
        return total


def halved(side: int) -> int:
    """The side after a halving (a pooling by 2, rounded up); an image of LEAST_SIDE stays."""
    return side if side <= LEAST_SIDE else -(-side // 2)


def _of_block(block: Block, before: int, norm: bool) -> int:
    area, after = block.kernel**2, block.channels
    bias, scale = (0, 2) if norm else (1, 0)  # a norm's shift makes a bias idle

    def convolution(inputs: int, outputs: int, cells: int) -> int:
        return outputs * (inputs * cells + bias) + scale * outputs

    if block.kind == "plain":
        return convolution(before, after, area)
    if block.kind == "depthwise":
        return convolution(1, before, area) + convolution(before, after, 1)
    shortcut = convolution(before, after, 1) if before != after else 0
    return convolution(before, after, area) + convolution(after, after, area) + shortcut


@dataclass
class Repaired:
    """A config that is allowed, and what had to be changed for it, a line each."""

    config: ModelConfig
    edits: list[str] = field(default_factory=list)


def repaired(
    proposed: Mapping[str, Any], shape: Input, classes: int, most_parameters: int
) -> Repaired:
    """The nearest config that is allowed to what was proposed.

    Unknown fields go, numbers are moved into their range, halvings of what is no longer there go,
    and channels and widths shrink by a quarter until there are no more than `most_parameters`.
    Raises GenlabError where no config is left: most_parameters is below what the smallest takes.
    """
    edits: list[str] = []
    blocks = tuple(
        _block(each, f"blocks[{index}]", edits)
        for index, each in enumerate(_list(proposed, "blocks", MAX_BLOCKS, edits))
    )
    widths = _list(proposed, "hidden", MAX_HIDDEN_LAYERS, edits)
    hidden = tuple(
        round(_number(each, HIDDEN, 64, f"hidden[{index}]", edits))
        for index, each in enumerate(widths)
    )
    config = ModelConfig(
        name=_name(proposed.get("name"), edits),
        blocks=blocks,
        hidden=hidden,
        dropout=_number(proposed.get("dropout", 0.0), DROPOUT, 0.0, "dropout", edits),
        norm=_choice(proposed.get("norm", "batch"), ("batch", "none"), "norm", edits),
        activation=_choice(
            proposed.get("activation", "relu"), ("relu", "gelu", "silu"), "activation", edits
        ),
    )
    for name in sorted(set(proposed) - set(ModelConfig.model_fields)):
        edits.append(f"{name}: no such field, left out")
    config = _fitting(config, shape, edits)
    return Repaired(_small_enough(config, shape, classes, most_parameters, edits), edits)


def _fitting(config: ModelConfig, shape: Input, edits: list[str]) -> ModelConfig:
    blocks, side = [], min(shape[1:])
    for index, block in enumerate(config.blocks):
        kept = block
        if block.halve and halved(side) == side:
            kept = block.model_copy(update={"halve": False})
            edits.append(f"blocks[{index}].halve: nothing is left to halve at a side of {side}")
        while kept.kernel > side + 1:
            smaller = max(kernel for kernel in KERNELS if kernel < kept.kernel)
            edits.append(f"blocks[{index}].kernel: {kept.kernel} is wider than a side of {side}")
            kept = kept.model_copy(update={"kernel": smaller})
        side = halved(side) if kept.halve else side
        blocks.append(kept)
    return config.model_copy(update={"blocks": tuple(blocks)})


def _small_enough(
    config: ModelConfig, shape: Input, classes: int, most: int, edits: list[str]
) -> ModelConfig:
    found = config
    while (count := found.parameters(shape, classes)) > most:
        smaller = shrunk(found)
        if smaller == found:
            raise GenlabError(
                f"agent.max_parameters: {most} are fewer than the {count} that the smallest model"
                " of this kind takes; raise it"
            )
        found = smaller
    if found != config:
        before, after = (each.parameters(shape, classes) for each in (config, found))
        edits.append(f"{before} parameters are more than {most}: widths shrunk, {after} now")
    return found


def shrunk(config: ModelConfig) -> ModelConfig:
    """Channels and widths less a quarter, no less than the least."""
    blocks = tuple(
        block.model_copy(update={"channels": max(CHANNELS[0], block.channels * 3 // 4)})
        for block in config.blocks
    )
    hidden = tuple(max(HIDDEN[0], width * 3 // 4) for width in config.hidden)
    return config.model_copy(update={"blocks": blocks, "hidden": hidden})


def _block(proposed: Any, where: str, edits: list[str]) -> Block:
    given = proposed if isinstance(proposed, Mapping) else {}
    if given is not proposed:
        edits.append(f"{where}: {_shown(proposed)} is no block")
    for name in sorted(set(given) - set(Block.model_fields)):
        edits.append(f"{where}.{name}: no such field, left out")
    channels = _number(given.get("channels", 32), CHANNELS, 32, f"{where}.channels", edits)
    kernel = _number(given.get("kernel", 3), (KERNELS[0], KERNELS[-1]), 3, f"{where}.kernel", edits)
    odd = min(KERNELS, key=lambda each: (abs(each - kernel), each))
    if odd != kernel:
        edits.append(f"{where}.kernel: {kernel:g} became {odd}")
    halve = given.get("halve", False)
    if not isinstance(halve, bool):
        edits.append(f"{where}.halve: {_shown(halve)} is neither true nor false")
        halve = False
    kinds = ("plain", "residual", "depthwise")
    kind = _choice(given.get("kind", "plain"), kinds, f"{where}.kind", edits)
    return Block(kind=kind, channels=round(channels), kernel=odd, halve=halve)


def _list(proposed: Mapping[str, Any], name: str, most: int, edits: list[str]) -> list[Any]:
    given = proposed.get(name, [])
    if not isinstance(given, list | tuple):
        edits.append(f"{name}: {_shown(given)} is no list, left out")
        return []
    if len(given) > most:
        edits.append(f"{name}: {len(given)} entries, the first {most} are kept")
    return list(given[:most])


def _number(
    given: Any, limits: tuple[float, float], otherwise: float, where: str, edits: list[str]
) -> float:
    low, high = limits
    number = given if isinstance(given, int | float) and not isinstance(given, bool) else None
    if number is None or number != number:  # NaN is not itself
        edits.append(f"{where}: {_shown(given)} is no number, took {otherwise:g}")
        return otherwise
    moved = min(max(float(number), low), high)
    if moved != number:
        edits.append(f"{where}: {_shown(number)} became {moved:g}, allowed is {low:g}..{high:g}")
    return moved


def _choice(given: Any, known: tuple[str, ...], where: str, edits: list[str]) -> Any:
    if given in known:
        return given
    edits.append(f"{where}: {_shown(given)} is none of {', '.join(known)}; took {known[0]}")
    return known[0]


def _name(given: Any, edits: list[str]) -> str:
    if given is None:
        return DEFAULT_NAME
    if isinstance(given, str) and NAME.fullmatch(given):
        return given
    edits.append(f"name: {_shown(given)} is no name of a class, took {DEFAULT_NAME}")
    return DEFAULT_NAME


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def parsed(config: Mapping[str, Any], where: str) -> ModelConfig:
    """A config as it stands. Raises a GenlabError of one line that names the first fault."""
    try:
        return ModelConfig.model_validate(dict(config))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "config"
        raise GenlabError(
            f"{where}: {place}: {first['msg']}, got {_shown(first['input'])}; mend it, or let the"
            " planner write a new one"
        ) from error
