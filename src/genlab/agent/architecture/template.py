"""Code of a config: shapes are inferred on torch's meta device, so it has concrete sizes."""

from __future__ import annotations

import inspect
import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from genlab.agent.architecture.schema import CUSTOM, Layer, ModelConfig, layer_arguments
from genlab.core.errors import GenlabError

Shape = tuple[int, ...]  # without its batch dimension
Size = tuple[int, int, int]  # channels, height and width

BATCH = 7  # items of a probe: a layer that mixes up batch and channels is unlikely to pass
SEQUENCE = {"MultiheadAttention", "TransformerEncoderLayer", "RNN", "GRU", "LSTM"}
HELPERS = ("Residual", "Parallel", "SelfAttention", "First", "Tokens")


@dataclass(frozen=True)
class Node:
    """Code that makes one layer. parts: layers within, each with the text before it."""

    call: str
    shape: Shape  # of the output
    arguments: str = ""  # after the parts
    parts: tuple[tuple[str, Node], ...] = ()
    own: int = 0  # parameters that no part has

    def lines(self, before: Shape) -> list[str]:
        """The code, a layer per line, with the shape where it changes; before: of the input."""
        if not self.parts:
            return [f"{self.call}({self.arguments})"]
        found, shape = [f"{self.call}("], before
        for prefix, node in self.parts:
            shape = before if self.call == "Parallel" else shape
            first, *rest = node.lines(before if prefix else shape)
            found += [f"    {line}" for line in (prefix + first, *rest)]
            sides = " x ".join(map(str, node.shape))
            found[-1] += "," if prefix or node.shape == shape else f",  # {sides}"
            shape = node.shape
        return [*found, *([f"    {self.arguments},"] if self.arguments else []), ")"]

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.own + sum(node.parameters for _, node in self.parts)


