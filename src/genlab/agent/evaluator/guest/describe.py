"""Describe a generated model, and where `check` asks so, whether it can be trained and evaluated.

Writes summary.json: `parameters`, `trainable`, `output` (for a batch of two), and where torchinfo
can follow, `multiply_adds` (per item) and `layers`.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torchinfo
from torch import Tensor, nn

from .module import BrokenModelError, Job, answer, prepare, trainable
from .train import make_loss

MOST_LAYERS = 200


class Whole(nn.Module):
    """A model as one function from its input to its last answer."""

    def __init__(self, model: nn.Module, job: Job) -> None:
        super().__init__()
        self.model, self.job = model, job

    def forward(self, x: Tensor) -> Tensor:
        return answer(self.model, x, self.job)[-1]


def run(job: Job) -> None:
    model = prepare(job).eval()
    x = torch.rand(2, *job["shape"], device=job["device"])
    whole, parameters = Whole(model, job), list(model.parameters())
    with torch.no_grad():
        found: dict[str, Any] = {"output": list(whole(x).shape)}
    found["parameters"] = sum(each.numel() for each in parameters)
    found["trainable"] = sum(each.numel() for each in parameters if each.requires_grad)
    with suppress(Exception):  # of torchinfo: the model itself has just answered
        found |= describe(whole, x)
    if job["check"]:
        check(model, x, job)
    Path(job["folder"], "summary.json").write_text(json.dumps(found), encoding="utf-8")


def describe(whole: Whole, x: Tensor) -> dict[str, Any]:
    """Layers without layers below them and multiply-adds, by torchinfo."""
    options = {"depth": 9, "verbose": 0, "mode": "eval", "cache_forward_pass": False}
    found: Any = torchinfo.summary(whole, input_data=x, **options)
    names = {id(module): name for name, module in whole.model.named_modules()}
    layers = [
        {
            "name": names[id(layer.module)],
            "kind": layer.class_name,
            "output": [int(side) for side in layer.output_size],
            "parameters": 0 if layer.is_recursive else int(layer.num_params),
        }
        for layer in found.summary_list
        if layer.is_leaf_layer
    ]
    return {"multiply_adds": int(found.total_mult_adds) // len(x), "layers": layers[:MOST_LAYERS]}


def check(model: nn.Module, x: Tensor, job: Job) -> None:
    """Answers to batches of two sizes, and one training step with finite gradients."""
    for size in (2, 3):
        with torch.no_grad():
            answers = answer(model.eval(), torch.rand(size, *x.shape[1:], device=x.device), job)
        if not all(bool(each.isfinite().all()) for each in answers):
            raise BrokenModelError(f"the output for {size} items is not finite (nan or inf)")
    trained = trainable(model)
    target = torch.full((2, job["classes"]), 1 / job["classes"], device=x.device)
    loss = make_loss(model.train(), job)(x, target, 1.0)
    if loss.grad_fn is None:
        raise BrokenModelError("the output has no gradient (detached, or under no_grad)")
    known = {id(parameter) for parameter in trained.values()}
    if stray := [each for each in leaves_of(loss) if id(each) not in known]:
        fault = f"a parameter of shape {tuple(stray[0].shape)} is not registered in the model"
        raise BrokenModelError(f"{fault}; keep layers in nn.ModuleList, not in a list")
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = {name: p.grad for name, p in trained.items() if p.grad is not None}
    for name, gradient in gradients.items():
        if not bool(gradient.isfinite().all()):
            raise BrokenModelError(f"the gradient of {name} is not finite (nan or inf)")
    if not any(bool(each.any()) for each in gradients.values()):
        raise BrokenModelError("every gradient is zero: the output does not depend on a parameter")
    torch.optim.SGD(model.parameters(), 1e-3).step()


def leaves_of(loss: Tensor) -> list[Tensor]:
    """The tensors that gradients of `loss` are accumulated in."""
    waiting, known = [loss.grad_fn], set[Any]()
    while waiting:
        node: Any = waiting.pop()
        if node is not None and node not in known:
            known.add(node)
            waiting += [following for following, _ in node.next_functions]
    return [node.variable for node in known if hasattr(node, "variable")]
