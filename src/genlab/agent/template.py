"""A config written out as PyTorch: what an attempt runs where no LLM's code holds.

The text is meant to be read: layers stand one under the other with the shape that each puts out.
"""

from __future__ import annotations

from genlab.agent.space import Block, Input, ModelConfig, halved

ACTIVATIONS = {"relu": "nn.ReLU()", "gelu": "nn.GELU()", "silu": "nn.SiLU()"}
HEAD = '''"""{name}: {summary}."""

import torch
from torch import nn
'''
RESIDUAL = '''

class Residual(nn.Module):
    """body(x) + shortcut(x), then an activation."""

    def __init__(self, body: nn.Module, shortcut: nn.Module, activation: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut, self.activation = body, shortcut, activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.body(x) + self.shortcut(x))
'''
MODEL = '''

class {name}(nn.Module):
    """Images (batch, {channels}, {height}, {width}) in, logits (batch, {classes}) out."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
{layers}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)
'''
INDENT = " " * 12


def source(config: ModelConfig, shape: Input, classes: int) -> str:
    """The module of `config` for images of `shape`; its class takes no arguments."""
    channels, height, width = shape
    lines: list[str] = []
    before, sides = channels, (height, width)
    for block in config.blocks:
        lines += _block(block, before, config)
        if block.halve and halved(min(sides)) != min(sides):
            lines.append("nn.MaxPool2d(2, ceil_mode=True)")
            sides = (-(-sides[0] // 2), -(-sides[1] // 2))
        before = block.channels
        lines[-1] += f",  # {before} x {sides[0]} x {sides[1]}"
    if config.blocks:
        lines += ["nn.AdaptiveAvgPool2d(1)", "nn.Flatten()"]
    else:
        before = channels * height * width
        lines.append("nn.Flatten()")
    for after in config.hidden:
        lines += [
            *_dropout(config),
            f"nn.Linear({before}, {after})",
            ACTIVATIONS[config.activation],
        ]
        before = after
    lines += [*_dropout(config), f"nn.Linear({before}, {classes})"]
    layers = "\n".join(_closed(INDENT + line) for line in lines)
    summary = f"{len(config.blocks)} convolutional blocks, {len(config.hidden)} hidden layers"
    residual = RESIDUAL if any(block.kind == "residual" for block in config.blocks) else ""
    return (
        HEAD.format(name=config.name, summary=summary)
        + residual
        + MODEL.format(
            name=config.name, channels=channels, height=height, width=width, classes=classes,
            layers=layers,
        )
    )  # fmt: skip


def _closed(line: str) -> str:
    """A line of a list of layers, with its comma."""
    return line if "," in line and "  # " in line else line + ","


def _dropout(config: ModelConfig) -> list[str]:
    return [f"nn.Dropout({config.dropout:g})"] if config.dropout else []


def _block(block: Block, before: int, config: ModelConfig) -> list[str]:
    after, kernel, activation = block.channels, block.kernel, ACTIVATIONS[config.activation]
    if block.kind == "plain":
        return [*_convolution(before, after, kernel, config), activation]
    if block.kind == "depthwise":
        return [
            *_convolution(before, before, kernel, config, groups=before),
            activation,
            *_convolution(before, after, 1, config),
            activation,
        ]
    first, second = (
        _convolution(before, after, kernel, config),
        _convolution(after, after, kernel, config),
    )
    shortcut = _convolution(before, after, 1, config) if before != after else []
    parts = [_sequential([*first, activation, *second]), _sequential(shortcut), activation]
    return ["Residual(\n" + "".join(_indented(part) + ",\n" for part in parts) + INDENT + ")"]


def _sequential(layers: list[str]) -> str:
    if len(layers) < 2:
        return layers[0] if layers else "nn.Identity()"
    return "nn.Sequential(\n" + "".join(f"    {layer},\n" for layer in layers) + ")"


def _indented(text: str) -> str:
    """Every line of `text` where the arguments of a layer stand."""
    return "\n".join(f"{INDENT}    {line}" for line in text.splitlines())


def _convolution(
    before: int, after: int, kernel: int, config: ModelConfig, groups: int = 1
) -> list[str]:
    normed = config.norm == "batch"
    options = [f"nn.Conv2d({before}, {after}, {kernel}"]
    options += [f"padding={kernel // 2}"] if kernel > 1 else []
    options += [f"groups={groups}"] if groups > 1 else []
    options += ["bias=False"] if normed else []  # a norm's shift makes a bias idle
    norm = [f"nn.BatchNorm2d({after})"] if normed else []
    return [", ".join(options) + ")", *norm]
