"""Describe a generated model, and check that it can be trained and evaluated.

Reads `check` and `sizes`, the batch sizes whose answers are checked. Writes summary.json:
`parameters`, `trainable`, `multiply_adds` (per item, or null), `output` (for a batch of two),
`layers` and torchinfo's `table`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
import torchinfo
from torch import Tensor, nn

from .loss import make_loss
from .module import BrokenModelError, Job, answer, prepare

MOST_LAYERS = 200
LONGEST_TABLE = 30_000  # characters
UNITS = re.compile(r"Units\.(\w)\w*BYTES")  # torchinfo's millions, printed as its enum's name
COLUMNS = ("input_size", "output_size", "num_params", "mult_adds")


def run(job: Job) -> None:
    model = prepare(job).eval()
    x = torch.rand(2, *job["shape"], device=job["device"])
    with torch.no_grad():
        output = answer(model, x, job)[-1]
    parameters = list(model.parameters())
    found = {
        "parameters": sum(each.numel() for each in parameters),
        "trainable": sum(each.numel() for each in parameters if each.requires_grad),
        "output": list(output.shape),
        **describe(model, x, job),
    }
    if job["check"]:
        check(model, x, job)
    Path(job["folder"], "summary.json").write_text(json.dumps(found), encoding="utf-8")


class Whole(nn.Module):
    """A generative model as one function, from images to the parameters of their pixels."""

    def __init__(self, model: nn.Module, job: Job) -> None:
        super().__init__()
        self.model, self.job = model, job

    def forward(self, x: Tensor) -> Tensor:
        return answer(self.model, x, self.job)[-1]


def describe(model: nn.Module, x: Tensor, job: Job) -> dict[str, Any]:
    """Layers and multiply-adds by torchinfo; without shapes where it cannot follow the model."""
    whole = Whole(model, job) if job["task"] == "generate" else model
    try:
        found = torchinfo.summary(
            whole, input_data=x, col_names=COLUMNS, depth=8, verbose=0, mode="eval",
            cache_forward_pass=False,
        )  # fmt: skip
        leaves = [layer for layer in found.summary_list if layer.is_leaf_layer]
        layers = [
            {
                "name": _name(layer).removeprefix("model." if whole is not model else ""),
                "kind": layer.class_name,
                "output": [int(side) for side in layer.output_size],
                "parameters": 0 if layer.is_recursive else int(layer.num_params),
            }
            for layer in leaves[:MOST_LAYERS]
        ]
        table = UNITS.sub(lambda hit: hit[1], str(found))[:LONGEST_TABLE]
        return {"multiply_adds": int(found.total_mult_adds) // 2, "layers": layers, "table": table}
    except Exception:
        parts = [(n, m) for n, m in model.named_modules() if n and not list(m.children())]
        layers = [
            {
                "name": name,
                "kind": type(module).__name__,
                "output": [],
                "parameters": sum(each.numel() for each in module.parameters()),
            }
            for name, module in parts[:MOST_LAYERS]
        ]
        return {"multiply_adds": None, "layers": layers, "table": ""}


def _name(layer: Any) -> str:
    """The path of a layer in its model, such as `layers.0`."""
    parts = []
    while layer is not None and layer.parent_info is not None:
        parts.append(layer.var_name)
        layer = layer.parent_info
    return ".".join(reversed(parts))


def check(model: nn.Module, x: Tensor, job: Job) -> None:
    """Answers to batches of two sizes, and one training step with finite gradients."""
    for size in (2, 3):
        with torch.no_grad():
            answers = answer(model.eval(), torch.rand(size, *x.shape[1:], device=x.device), job)
        if not all(bool(each.isfinite().all()) for each in answers):
            raise BrokenModelError(f"the output for {size} items is not finite (nan or inf)")
    trained = {id(p): name for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise BrokenModelError("the model has no parameters that can be trained")
    target = torch.full((2, job["classes"]), 1 / job["classes"], device=x.device)
    loss = make_loss(model.train(), job)((x * 255).round() / 255, target, 1.0)
    if loss.grad_fn is None:
        raise BrokenModelError("the output has no gradient (detached, or under no_grad)")
    if stray := [each for each in _leaves(loss) if id(each) not in trained]:
        shape = tuple(stray[0].shape)
        raise BrokenModelError(
            f"a parameter of shape {shape} gets a gradient but is not registered in the model;"
            " keep layers in nn.ModuleList, not in a list"
        )
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    for name, gradient in gradients.items():
        if not bool(gradient.isfinite().all()):
            raise BrokenModelError(f"the gradient of {name} is not finite (nan or inf)")
    if not any(bool(each.any()) for each in gradients.values()):
        raise BrokenModelError("every gradient is zero: the output does not depend on a parameter")
    torch.optim.SGD(model.parameters(), 1e-3).step()


def _leaves(loss: Tensor) -> list[Tensor]:
    """The tensors that gradients of `loss` are accumulated in."""
    waiting, known, found = [loss.grad_fn], set(), []
    while waiting:
        node: Any = waiting.pop()
        if node is None or node in known:
            continue
        known.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        waiting += [following for following, _ in node.next_functions]
    return found
