"""What runs inside the sandbox: build a model that was written by a stranger, and describe it.

    python summary_guest.py JOB.json

It imports nothing of ours; `guest`, a path in the job, is the sibling that loads strangers' files.
JOB.json: `guest`, `model`, `class_name`, `size` (of an input, with its batch), `training` (whether
it is trained for one step, so that what breaks there breaks here), `output` (a file).

It leaves the output: JSON with `parameters`, `trainable`, `multiply_adds` (of the whole batch),
`shape` of what forward gives, `layers` and torchinfo's `table`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torchinfo
from torch import Tensor, nn

MOST_LAYERS = 200
LONGEST_TABLE = 30_000  # characters
UNITS = re.compile(r"Units\.(\w)\w*BYTES")  # torchinfo's millions, printed as its enum's name
COLUMNS = ("input_size", "output_size", "num_params", "mult_adds")


def borrowed(path: str) -> ModuleType:
    """The module of a file that is on no search path."""
    spec = importlib.util.spec_from_file_location("guest", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def name_of(layer: Any) -> str:
    """The path of a layer in its model, such as `layers.0`."""
    parts = []
    while layer is not None and layer.parent_info is not None:
        parts.append(layer.var_name)
        layer = layer.parent_info
    return ".".join(reversed(parts))


def described(model: nn.Module, x: Tensor) -> dict[str, Any]:
    """Structure and counts of `model` for a batch `x`."""
    with torch.no_grad():
        answer = model.eval()(x)
    if not isinstance(answer, Tensor):
        raise TypeError(f"forward gives a {type(answer).__name__}, not a tensor")
    found = torchinfo.summary(
        model,
        input_data=x,
        col_names=COLUMNS,
        depth=8,
        verbose=0,
        mode="eval",
        cache_forward_pass=False,
    )
    leaves = [layer for layer in found.summary_list if layer.is_leaf_layer]
    return {
        "parameters": sum(each.numel() for each in model.parameters()),
        "trainable": sum(each.numel() for each in model.parameters() if each.requires_grad),
        "multiply_adds": int(found.total_mult_adds),
        "shape": list(answer.shape),
        "layers": [
            {
                "name": name_of(layer),
                "kind": layer.class_name,
                "output": [int(side) for side in layer.output_size],
                "parameters": 0 if layer.is_recursive else int(layer.num_params),
            }
            for layer in leaves[:MOST_LAYERS]
        ],
        "table": UNITS.sub(lambda hit: hit[1], str(found))[:LONGEST_TABLE],
    }


def trained_once(model: nn.Module, x: Tensor) -> None:
    """One forward and backward in training."""
    answer = model.train()(x)
    if answer.requires_grad:
        answer.float().square().mean().backward()


def main(job: dict[str, Any], guest: ModuleType) -> None:
    torch.manual_seed(0)
    model = guest.load(job["model"], job["class_name"])
    x = torch.rand(job["size"])
    found = described(model, x)
    if job["training"]:
        trained_once(model, x)
    Path(job["output"]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    work = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    ours = borrowed(work["guest"])
    try:
        main(work, ours)
    except ours.BrokenModelError as error:
        ours.told(error)
    except Exception as error:
        # torchinfo wraps what broke in words of its own.
        cause = error.__cause__ if str(error).startswith("Failed to run torchinfo") else None
        ours.told(ours.in_a_line(cause or error, work["model"]))
