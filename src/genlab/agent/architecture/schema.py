"""Architectures as data: layers of torch.nn by name, composed by Residual, Parallel and Repeat."""

import inspect
import keyword
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain, islice
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from genlab.core.errors import GenlabError, did_you_mean, to_genlab_error
from genlab.core.text import read_number

Layer = dict[str, Any]
"""`type` and the arguments of a layer."""

BLOCKS = {
    "Residual": ("layers",),
    "Parallel": ("branches", "merge"),
    "Repeat": ("times", "layers"),
}
CUSTOM = "custom"
FIELDS = {"classify": ("layers",), "generate": ("encoder", "decoder", "latent_dim")}
RESERVED = {*BLOCKS, "First", "SelfAttention", "Tokens", "Tensor", "torch", "nn", "super"}
COUNTS = ("out_channels", "out_features", "hidden_size", "groups")  # whole numbers of a layer
UNUSED = ("inplace", "name", "device", "dtype")  # change no result of a layer
MAX_LAYERS = 400
MAX_DEPTH = 8
MAX_TIMES = 64
MAX_NUMBER = 2**20
MAX_LATENTS = 1024


class ModelConfig(BaseModel):
    """An architecture: `layers` of a classifier, or `encoder`, `decoder` and `latent_dim`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "Model"  # of the class
    layers: tuple[Layer, ...] = ()
    encoder: tuple[Layer, ...] = ()
    decoder: tuple[Layer, ...] = ()
    latent_dim: int = Field(0, ge=0, le=MAX_LATENTS)
    description: str = Field("", max_length=1000)

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        name = re.sub(r"\W", "", name, flags=re.ASCII)[:40] or "Model"
        if keyword.iskeyword(name) or name in RESERVED or not name.isidentifier():
            raise ValueError(f"{name!r} is not a name that the class can have")
        return name

    @property
    def parts(self) -> dict[str, tuple[Layer, ...]]:
        """The lists of layers that are not empty, by the name of their field."""
        fields = {"layers": self.layers, "encoder": self.encoder, "decoder": self.decoder}
        return {name: layers for name, layers in fields.items() if layers}


def parse_config(raw: Mapping[str, Any], task: str) -> ModelConfig:
    """Parse a config as a language model or a person writes it.

    A layer without arguments may be its name alone. Raises a GenlabError that names the place and
    the fault.
    """
    all_fields = ModelConfig.model_fields  # those of the other task may be there, but empty
    content = {key: value for key, value in raw.items() if value or key not in all_fields}
    fields = ("name", "description", *FIELDS[task])
    for key in content:
        if key not in fields:
            hint = did_you_mean(str(key), fields)
            raise GenlabError(f"model_config.{key} is not a known key of task {task}{hint}")
    for key in FIELDS[task]:
        if key not in content:
            raise GenlabError(f"model_config.{key} is missing")
        if key != "latent_dim":
            content[key] = _read_layers(content[key], f"model_config.{key}")
    try:
        config = ModelConfig.model_validate(content)
    except ValidationError as error:
        raise to_genlab_error(error, "model_config") from error
    if len([*islice(walk(config), MAX_LAYERS + 1)]) > MAX_LAYERS:
        raise GenlabError(f"model_config: it has more than {MAX_LAYERS} layers")
    return config


def walk(config: ModelConfig) -> Iterator[Layer]:
    """Yield every layer, a block before its layers, those of a Repeat as often as it repeats."""
    waiting = [*chain(*config.parts.values())]
    while waiting:
        layer = waiting.pop(0)
        yield layer
        if layer["type"] in BLOCKS:  # lists in a custom layer belong to its description
            inner = [*layer.get("layers", ()), *chain(*layer.get("branches", ()))]
            waiting[:0] = inner * (layer["times"] if layer["type"] == "Repeat" else 1)


def has_custom(config: ModelConfig) -> bool:
    """Whether a layer is described in words, so that a language model has to write it."""
    return any(layer["type"] == CUSTOM for layer in walk(config))


@cache
def layer_names() -> tuple[str, ...]:
    """List the layers of torch.nn: modules that map one tensor to another, and self-attention."""
    from torch import nn

    names = []
    for name, layer in vars(nn).items():
        if not inspect.isclass(layer) or not issubclass(layer, nn.Module):
            continue
        if name.startswith("Lazy") or name == "Sequential":
            continue
        inputs = list(inspect.signature(layer.forward).parameters.values())[1:]
        required = [p.kind for p in inputs if p.default is p.empty]
        takes_one_tensor = required == [inspect.Parameter.POSITIONAL_OR_KEYWORD]
        if takes_one_tensor or name == "MultiheadAttention":
            names.append(name)
    return tuple(names)


@cache
def layer_arguments(name: str) -> dict[str, inspect.Parameter]:
    """List the arguments of a layer's constructor, in order."""
    from torch import nn

    # The signatures of GRU and LSTM are (*args, **kwargs).
    layer: Any = nn.RNNBase if name in ("RNN", "GRU", "LSTM") else getattr(nn, name)
    hidden = (*UNUSED, "mode") if layer is nn.RNNBase else UNUSED
    parameters = inspect.signature(layer).parameters
    return {name: value for name, value in parameters.items() if name not in hidden}


