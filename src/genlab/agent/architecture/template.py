"""Write the code of a config; shapes are inferred on torch's meta device, so sizes are concrete."""

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
    """The code of one layer. children: layers within it, each with the text before it."""

    call: str
    shape: Shape  # of the output
    arguments: str = ""  # after the children
    children: tuple[tuple[str, Node], ...] = ()
    own_parameters: int = 0  # those that no child has

    def lines(self, input_shape: Shape) -> list[str]:
        """Write the code, one layer per line, with the shape where it changes."""
        if not self.children:
            return [f"{self.call}({self.arguments})"]
        lines = [f"{self.call}("]
        shape = input_shape
        for prefix, node in self.children:
            if self.call == "Parallel":
                shape = input_shape
            first, *rest = node.lines(input_shape if prefix else shape)
            lines += [f"    {line}" for line in (prefix + first, *rest)]
            sides = " x ".join(map(str, node.shape))
            lines[-1] += "," if prefix or node.shape == shape else f",  # {sides}"
            shape = node.shape
        if self.arguments:
            lines.append(f"    {self.arguments},")
        return [*lines, ")"]

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.own_parameters + sum(node.parameters for _, node in self.children)


@dataclass
class Chain:
    """Layers one after the other, and the shape of their output."""

    input_shape: Shape
    where: str = ""  # the layer that is being added
    nodes: list[Node] = field(default_factory=list)

    @property
    def shape(self) -> Shape:
        """The shape of the output."""
        return self.nodes[-1].shape if self.nodes else self.input_shape

    def extend(self, layers: Sequence[Layer], where: str) -> Chain:
        """Add layers of a config. Raises a GenlabError that names the layer and the fault."""
        for index, layer in enumerate(layers):
            kind = layer["type"]
            self.where = f"{where}[{index}]"
            if kind == CUSTOM:
                raise self.fault("custom layers need a language model that writes them")
            inner = layer["layers"] if kind == "Residual" else [layer]
            if len(self.shape) == 3 and SEQUENCE & {inner_layer["type"] for inner_layer in inner}:
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
        """Flatten the output to one dimension per item."""
        if len(self.shape) > 1:
            self.add("Flatten")
        return self

    def add(self, kind: str, **arguments: Any) -> None:
        """Add one layer of torch.nn; sizes of its input are inferred."""
        if kind == "LayerNorm" and len(self.shape) == 3 and "normalized_shape" not in arguments:
            kind = "GroupNorm"  # of images: over all channels
            arguments = {"num_groups": 1}
        if kind in SEQUENCE and len(self.shape) != 2:
            raise self.fault(f"{kind} needs (batch, tokens, features)")
        channels = self.shape[0]
        features = self.shape[-1]
        defaults = {"normalized_shape": features, "num_groups": math.gcd(8, channels)}
        sizes = {
            **dict.fromkeys(("in_channels", "num_features", "num_channels"), channels),
            **dict.fromkeys(("in_features", "input_size", "embed_dim", "d_model"), features),
            "batch_first": True,
        }
        signature = layer_arguments(kind)
        arguments = defaults | arguments | sizes
        arguments = {name: value for name, value in arguments.items() if name in signature}
        try:
            self.nodes.append(_probe(kind, json.dumps(arguments), self.shape))
        except Exception as error:
            reason = " ".join(str(error).split())[:240] or type(error).__name__
            raise self.fault(f"{kind}: {reason}") from error

    def add_residual(self, layers: Sequence[Layer]) -> None:
        """Add layers with a shortcut, which is a linear map where shapes differ."""
        inner = Chain(self.shape).extend(layers, f"{self.where}.layers")
        children = [("", node) for node in inner.nodes]
        if inner.shape != self.shape:
            children.append(("shortcut=", self._make_shortcut(inner.shape)))
        self.nodes.append(Node("Residual", inner.shape, children=tuple(children)))

    def _make_shortcut(self, shape: Shape) -> Node:
        """Make layers that map this chain's shape to another one."""
        shortcut = Chain(self.shape, self.where)
        if len(self.shape) == len(shape) == 3:
            if shape[1:] != self.shape[1:]:
                shortcut.add("AdaptiveAvgPool2d", output_size=shape[1:])
            if shape[0] != self.shape[0]:
                shortcut.add("Conv2d", out_channels=shape[0], kernel_size=1, bias=False)
        elif self.shape[:-1] == shape[:-1]:
            shortcut.add("Linear", out_features=shape[-1], bias=False)
        if shortcut.shape != shape:
            raise self.fault(f"no shortcut leads to the output of the Residual, {shape}")
        return shortcut.node()

    def add_parallel(self, branches: Sequence[Sequence[Layer]], merge: str) -> None:
        """Add branches that are summed, or concatenated by channels or features."""
        chains = [
            Chain(self.shape).extend(branch, f"{self.where}.branches[{index}]")
            for index, branch in enumerate(branches)
        ]
        shapes = [chain.shape for chain in chains]
        children = tuple(("", chain.node()) for chain in chains)
        dim = len(shapes[0]) - 1 if len(shapes[0]) < 3 else 0  # channels of images, else features
        equal_sides = shapes
        if merge == "concat":
            equal_sides = [(*shape[:dim], *shape[dim + 1 :]) for shape in shapes]
        if len(set(equal_sides)) > 1:
            raise self.fault(f"branches of these shapes have no {merge}: {shapes}")
        merged_shape = list(shapes[0])
        arguments = ""
        if merge == "concat":
            merged_shape[dim] = sum(shape[dim] for shape in shapes)
            arguments = f"dim={dim + 1}"
        self.nodes.append(Node("Parallel", tuple(merged_shape), arguments, children))

    def sequential(self) -> Node:
        """Return the chain as an nn.Sequential."""
        return Node("nn.Sequential", self.shape, children=tuple(("", node) for node in self.nodes))

    def node(self) -> Node:
        """Return the chain as one layer."""
        if not self.nodes:
            return Node("nn.Identity", self.shape)
        return self.nodes[0] if len(self.nodes) == 1 else self.sequential()

    def fault(self, reason: str) -> GenlabError:
        """Make an error that names the current layer and its input."""
        shape = " x ".join(("batch", *map(str, self.shape)))
        return GenlabError(f"model_config.{self.where}: {reason}; its input is {shape}")


