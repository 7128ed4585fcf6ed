"""Architectures as data: layers of torch.nn by name, composed by Residual, Parallel and Repeat."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from genlab.core.errors import GenlabError, did_you_mean, invalid

Layer = dict[str, Any]
"""`type` and the arguments of a layer."""

BLOCKS: dict[str, tuple[str, ...]] = {
    "Residual": ("layers",),
    "Parallel": ("branches", "merge"),
    "Repeat": ("times", "layers"),
    "Permute": ("dims",),
}
CUSTOM = "custom"
FIELDS = {"classify": ("layers",), "generate": ("encoder", "decoder", "latent_dim")}
RESERVED = {*BLOCKS, "First", "SelfAttention", "Tokens", "torch", "nn", "super"}  # in written code
NESTED_ARGUMENTS = ("arguments", "args", "kwargs", "params")  # where some models put arguments
MAX_LAYERS, MAX_DEPTH, MAX_TIMES, MAX_INTEGER = 400, 8, 64, 2**20
MAX_LATENTS = 1024


class ModelConfig(BaseModel):
    """An architecture: `layers` of a classifier, or `encoder`, `decoder` and `latent_dim`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field("Model", max_length=40, description="name of the class")
    layers: tuple[Layer, ...] = ()
    encoder: tuple[Layer, ...] = ()
    decoder: tuple[Layer, ...] = ()
    latent_dim: int = Field(0, ge=0, le=MAX_LATENTS)
    description: str = Field("", max_length=1000)

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
            raise ValueError("is not a name that a class can have")
        if name in RESERVED:
            raise ValueError(f"must not be {name}, which the code uses for something else")
        return name

    @property
    def parts(self) -> dict[str, tuple[Layer, ...]]:
        """The lists of layers that are not empty, by their field."""
        fields = {"layers": self.layers, "encoder": self.encoder, "decoder": self.decoder}
        return {name: layers for name, layers in fields.items() if layers}


def parse_config(raw: Mapping[str, Any], task: str) -> ModelConfig:
    """Read a config as a language model or a person writes it.

    Names of layers are matched without regard to case, `nn.` and `Lazy`; a layer without arguments
    may be its name alone. Raises a GenlabError that names the place and the fault.
    """
    if not isinstance(raw, Mapping):
        raise GenlabError("model_config: it has to be an object")
    given = {
        key: value for key, value in raw.items() if value or key not in ModelConfig.model_fields
    }
    wanted = {"name", "description", *FIELDS[task]}
    for key in given:
        if key not in wanted:
            hint = did_you_mean(str(key), wanted)
            fields = " and ".join(FIELDS[task])
            raise GenlabError(f"model_config.{key} is not a known key{hint}; it holds {fields}")
    for field in FIELDS[task]:
        if not given.get(field):
            raise GenlabError(f"model_config.{field} is missing")
        if field != "latent_dim":
            given[field] = _read_layers(given[field], f"model_config.{field}", 0)
    if isinstance(given.get("name"), str):
        given["name"] = re.sub(r"\W", "", given["name"], flags=re.ASCII)[:40] or "Model"
    try:
        config = ModelConfig.model_validate(given)
    except ValidationError as error:
        raise invalid(error, "model_config") from error
    if sum(1 for _ in walk(config)) > MAX_LAYERS:
        raise GenlabError(f"model_config: it has more than {MAX_LAYERS} layers")
    return config


def walk(config: ModelConfig) -> Iterator[Layer]:
    """Every layer, blocks before what they hold; layers of a Repeat as often as it says."""
    for layers in config.parts.values():
        yield from _walk(layers)


def has_custom(config: ModelConfig) -> bool:
    """Whether a layer is described in words, so that a language model has to write it."""
    return any(layer.get("type") == CUSTOM for layer in walk(config))