@dataclass
class Chain:
    """Layers one after the other, and the shape that they have reached."""

    begin: Shape
    where: str = ""  # the layer that is being added
    nodes: list[Node] = field(default_factory=list)

    @property
    def shape(self) -> Shape:
        """The shape of the output."""
        return self.nodes[-1].shape if self.nodes else self.begin

    def extend(self, layers: Sequence[Layer], where: str) -> Chain:
        """Add layers of a config. Raises a GenlabError that names the layer and the fault."""
        for index, layer in enumerate(layers):
            kind, self.where = layer["type"], f"{where}[{index}]"
            if kind == CUSTOM:
                raise self.fault("custom layers need a language model that writes them")
            inner = layer["layers"] if kind == "Residual" else [layer]
            if len(self.shape) == 3 and SEQUENCE & {each["type"] for each in inner}:
                channels, *sides = self.shape  # pixels become tokens (batch, tokens, features)
                self.nodes.append(Node("Tokens", (math.prod(sides), channels)))
            if kind == "Repeat":
                for _ in range(layer["times"]):
                    self.extend(layer["layers"], f"{where}[{index}].layers")
            elif kind == "Residual":
                self.add_residual(inner)
            elif kind == "Parallel":
                self.add_parallel(layer["branches"], layer["merge"])
            else:
                if kind == "Linear" and len(self.shape) > 2:
                    self.add("Flatten")
                self.add(kind, **{key: value for key, value in layer.items() if key != "type"})
        return self

    def flatten(self) -> Chain:
        """Make one dimension of all."""
        if len(self.shape) > 1:
            self.add("Flatten")
        return self

    def add(self, kind: str, **arguments: Any) -> None:
        """Add one layer of torch.nn; sizes of its input are inferred."""
        if kind == "LayerNorm" and len(self.shape) == 3 and "normalized_shape" not in arguments:
            kind, arguments = "GroupNorm", {"num_groups": 1}  # of images: over all channels
        if kind in SEQUENCE and len(self.shape) != 2:
            raise self.fault(f"{kind} needs (batch, tokens, features)")
        first, last = self.shape[0], self.shape[-1]
        defaults = {"normalized_shape": last, "num_groups": math.gcd(8, first)}
        sizes = {
            **dict.fromkeys(("in_channels", "num_features", "num_channels"), first),
            **dict.fromkeys(("in_features", "input_size", "embed_dim", "d_model"), last),
            "batch_first": True,
        }
        known, arguments = layer_arguments(kind), defaults | arguments | sizes
        arguments = {key: each for key, each in arguments.items() if key in known}
        try:
            self.nodes.append(_probe(kind, json.dumps(arguments), self.shape))
        except Exception as error:
            reason = " ".join(str(error).split())[:240] or type(error).__name__
            raise self.fault(f"{kind}: {reason}") from error

    def add_residual(self, layers: Sequence[Layer]) -> None:
        """Add layers with a shortcut, which is a linear map where shapes differ."""
        inner, way = Chain(self.shape), Chain(self.shape, self.where)
        shape = inner.extend(layers, f"{self.where}.layers").shape
        parts = [("", node) for node in inner.nodes]
        if shape != self.shape:
            if len(self.shape) == len(shape) == 3:
                if shape[1:] != self.shape[1:]:
                    way.add("AdaptiveAvgPool2d", output_size=shape[1:])
                if shape[0] != self.shape[0]:
                    way.add("Conv2d", out_channels=shape[0], kernel_size=1, bias=False)
            elif self.shape[:-1] == shape[:-1]:
                way.add("Linear", out_features=shape[-1], bias=False)
            if way.shape != shape:
                raise self.fault(f"no shortcut leads to the output of the Residual, {shape}")
            parts.append(("shortcut=", way.node()))
        self.nodes.append(Node("Residual", shape, parts=tuple(parts)))

    def add_parallel(self, branches: Sequence[Sequence[Layer]], merge: str) -> None:
        """Add branches that are summed, or concatenated by channels or features."""
        chains = [
            Chain(self.shape).extend(branch, f"{self.where}.branches[{index}]")
            for index, branch in enumerate(branches)
        ]
        shapes, parts = [each.shape for each in chains], tuple(("", c.node()) for c in chains)
        dim = len(shapes[0]) - 1 if len(shapes[0]) < 3 else 0
        others = shapes if merge == "sum" else [(*x[:dim], *x[dim + 1 :]) for x in shapes]
        if len(set(others)) > 1:
            raise self.fault(f"branches of these shapes have no {merge}: {shapes}")
        shape, text = list(shapes[0]), ""
        if merge == "concat":
            shape[dim], text = sum(each[dim] for each in shapes), f"dim={dim + 1}"
        self.nodes.append(Node("Parallel", tuple(shape), text, parts))

    def sequential(self) -> Node:
        """The chain as an nn.Sequential."""
        return Node("nn.Sequential", self.shape, parts=tuple(("", node) for node in self.nodes))

    def node(self) -> Node:
        """The chain as one layer."""
        if not self.nodes:
            return Node("nn.Identity", self.shape)
        return self.nodes[0] if len(self.nodes) == 1 else self.sequential()

    def fault(self, reason: str) -> GenlabError:
        """An error at the current layer."""
        shape = " x ".join(("batch", *map(str, self.shape)))
        return GenlabError(f"model_config.{self.where}: {reason}; its input is {shape}")


@lru_cache(4096)
def _probe(kind: str, text: str, shape: Shape) -> Node:
    """Make a layer of the arguments in `text`, JSON, and call it on the meta device."""
    import torch
    from torch import nn

    arguments = {key: _freeze(value) for key, value in json.loads(text).items()}
    with torch.device("meta"), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = getattr(nn, kind)(**arguments)
        x = torch.empty(BATCH, *shape)
        out = module(x, x, x) if kind == "MultiheadAttention" else module(x)
    several = isinstance(out, tuple)
    found = tuple((out[0] if several else out).shape)
    if found[:1] != (BATCH,) or len(found) < 2 or 0 in found:
        raise ValueError(f"it gives {found} for a batch of {BATCH}")
    call = "SelfAttention" if kind == "MultiheadAttention" else f"nn.{kind}"
    code = _write_arguments(layer_arguments(kind), arguments)
    if several and kind != "MultiheadAttention":
        call, code = "First", f"{call}({code})"
    return Node(call, found[1:], code, own=sum(p.numel() for p in module.parameters()))


