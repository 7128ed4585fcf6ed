"""What differs: between a config and its module, between an attempt and its parent."""

import json
from collections import Counter
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from genlab.agent.architecture.schema import BLOCKS, CUSTOM, ModelConfig, walk
from genlab.agent.architecture.training import Training

COMPOUND = {"MultiheadAttention", "TransformerEncoderLayer", "Residual", CUSTOM}  # bring layers
ENDS = Counter({"Linear": 2, "Conv2d": 1, "Upsample": 1})  # that the task of a model may add
SHORT = {"out_channels": "", "out_features": "", "kernel_size": "k", "stride": "s", "padding": "p",
         "groups": "g", "scale_factor": "x", "output_size": "", "p": "",
         "layers": "", "branches": ""}  # fmt: skip
ALWAYS = {"optimiser", "lr", "schedule", "batch_size"}


def compare_build(
    config: ModelConfig, summary: Mapping[str, Any], requested_parameters: int | None = None
) -> list[str]:
    """What was built otherwise than requested: layers by type and number, parameters.

    summary: as the judge gives it. requested_parameters: of the config by `count_parameters`, None
    where it has custom layers. Activations and reshapes are left out: code that calls them as
    functions has no module for them.
    """
    from torch.nn.modules import activation, flatten

    types = [layer["type"] for layer in walk(config)]
    requested, brings = Counter(types), bool(COMPOUND & {*types})
    built = Counter(str(layer["kind"]) for layer in summary.get("layers") or ())
    ignored = {*vars(activation), *vars(flatten), *BLOCKS, *COMPOUND, "Identity"}
    found = [
        f"{kind}: {requested[kind]} requested, {built[kind]} built"
        for kind in sorted({*requested, *built} - ignored)
        if built[kind] < requested[kind]
        or (built[kind] > requested[kind] + ENDS[kind] and not brings)
    ]
    parameters = summary.get("parameters")
    if None not in (parameters, requested_parameters) and parameters != requested_parameters:
        found.append(f"parameters: {requested_parameters:,} requested, {parameters:,} built")
    return found


def compare_configs(
    parent: ModelConfig, child: ModelConfig, parent_training: Training, child_training: Training
) -> list[str]:
    """What a child changes, such as 'layers[2].out_channels 32 -> 64' or 'lr 0.002 -> 0.001'."""
    configs = [each.model_dump(exclude={"name", "description"}) for each in (parent, child)]
    recipes = [each.model_dump() for each in (parent_training, child_training)]
    return [*_diff(configs[0], configs[1], ""), *_diff(recipes[0], recipes[1], "")]


def format_design(config: ModelConfig, training: Training) -> str:
    """Architecture and training in one line, for prompts."""
    parts = [f"{name}: {_show(layers)}" for name, layers in config.parts.items()]
    if config.latent_dim:
        parts.append(f"latent_dim: {config.latent_dim}")
    recipe = training.model_dump(include=ALWAYS) | training.model_dump(exclude_defaults=True)
    return "; ".join([*parts, " ".join(f"{key} {_show(each)}" for key, each in recipe.items())])


def _diff(old: Any, new: Any, where: str) -> list[str]:
    """Differences of two values; equal items of lists are aligned, places are those of `new`."""
    if isinstance(old, dict) and isinstance(new, dict) and old.get("type") == new.get("type"):
        prefix = f"{where}." if where else ""
        keys = dict.fromkeys((*old, *new))
        return [line for key in keys for line in _diff(old.get(key), new.get(key), prefix + key)]
    if not (isinstance(old, list | tuple) and isinstance(new, list | tuple)) or not any(
        isinstance(each, dict | list | tuple) for each in (*old, *new)
    ):
        return [] if old == new else [f"{where} {_show(old)} -> {_show(new)}"]
    texts = [[json.dumps(each, sort_keys=True) for each in items] for items in (old, new)]
    found: list[str] = []
    for tag, a, b, c, d in SequenceMatcher(None, texts[0], texts[1], False).get_opcodes():
        both = min(b - a, d - c) if tag != "equal" else 0
        for i in range(both):
            found += _diff(old[a + i], new[c + i], f"{where}[{c + i}]")
        if tag != "equal":
            found += [f"{where}[{i}] {_show(new[i])} added" for i in range(c + both, d)]
            found += [f"{where}[{i}] {_show(old[i])} removed" for i in range(a + both, b)]
    return found


def _show(value: Any) -> str:
    """A value, a layer such as Conv2d(32 k3 p1), or a list of layers, as a few characters."""
    if isinstance(value, dict):
        given = [SHORT.get(k, f"{k}=") + _show(v) for k, v in value.items() if k != "type"]
        return str(value.get("type", "")) + (f"({' '.join(given)})" if given else "")
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(_show, value))}]"
    return str(value) if not isinstance(value, float) else f"{value:g}"