@lru_cache(maxsize=1)
def layer_names() -> tuple[str, ...]:
    """The layers of torch.nn: modules that map one tensor to another, and self-attention."""
    from torch import nn

    found = []
    for name, each in vars(nn).items():
        if not (inspect.isclass(each) and issubclass(each, nn.Module)) or name.startswith("Lazy"):
            continue
        inputs = list(inspect.signature(each.forward).parameters.values())[1:]
        required = [p for p in inputs if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
        single = len(required) == 1 and required[0].kind is not inspect.Parameter.VAR_POSITIONAL
        if (single and name != "Sequential") or name == "MultiheadAttention":
            found.append(name)
    return tuple(found)


def layer_arguments(name: str) -> dict[str, inspect.Parameter]:
    """The arguments of a layer's constructor, in order."""
    from torch import nn

    found = dict(inspect.signature(getattr(nn, name)).parameters)
    hidden = {"args", "kwargs", "device", "dtype", "inplace"}
    if name in ("RNN", "GRU", "LSTM"):  # their signatures are (*args, **kwargs)
        found = dict(inspect.signature(nn.RNNBase).parameters)
        hidden |= {"mode"} if name == "LSTM" else {"mode", "proj_size"}
    return {key: value for key, value in found.items() if key not in hidden}


def config_schema(task: str, *, small: bool = False) -> dict[str, Any]:
    """The JSON schema of a `model_config`.

    small: a handful of layer types with bounded numbers, for a weak model under a grammar.
    """
    layers = {"type": "array", "minItems": 1, "maxItems": 16 if small else MAX_LAYERS}
    layers["items"] = {"anyOf": _small_layers()} if small else _OPEN_LAYER
    fields: dict[str, Any] = {"name": {"type": "string", "description": "name of the class"}}
    for field in FIELDS[task]:
        fields[field] = layers
    if task == "generate":
        most = 64 if small else MAX_LATENTS
        fields["latent_dim"] = {"type": "integer", "minimum": 1, "maximum": most}
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def example(task: str, shape: Sequence[int], outputs: int) -> ModelConfig:
    """A small network that works, for prompts and tests."""
    act: Layer = {"type": "ReLU"}
    conv = [{"type": "Conv2d", "out_channels": 16, "kernel_size": 3, "padding": 1}, act]
    if task == "classify":
        pool = {"type": "MaxPool2d", "kernel_size": 2}
        inner = [{**conv[0], "out_channels": 32}, {"type": "BatchNorm2d"}, act]
        layers = [*conv, pool, {"type": "Residual", "layers": inner},
                  {"type": "AdaptiveAvgPool2d", "output_size": 4}, {"type": "Flatten"},
                  {"type": "Linear", "out_features": outputs}]  # fmt: skip
        return ModelConfig(name="SmallResidual", layers=tuple(layers))
    sides = [-(-side // 2) for side in shape[1:]]
    first = {"type": "ConvTranspose2d", "out_channels": 16, "kernel_size": sides}
    down = {**conv[0], "stride": 2}
    decoder = (first, act, {"type": "Upsample", "scale_factor": 2}, *conv)
    return ModelConfig(name="SmallVAE", encoder=(down, act), decoder=decoder, latent_dim=16)


def _walk(layers: Sequence[Layer]) -> Iterator[Layer]:
    for layer in layers:
        yield layer
        times = layer["times"] if layer.get("type") == "Repeat" else 1
        for inner in (layer.get("layers") or (), *(layer.get("branches") or ())):
            for _ in range(times):
                yield from _walk(inner)


def _read_layers(raw: Any, where: str, depth: int) -> list[Layer]:
    if not isinstance(raw, list | tuple):
        raise GenlabError(f"{where}: it has to be a list of layers")
    if depth > MAX_DEPTH:
        raise GenlabError(f"{where}: blocks are nested more than {MAX_DEPTH} deep")
    found: list[Layer] = []
    for index, each in enumerate(raw):
        place = f"{where}[{index}]"
        each = {"type": each} if isinstance(each, str) else each
        if not isinstance(each, Mapping) or not isinstance(each.get("type"), str):
            raise GenlabError(f"{place}: a layer is an object with a type")
        if each["type"].lower().removeprefix("nn.") == "sequential":
            found += _read_layers(each.get("layers", ()), f"{place}.layers", depth + 1)
        else:
            found.append(_read_layer(dict(each), place, depth))
    return found


def _read_layer(layer: Layer, where: str, depth: int) -> Layer:
    for key in NESTED_ARGUMENTS:
        if isinstance(layer.get(key), Mapping):
            layer |= layer.pop(key)
    name = re.sub(r"^(torch\.)?(nn\.)?(lazy)?", "", layer["type"].strip(), flags=re.IGNORECASE)
    names = {each.lower(): each for each in (*layer_names(), *BLOCKS, CUSTOM)}
    if (known := names.get(name.lower())) is None:
        hint = did_you_mean(name, names.values())
        raise GenlabError(f"{where}: {name!r} is not a layer of torch.nn{hint}")
    layer = {"type": known, **{key: value for key, value in layer.items() if key != "type"}}
    if known == CUSTOM:
        if not isinstance(layer.get("description"), str) or not layer["description"].strip():
            raise GenlabError(f"{where}: custom needs a description")
        return layer
    if known in BLOCKS:
        return _read_block(layer, where, depth)
    for unused in ("inplace", "name", "device", "dtype"):  # change no result of a layer
        layer.pop(unused, None)
    allowed = layer_arguments(known)
    for key, value in layer.items():
        if key != "type" and key not in allowed:
            hint = did_you_mean(key, allowed)
            raise GenlabError(f"{where}: {known} has no argument {key}{hint}")
        _check_value(value, f"{where}.{key}", MAX_TIMES if key == "num_layers" else MAX_INTEGER)
    return layer


def _read_block(layer: Layer, where: str, depth: int) -> Layer:
    kind = layer["type"]
    for key in layer:
        if key not in ("type", *BLOCKS[kind]):
            raise GenlabError(f"{where}: {kind} has no argument {key}; {kind} has"
                              f" {' and '.join(BLOCKS[kind])}")  # fmt: skip
    if kind == "Permute":
        dims = layer.get("dims")
        if not isinstance(dims, list | tuple) or sorted(map(str, dims)) != [
            str(dim) for dim in range(1, len(dims) + 1)
        ]:
            raise GenlabError(f"{where}: dims of Permute are those after the batch, from 1")
        return {"type": kind, "dims": list(dims)}
    if kind == "Parallel":
        branches, merge = layer.get("branches"), layer.get("merge", "sum")
        if not isinstance(branches, list | tuple) or not branches or merge not in ("sum", "concat"):
            raise GenlabError(f"{where}: Parallel needs branches and a merge of sum or concat")
        read = [_read_layers(each, f"{where}.branches[{index}]", depth + 1)
                for index, each in enumerate(branches)]  # fmt: skip
        return {"type": kind, "branches": read, "merge": merge}
    layers = _read_layers(layer.get("layers"), f"{where}.layers", depth + 1)
    if kind == "Residual":
        return {"type": kind, "layers": layers}
    times = layer.get("times")
    if not isinstance(times, int) or isinstance(times, bool) or not 1 <= times <= MAX_TIMES:
        raise GenlabError(f"{where}: times of Repeat is a number from 1 to {MAX_TIMES}")
    return {"type": kind, "times": times, "layers": layers}


def _check_value(value: Any, where: str, most: int) -> None:
    if isinstance(value, list | tuple):
        for each in value:
            _check_value(each, where, most)
    elif isinstance(value, Mapping):
        raise GenlabError(f"{where}: it has to be a number, a word or a list")
    elif isinstance(value, int | float) and not abs(value) <= most:
        raise GenlabError(f"{where}: {value} is beyond {most}")


_OPEN_LAYER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": {
            "type": "string",
            "description": "a layer of torch.nn, Residual, Parallel, Repeat, Permute or custom",
        }
    },
    "required": ["type"],
    "additionalProperties": True,
}


def _small_layers() -> list[dict[str, Any]]:
    width = {"type": "integer", "minimum": 4, "maximum": 128}
    convolution = {
        "out_channels": width,
        "kernel_size": {"enum": [1, 3, 5]},
        "padding": {"enum": ["same"]},
    }
    simple: dict[str, dict[str, Any]] = {
        "Conv2d": convolution,
        "BatchNorm2d": {},
        "ReLU": {},
        "GELU": {},
        "Dropout": {"p": {"enum": [0.1, 0.2, 0.3, 0.5]}},
    }
    moving = {
        "MaxPool2d": {"kernel_size": {"enum": [2]}},
        "Upsample": {"scale_factor": {"enum": [2]}},
        "Flatten": {},
        "Linear": {"out_features": width},
    }
    inner = {"type": "array", "minItems": 1, "maxItems": 6}
    inner["items"] = {"anyOf": [_small(name, each) for name, each in simple.items()]}
    every = {**simple, **moving, "Residual": {"layers": inner}}
    return [_small(name, arguments) for name, arguments in every.items()]


def _small(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    fields = {"type": {"enum": [name]}, **arguments}
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }
