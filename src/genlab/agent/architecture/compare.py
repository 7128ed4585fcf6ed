"""Compare a config with the module built from it, and an attempt with its parent."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from genlab.agent.architecture.schema import BLOCKS, CUSTOM, ModelConfig, walk
from genlab.agent.architecture.training import Training

COMPOUND = {"MultiheadAttention", "TransformerEncoderLayer", "Residual", CUSTOM}
"""Layers that hold further layers of torch.nn."""
FINAL_LAYERS = Counter({"Linear": 2, "Conv2d": 1, "Upsample": 1})
"""How many layers of a type may be added at the end of a model, for its task."""
PREFIXES = {
    "out_channels": "", "out_features": "", "kernel_size": "k", "stride": "s", "padding": "p",
    "groups": "g", "scale_factor": "x", "output_size": "", "p": "", "layers": "", "branches": "",
}  # fmt: skip
"""How arguments are abbreviated: Conv2d(32 k3 p1)."""
ALWAYS_SHOWN = {"optimiser", "lr", "schedule", "batch_size"}
"""Keys of a recipe that are shown also where they have their default."""


def compare_build(
    config: ModelConfig, summary: Mapping[str, Any], requested_parameters: int | None = None
) -> list[str]:
    """List what was built otherwise than requested: layers by type and number, parameters.

    summary: the fields of a ModelSummary. requested_parameters: of the config, by
    `count_parameters`; None where it has custom layers. Activations and reshapes are left out: code
    that calls them as functions has no module for them.
    """
    from torch.nn.modules import activation, flatten

    requested = Counter(layer["type"] for layer in walk(config))
    built = Counter(str(layer["kind"]) for layer in summary.get("layers") or ())
    may_hold_more = bool(COMPOUND & {*requested})
    ignored = {*vars(activation), *vars(flatten), *BLOCKS, *COMPOUND, "Identity"}
    differences = []
    for kind in sorted({*requested, *built} - ignored):
        is_missing = built[kind] < requested[kind]
        is_added = built[kind] > requested[kind] + FINAL_LAYERS[kind]
        if is_missing or (is_added and not may_hold_more):
            differences.append(f"{kind}: {requested[kind]} requested, {built[kind]} built")
    parameters = summary.get("parameters")
    if None not in (parameters, requested_parameters) and parameters != requested_parameters:
        differences.append(f"parameters: {requested_parameters:,} requested, {parameters:,} built")
    return differences


def compare_configs(
    parent: ModelConfig, child: ModelConfig, parent_training: Training, child_training: Training
) -> list[str]:
    """List what a child changes: 'layers[2].out_channels 32 -> 64', 'lr 0.002 -> 0.001'."""
    ignored = {"name", "description"}
    in_config = _diff(parent.model_dump(exclude=ignored), child.model_dump(exclude=ignored), "")
    in_recipe = _diff(parent_training.model_dump(), child_training.model_dump(), "")
    return in_config + in_recipe


def format_design(config: ModelConfig, training: Training) -> str:
    """Write architecture and training recipe in one line, for prompts."""
    parts = [f"{name}: {_format(layers)}" for name, layers in config.parts.items()]
    if config.latent_dim:
        parts.append(f"latent_dim: {config.latent_dim}")
    recipe = training.model_dump(include=ALWAYS_SHOWN) | training.model_dump(exclude_defaults=True)
    parts.append(" ".join(f"{key} {_format(value)}" for key, value in recipe.items()))
    return "; ".join(parts)


def _diff(old: Any, new: Any, path: str) -> list[str]:
    """List the differences of two values at a path, which is that in `new`."""
    if isinstance(old, dict) and isinstance(new, dict) and old.get("type") == new.get("type"):
        prefix = f"{path}." if path else ""
        differences = []
        for key in dict.fromkeys((*old, *new)):
            differences += _diff(old.get(key), new.get(key), prefix + key)
        return differences
    are_lists = isinstance(old, list | tuple) and isinstance(new, list | tuple)
    if are_lists and any(isinstance(item, dict | list | tuple) for item in (*old, *new)):
        return _diff_lists(old, new, path)
    return [] if old == new else [f"{path} {_format(old)} -> {_format(new)}"]


def _diff_lists(old: Sequence[Any], new: Sequence[Any], path: str) -> list[str]:
    """List the differences of two lists of layers, whose equal layers are aligned."""
    old_texts = [json.dumps(item, sort_keys=True) for item in old]
    new_texts = [json.dumps(item, sort_keys=True) for item in new]
    differences: list[str] = []
    matcher = SequenceMatcher(None, old_texts, new_texts, False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            continue
        changed = min(old_end - old_start, new_end - new_start)
        for i in range(changed):
            at = new_start + i
            differences += _diff(old[old_start + i], new[at], f"{path}[{at}]")
        for at in range(new_start + changed, new_end):
            differences.append(f"{path}[{at}] {_format(new[at])} added")
        for at in range(old_start + changed, old_end):
            differences.append(f"{path}[{at}] {_format(old[at])} removed")
    return differences


def _format(value: Any) -> str:
    """Write a value, a layer such as Conv2d(32 k3 p1), or a list of layers in a few characters."""
    if isinstance(value, dict):
        arguments = [PREFIXES.get(k, f"{k}=") + _format(v) for k, v in value.items() if k != "type"]
        return str(value.get("type", "")) + (f"({' '.join(arguments)})" if arguments else "")
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(_format, value))}]"
    return str(value) if not isinstance(value, float) else f"{value:g}"
