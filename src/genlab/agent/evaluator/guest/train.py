"""Train a generated model: so many examples, or until the time is up.

Reads `examples`, `seconds` and `training`, the fields of genlab.agent.architecture.training. Writes
weights.safetensors, and trained.json: examples seen, loss over at most CURVE equal parts.
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
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from .module import (
    BrokenModelError,
    Job,
    decode,
    encode,
    logits,
    prepare,
    read_inputs,
    tensors_of,
    trainable,
)

CURVE = 50
KL_WARMUP = 0.1  # share of the steps in which the weight of the KL rises to 1


def run(job: Job) -> None:
    folder, (items, labels) = Path(job["folder"]), read_inputs(job, "items", "labels")
    model, size = prepare(job), min(job["training"]["batch_size"], job["examples"])
    losses = train(model, items, labels, size, job)
    state = {name: value.detach().cpu() for name, value in tensors_of(model).items()}
    save_file({k: v.contiguous().clone() for k, v in state.items()}, folder / "weights.safetensors")
    curve = [float(part.mean()) for part in np.array_split(losses, min(CURVE, len(losses)))]
    found = {"examples": len(losses) * size, "curve": curve}
    (folder / "trained.json").write_text(json.dumps(found), encoding="utf-8")


def train(model: nn.Module, items: Tensor, labels: Tensor, size: int, job: Job) -> list[float]:
    """Train in place, to averaged weights where asked; returns the loss of each step."""
    asked, steps = job["training"], job["examples"] // size
    loss_of, optimiser = make_loss(model, job), make_optimiser(model, asked)
    rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: factor(asked, step / steps))
    augment, average = make_augmentation(asked["augmentation"]), tensors_of(model)
    average = {name: value.clone() for name, value in average.items() if asked["ema"]}
    generator, losses = torch.Generator().manual_seed(job["seed"]), list[float]()
    started = time.monotonic()
    model.train()
    for step, rows in enumerate(batches(len(items), size, steps, generator)):
        x = augment(items[rows.to(items.device)].float() / job["scale"])
        x, target = mix(x, labels[rows.to(items.device)], asked, job["classes"])
        loss = loss_of(x, target, min(1.0, (step + 1) / (KL_WARMUP * steps)))
        losses.append(float(loss.detach()))
        if not math.isfinite(losses[-1]):
            raise BrokenModelError(f"the training loss is not finite at step {step + 1} of {steps}")
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if asked["clip"]:
            nn.utils.clip_grad_norm_(model.parameters(), asked["clip"])
        optimiser.step()
        rate.step()
        if average:  # faster over the first steps
            update(average, model, min(asked["ema"], (2 + step) / (11 + step)))
        if time.monotonic() - started > job["seconds"]:
            break
    model.load_state_dict(average, strict=False)
    return losses


def make_loss(model: nn.Module, job: Job) -> Callable[[Tensor, Tensor, float], Tensor]:
    """The training loss of a batch: (x on [0, 1], class probabilities, beta) to a number.

    Classifiers: cross-entropy. Generative models: the negative ELBO in nats per dimension with the
    KL weighted by beta.
    """
    if job["task"] == "classify":
        return lambda x, target, _: F.cross_entropy(logits(model, x, job), target)
    from genlab.distributions.discretized_logistic import DiscretizedLogisticMixture
    from genlab.distributions.gaussian import kl_standard_normal, reparameterize

    def negative_elbo(x: Tensor, _: Tensor, beta: float) -> Tensor:
        mean, logvar = encode(model, x)
        out = decode(model, reparameterize(mean, logvar, torch.randn_like(mean)), job)
        mixture = DiscretizedLogisticMixture(x.shape[1], out.shape[1] // job["components"])
        nll = -mixture.log_prob(out, (x * 255).round())
        return (nll + beta * kl_standard_normal(mean, logvar).sum(1)).mean() / x[0].numel()

    return negative_elbo


def batches(count: int, size: int, steps: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Rows of each batch: one permutation of the items after the other, cut into `steps` parts."""
    rows = torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        while len(rows) < size:
            rows = torch.cat([rows, torch.randperm(count, generator=generator)])
        yield rows[:size]
        rows = rows[size:]


def make_optimiser(model: nn.Module, asked: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimiser of the recipe; vectors, which are biases and norms, do not decay."""
    trained, name = trainable(model).values(), asked["optimiser"]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": asked["weight_decay"]},
        {"params": [p for p in trained if p.ndim <= 1]},
    ]
    more = {"momentum": asked["momentum"]} if name in ("sgd", "rmsprop") else {}
    if name == "sgd":
        more["nesterov"] = asked["momentum"] > 0
    kinds: Any = {key.lower(): kind for key, kind in vars(torch.optim).items() if key[0].isupper()}
    found: torch.optim.Optimizer = kinds[name](groups, lr=asked["lr"], weight_decay=0.0, **more)
    return found


def factor(asked: dict[str, Any], share: float) -> float:
    """The factor of the learning rate after a share of the steps: warm-up, then the schedule."""
    warmup: float = asked["warmup"]
    if share < warmup:
        return max(share, 0.1 * warmup) / warmup
    share = (share - warmup) / (1 - warmup)
    if asked["schedule"] == "cosine":
        return 0.5 * (1 + math.cos(math.pi * share))
    if asked["schedule"] == "step":
        return 1.0 if share < 0.5 else 0.1 if share < 0.75 else 0.01
    return 1 - share if asked["schedule"] == "linear" else 1.0


def make_augmentation(asked: list[dict[str, Any]]) -> Callable[[Tensor], Tensor]:
    """Transforms of torchvision.transforms.v2, drawn for each image by itself."""
    if not asked:
        return lambda x: x
    from torchvision.transforms import v2

    chain = [getattr(v2, t["type"])(**{k: v for k, v in t.items() if k != "type"}) for t in asked]

    def augment(x: Tensor) -> Tensor:
        images = [v2.Compose(chain)(image) for image in x]
        if any(image.shape != x.shape[1:] for image in images):
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


@torch.no_grad()
def update(average: dict[str, Tensor], model: nn.Module, memory: float) -> None:
    """Move averaged weights towards those of the model; counters are copied."""
    for name, value in tensors_of(model).items():
        if value.is_floating_point():
            average[name].lerp_(value, 1 - memory)
        else:
            average[name].copy_(value)