def write_source(config: ModelConfig, size: Size, outputs: int, task: str) -> str:
    """Write the module of a config as one Python file; its class takes no arguments.

    size: channels, height and width of the input. outputs: number of classes, or the channels that
    `decode` gives at the image's size. Raises a GenlabError that names the layer and the fault.
    """
    from jinja2 import Environment, PackageLoader

    chains = _build(config, size, outputs, task)
    parts = {
        name: f"\n{' ' * 8}".join(chain.sequential().lines(chain.begin))
        for name, chain in chains.items()
    }
    about = " ".join(config.description.replace("\\", "/").replace('"', "'").split())
    jinja = Environment(
        loader=PackageLoader("genlab.agent"), trim_blocks=True, keep_trailing_newline=True
    )
    return jinja.get_template("model.py.j2").render(
        config=config,
        task=task,
        used=[each for each in HELPERS if any(f"{each}(" in part for part in parts.values())],
        about=about or f"{config.name}, written from its model_config.",
        size=", ".join(map(str, size)),
        outputs=outputs,
        features=chains["encoder"].shape[0] if task == "generate" else 0,
        **parts,
    )


def count_parameters(config: ModelConfig, size: Size, outputs: int, task: str) -> int:
    """Number of parameters of the module that `write_source` writes. Raises as it does."""
    chains = _build(config, size, outputs, task)
    total = sum(node.parameters for chain in chains.values() for node in chain.nodes)
    if task == "generate":  # the two heads of the encoder
        total += 2 * (chains["encoder"].shape[0] + 1) * config.latent_dim
    return total


def _build(config: ModelConfig, size: Size, outputs: int, task: str) -> dict[str, Chain]:
    """The chains of a model, with the ends that its task needs."""
    if task == "classify":
        chain = Chain(size).extend(config.layers, "layers")
        if chain.shape != (outputs,):
            chain.flatten().add("Linear", out_features=outputs)
        return {"layers": chain}
    encoder = Chain(size).extend(config.encoder, "encoder").flatten()
    decoder = Chain((config.latent_dim,), "decoder")
    if config.decoder and config.decoder[0]["type"].endswith("2d"):
        decoder.add("Unflatten", dim=1, unflattened_size=(config.latent_dim, 1, 1))
    decoder.extend(config.decoder, "decoder")
    sides, pixels = size[1:], math.prod(size[1:])
    if len(decoder.shape) != 3:
        if decoder.flatten().shape[0] % pixels:
            decoder.add("Linear", out_features=outputs * pixels)
        decoder.add("Unflatten", dim=1, unflattened_size=(decoder.shape[0] // pixels, *sides))
    if decoder.shape[1:] != sides:
        decoder.add("Upsample", size=sides, mode="bilinear")
    if decoder.shape[0] != outputs:
        decoder.add("Conv2d", out_channels=outputs, kernel_size=1)
    return {"encoder": encoder, "decoder": decoder}


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list | tuple) else value


def _write_arguments(known: dict[str, inspect.Parameter], given: dict[str, Any]) -> str:
    """Arguments as a person writes them: required and first ones by position, no defaults."""
    found, positional = [], True
    for index, (name, parameter) in enumerate(known.items()):
        required = parameter.default is parameter.empty
        if name not in given or (index and not required and given[name] == parameter.default):
            positional = False
            continue
        positional &= parameter.kind is not parameter.KEYWORD_ONLY and (required or index == 0)
        value = given[name]
        text = json.dumps(value) if isinstance(value, str) else repr(value)
        found.append(text if positional else f"{name}={text}")
    return ", ".join(found)