@lru_cache(4096)
def _probe(kind: str, text: str, shape: Shape) -> Node:
    """Make a layer with the arguments in `text`, JSON, and call it on the meta device."""
    import torch
    from torch import nn

    arguments = {key: _freeze(value) for key, value in json.loads(text).items()}
    with torch.device("meta"), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = getattr(nn, kind)(**arguments)
        x = torch.empty(BATCH, *shape)
        out = module(x, x, x) if kind == "MultiheadAttention" else module(x)
    returns_tuple = isinstance(out, tuple)
    out_shape = tuple((out[0] if returns_tuple else out).shape)
    if out_shape[:1] != (BATCH,) or len(out_shape) < 2 or 0 in out_shape:
        raise ValueError(f"it gives {out_shape} for a batch of {BATCH}")
    parameters = sum(p.numel() for p in module.parameters())
    code = _write_arguments(layer_arguments(kind), arguments)
    if kind == "MultiheadAttention":
        return Node("SelfAttention", out_shape[1:], code, own_parameters=parameters)
    if returns_tuple:
        return Node("First", out_shape[1:], f"nn.{kind}({code})", own_parameters=parameters)
    return Node(f"nn.{kind}", out_shape[1:], code, own_parameters=parameters)


def write_source(config: ModelConfig, size: Size, outputs: int, task: str) -> str:
    """Write the module of a config as one Python file; its class takes no arguments.

    size: channels, height and width of the input. outputs: number of classes, or the channels that
    `decode` gives at the image's size. Raises a GenlabError that names the layer and the fault.
    """
    from jinja2 import Environment, PackageLoader

    chains = _build(config, size, outputs, task)
    code = {
        name: f"\n{' ' * 8}".join(chain.sequential().lines(chain.input_shape))
        for name, chain in chains.items()
    }
    used = [name for name in HELPERS if any(f"{name}(" in text for text in code.values())]
    about = " ".join(config.description.replace("\\", "/").replace('"', "'").split())
    jinja = Environment(
        loader=PackageLoader("genlab.agent"), trim_blocks=True, keep_trailing_newline=True
    )
    return jinja.get_template("model.py.j2").render(
        config=config,
        task=task,
        used=used,
        about=about or f"{config.name}, written from its model_config.",
        size=", ".join(map(str, size)),
        outputs=outputs,
        features=chains["encoder"].shape[0] if task == "generate" else 0,
        **code,
    )


def count_parameters(config: ModelConfig, size: Size, outputs: int, task: str) -> int:
    """Count the parameters of the module that `write_source` writes. Raises as it does."""
    chains = _build(config, size, outputs, task)
    total = sum(node.parameters for chain in chains.values() for node in chain.nodes)
    if task == "generate":  # the two heads of the encoder
        total += 2 * (chains["encoder"].shape[0] + 1) * config.latent_dim
    return total


def _build(config: ModelConfig, size: Size, outputs: int, task: str) -> dict[str, Chain]:
    """Build the chains of a model, with the final layers that its task needs."""
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
    sides = size[1:]
    pixels = math.prod(sides)
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


def _write_arguments(signature: dict[str, inspect.Parameter], values: dict[str, Any]) -> str:
    """Write arguments as a person would: required and first ones by position, no defaults."""
    arguments = []
    positional = True
    for index, (name, parameter) in enumerate(signature.items()):
        required = parameter.default is parameter.empty
        if name not in values or (index and not required and values[name] == parameter.default):
            positional = False
            continue
        positional &= parameter.kind is not parameter.KEYWORD_ONLY and (required or index == 0)
        value = values[name]
        text = json.dumps(value) if isinstance(value, str) else repr(value)
        arguments.append(text if positional else f"{name}={text}")
    return ", ".join(arguments)