def _read_layers(raw: Any, where: str, depth: int = 0) -> list[Layer]:
    if not isinstance(raw, list | tuple) or depth > MAX_DEPTH:
        rule = f"it has to be a list of layers, nested {MAX_DEPTH} deep at most"
        raise GenlabError(f"{where}: {rule}")
    layers: list[Layer] = []
    for index, item in enumerate(raw):
        layer = {"type": item} if isinstance(item, str) else item
        path = f"{where}[{index}]"
        if not isinstance(layer, Mapping) or not isinstance(layer.get("type"), str):
            raise GenlabError(f"{path}: a layer is an object with a type")
        layers.append(_read_layer(dict(layer), path, depth + 1))
    return layers


def _read_layer(layer: Layer, where: str, depth: int) -> Layer:
    """Check a layer and read the layers within it, which are at `depth`."""
    kind = layer["type"]
    names = (*layer_names(), *BLOCKS, CUSTOM)
    if kind not in names:
        hint = did_you_mean(kind, names)
        raise GenlabError(f"{where}: {kind!r} is not a layer of torch.nn{hint}")
    if kind == CUSTOM:
        if not layer.get("description") or not isinstance(layer["description"], str):
            raise GenlabError(f"{where}: custom needs a description")
        return layer
    layer = {key: value for key, value in layer.items() if key not in UNUSED}
    allowed = BLOCKS.get(kind) or tuple(layer_arguments(kind))
    layer = {key: read_number(value) for key, value in layer.items()}
    for key, value in layer.items():
        if key not in ("type", *allowed):
            listed = ", ".join(allowed) or "none"
            raise GenlabError(f"{where}: {kind} has no argument {key}; it has {listed}")
        limit = MAX_TIMES if key == "num_layers" else MAX_NUMBER
        if isinstance(value, int | float) and not abs(value) <= limit:  # nan neither
            raise GenlabError(f"{where}.{key}: {value} is beyond {limit}")
        if key in COUNTS and type(value) is not int:
            raise GenlabError(f"{where}.{key}: {value!r} is not a whole number")
    if kind in ("Residual", "Repeat"):
        layer["layers"] = _read_layers(layer.get("layers"), f"{where}.layers", depth)
    times = layer.get("times")
    if kind == "Repeat" and (type(times) is not int or times not in range(1, MAX_TIMES + 1)):
        raise GenlabError(f"{where}: times of Repeat is a number from 1 to {MAX_TIMES}")
    if kind == "Parallel":
        merge = layer.setdefault("merge", "sum")
        branches = layer.get("branches")
        if merge not in ("sum", "concat") or not isinstance(branches, list | tuple) or not branches:
            raise GenlabError(f"{where}: Parallel needs branches and a merge of sum or concat")
        layer["branches"] = [
            _read_layers(branch, f"{where}.branches[{index}]", depth)
            for index, branch in enumerate(branches)
        ]
    return layer


def config_schema(task: str, *, small: bool = False) -> dict[str, Any]:
    """Make the JSON schema of a `model_config`.

    small: a handful of layer types with bounded numbers, for a weak model under a grammar. They
    compose in any order; linear layers would not, and the template adds the last one.
    """
    about = "a layer of torch.nn, Residual, Parallel, Repeat or custom"
    layer = _object(type={"type": "string", "description": about}) | {"additionalProperties": True}
    latents = {"type": "integer", "minimum": 1, "maximum": 64 if small else MAX_LATENTS}
    fields = {field: _list([layer], MAX_LAYERS) for field in FIELDS[task]}
    if small:
        fields = {field: _list(_small_layers(field), 12) for field in fields}
    if "latent_dim" in fields:
        fields["latent_dim"] = latents
    return _object(name={"type": "string", "description": "name of the class"}, **fields)


def _small_layers(field: str) -> list[dict[str, Any]]:
    width = {"type": "integer", "minimum": 4, "maximum": 32}
    fixed = {"kernel_size": {"enum": [1, 3]}, "padding": {"enum": ["same"]}}
    inner = [
        _layer("Conv2d", out_channels=width, **fixed),
        *(_layer(name) for name in ("BatchNorm2d", "ReLU", "GELU")),
        _layer("Dropout", p={"enum": [0.1, 0.2, 0.3, 0.5]}),
    ]
    resize = _layer("MaxPool2d", kernel_size={"enum": [2]})
    if field == "decoder":
        resize = _layer("Upsample", scale_factor={"enum": [2]})
    return [*inner, resize, _layer("Residual", layers=_list(inner, 4))]


def _layer(kind: str, **arguments: Any) -> dict[str, Any]:
    return _object(type={"enum": [kind]}, **arguments)


def _object(**fields: Any) -> dict[str, Any]:
    rules = {"required": list(fields), "additionalProperties": False}
    return {"type": "object", "properties": fields, **rules}


def _list(kinds: list[dict[str, Any]], max_items: int) -> dict[str, Any]:
    return {"type": "array", "items": {"anyOf": kinds}, "minItems": 1, "maxItems": max_items}
