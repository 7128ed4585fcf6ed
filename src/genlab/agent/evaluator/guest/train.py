"""Train a generated model: so many examples, or until the time is up.

Reads train.npz (items, labels) of the job's folder, `scale`, `examples`, `seconds` and `training`
(the fields of genlab.agent.architecture.training.Training). Writes weights.safetensors and
trained.json with the examples seen and the training loss over at most CURVE equal parts.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .loss import make_loss
from .module import BrokenModelError, Job, prepare, save_weights, tensors_of

CURVE = 50
KL_WARMUP = 0.1  # share of the steps in which the weight of the KL rises to 1
SIZED = ("RandomCrop", "RandomResizedCrop")


def run(job: Job) -> None:
    folder = Path(job["folder"])
    with np.load(folder / "train.npz", allow_pickle=False) as arrays:
        items, labels = (torch.from_numpy(arrays[name]) for name in ("items", "labels"))
    model = prepare(job)
    seen, losses = train(model, items.to(job["device"]), labels.to(job["device"]), job)
    save_weights(model, folder / "weights.safetensors")
    curve = [float(part.mean()) for part in np.array_split(losses, min(CURVE, len(losses)))]
    found = {"examples": seen, "curve": curve}
    (folder / "trained.json").write_text(json.dumps(found), encoding="utf-8")


def train(model: nn.Module, items: Tensor, labels: Tensor, job: Job) -> tuple[int, list[float]]:
    """Train in place, to averaged weights where asked; returns examples seen and loss per step."""
    asked = job["training"]
    size = min(asked["batch_size"], job["examples"])
    steps = job["examples"] // size
    loss_of, optimiser = make_loss(model, job), make_optimiser(model, asked)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, rate_schedule(asked, steps))
    augment = make_augmentation(asked["augmentation"], tuple(job["shape"][1:]))
    average = Average(model, asked["ema"]) if asked["ema"] else None
    generator = torch.Generator().manual_seed(job["seed"])
    losses: list[float] = []
    started = time.monotonic()
    model.train()
    for step, rows in enumerate(batches(len(items), size, steps, generator)):
        x = augment(items[rows.to(items.device)].float() / job["scale"])
        x, target = mix(x, labels[rows.to(items.device)], asked, job["classes"])
        beta = min(1.0, (step + 1) / (KL_WARMUP * steps))
        loss = loss_of(x, target, beta)
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise BrokenModelError(f"the training loss is not finite at step {step + 1} of {steps}")
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if asked["clip"]:
            nn.utils.clip_grad_norm_(model.parameters(), asked["clip"])
        optimiser.step()
        schedule.step()
        if average:
            average.update(model)
        if time.monotonic() - started > job["seconds"]:
            break
    if average:
        average.copy_to(model)
    return len(losses) * size, losses


def batches(count: int, size: int, steps: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Rows of each batch: one permutation of the items after the other, cut into `steps` parts."""
    rows = torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        while len(rows) < size:
            rows = torch.cat([rows, torch.randperm(count, generator=generator)])
        yield rows[:size]
        rows = rows[size:]


def make_optimiser(model: nn.Module, asked: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimiser of the recipe; without decay of vectors, which are biases and norms."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise BrokenModelError("the model has no parameters that can be trained")
    decayed, other = [p for p in trained if p.ndim > 1], [p for p in trained if p.ndim <= 1]
    groups = [
        {"params": decayed, "weight_decay": asked["weight_decay"]},
        {"params": other, "weight_decay": 0.0},
    ]
    lr, momentum = asked["lr"], asked["momentum"]
    choices: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "sgd": lambda: torch.optim.SGD(groups, lr, momentum, nesterov=momentum > 0),
        "adam": lambda: torch.optim.Adam(groups, lr),
        "adamw": lambda: torch.optim.AdamW(groups, lr),
        "nadam": lambda: torch.optim.NAdam(groups, lr),
        "radam": lambda: torch.optim.RAdam(groups, lr),
        "rmsprop": lambda: torch.optim.RMSprop(groups, lr, momentum=momentum),
    }
    return choices[asked["optimiser"]]()


def rate_schedule(asked: dict[str, Any], steps: int) -> Callable[[int], float]:
    """The factor of the learning rate at each step: a linear warm-up, then the schedule."""
    warm: int = round(asked["warmup"] * steps)

    def factor(step: int) -> float:
        if step < warm:
            return (step + 1) / warm
        share: float = (step - warm) / max(1, steps - warm)
        if asked["schedule"] == "cosine":
            return 0.5 * (1 + math.cos(math.pi * share))
        if asked["schedule"] == "linear":
            return 1 - share
        return 1.0

    return factor


def make_augmentation(
    asked: list[dict[str, Any]], size: tuple[int, int]
) -> Callable[[Tensor], Tensor]:
    """Transforms of torchvision.transforms.v2, drawn for each image by itself.

    size: height and width, to which crops without a size go.
    """
    if not asked:
        return lambda x: x
    from torchvision.transforms import v2

    steps = []
    for each in asked:
        arguments = {name: value for name, value in each.items() if name != "type"}
        if each["type"] in SIZED:
            arguments.setdefault("size", list(size))
        try:
            steps.append(getattr(v2, each["type"])(**arguments))
        except Exception as error:
            raise BrokenModelError(f"augmentation {each['type']}: {error}") from error

    def augment(x: Tensor) -> Tensor:
        images = []
        for image in x:
            for step in steps:
                image = step(image)
            images.append(image)
        if not all(isinstance(i, Tensor) and i.shape == x.shape[1:] for i in images):
            names = ", ".join(each["type"] for each in asked)
            raise BrokenModelError(f"augmentation {names} does not keep the shape of an image")
        return torch.stack(images).to(x).clamp(0, 1)

    return augment


def mix(x: Tensor, y: Tensor, asked: dict[str, Any], classes: int) -> tuple[Tensor, Tensor]:
    """Mixup (Zhang et al. 2018) and label smoothing of a batch: inputs, class probabilities."""
    smooth = asked["label_smoothing"]
    target = F.one_hot(y, classes).float() * (1 - smooth) + smooth / classes
    if not asked["mixup"]:
        return x, target
    share = float(np.random.beta(asked["mixup"], asked["mixup"]))
    other = torch.randperm(len(x), device=x.device)
    return share * x + (1 - share) * x[other], share * target + (1 - share) * target[other]


class Average:
    """An exponential moving average of the weights, faster over the first steps."""

    def __init__(self, model: nn.Module, memory: float) -> None:
        self.memory, self.steps = memory, 0
        self.state = {name: value.detach().clone() for name, value in tensors_of(model).items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.steps += 1
        memory = min(self.memory, (1 + self.steps) / (10 + self.steps))
        for name, value in tensors_of(model).items():
            if value.is_floating_point():
                self.state[name].lerp_(value, 1 - memory)
            else:
                self.state[name].copy_(value)

    def copy_to(self, model: nn.Module) -> None:
        model.load_state_dict(self.state, strict=False)
