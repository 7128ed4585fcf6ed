"""The jobs of the guest: train a model, describe it, or let it answer."""

import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchinfo
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, RandomSampler

from .checks import check
from .model import BrokenModelError, Job, Model
from .run import ANSWERS

CHUNK = 250  # inputs that are answered at a time
CURVE_POINTS = 50
MAX_LAYERS = 200


def start(job: Job) -> None:
    """Use the device: where that fails, no model can be judged."""
    torch.zeros(1, device=job["device"])


def train(job: Job) -> None:
    """Train by the recipe `training` on `examples` items, or until the `seconds` are up.

    Seconds are CPU time since the process began, or wall time of the steps on a GPU. `training`
    holds the fields of genlab.agent.architecture.training. Writes weights.safetensors, and
    trained.json: number of training examples, and the loss over at most CURVE_POINTS equal parts.
    """
    items, labels = _read_inputs(job, "items", "labels")
    recipe = job["training"]
    model = Model(job)
    batch_size = min(recipe["batch_size"], job["examples"])
    steps = job["examples"] // batch_size
    optimiser = make_optimiser(model, recipe)
    augment = make_augmentation(recipe["augmentation"])
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: scale_rate(recipe, step / steps)
    )
    average = {name: value.clone() for name, value in model.tensors().items() if recipe["ema"]}
    generator = torch.Generator().manual_seed(job["seed"])
    order = RandomSampler(items, num_samples=steps * batch_size, generator=generator)
    losses = list[float]()
    clock = time.process_time if job["device"] == "cpu" else time.monotonic
    started = 0.0 if job["device"] == "cpu" else clock()  # process_time is 0 when a process begins
    unit = 1.0 if job["task"] == "classify" else 1 / math.log(2)  # bits per dimension, as results
    model.module.train()
    for step, rows in enumerate(BatchSampler(order, batch_size, drop_last=True)):
        x = augment(items[rows].float() / job["scale"])
        x, target = mix(x, labels[rows], recipe, job["classes"])
        warmup = min(1.0, (step + 1) / max(1.0, recipe["kl_warmup"] * steps))
        loss = model.loss(x, target, recipe["kl_weight"] * warmup, recipe["free_bits"])
        losses.append(float(loss.detach()) * unit)
        if not math.isfinite(losses[-1]):
            raise BrokenModelError(f"the training loss is not finite at step {step + 1} of {steps}")
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if recipe["clip"]:
            nn.utils.clip_grad_norm_(model.module.parameters(), recipe["clip"])
        optimiser.step()
        schedule.step()
        if average:  # faster over the first steps
            update(average, model, min(recipe["ema"], (2 + step) / (11 + step)))
        if clock() - started > job["seconds"]:
            break
    model.module.load_state_dict(average, strict=False)
    _write_training(job, model, losses, batch_size)


def _write_training(job: Job, model: Model, losses: list[float], batch_size: int) -> None:
    """Write the weights and the report of a training."""
    folder = Path(job["folder"])
    state = {name: value.detach().cpu() for name, value in model.tensors().items()}
    state = {name: value.contiguous().clone() for name, value in state.items()}
    save_file(state, folder / "weights.safetensors")
    pieces = np.array_split(losses, min(CURVE_POINTS, len(losses)))
    curve = [float(piece.mean()) for piece in pieces]
    report = {"examples": len(losses) * batch_size, "curve": curve}
    (folder / "trained.json").write_text(json.dumps(report), encoding="utf-8")


def describe(job: Job) -> None:
    """Describe a model; with `check` also check whether it can be trained and evaluated.

    Writes summary.json: `parameters`, `trainable`, `output` (shape for a batch of two), and where
    torchinfo can follow, `multiply_adds` (per item) and `layers`.
    """
    model = Model(job)
    x = model.random_batch(2)
    parameters = list(model.module.parameters())
    with torch.no_grad():
        summary: dict[str, Any] = {"output": list(model(x).shape)}
    summary["parameters"] = sum(p.numel() for p in parameters)
    summary["trainable"] = sum(p.numel() for p in parameters if p.requires_grad)
    with suppress(Exception):  # of torchinfo: the model itself has just answered
        summary |= list_layers(model, x)
    if job["check"]:
        (items,) = _read_inputs(job, "items")
        check(model, items.float() / job["scale"])
    Path(job["folder"], "summary.json").write_text(json.dumps(summary), encoding="utf-8")


@torch.no_grad()
def answer(job: Job) -> None:
    """Answer with stored weights: `what` is logits or encode, of items, or decode, of codes.

    Writes answers.safetensors: `logits`, or `mean` and `logvar`, or `out`.
    """
    (inputs,) = _read_inputs(job, "inputs")
    model = Model(job)
    what = job["what"]
    rows = list[tuple[Tensor, ...]]()
    for chunk in torch.split(inputs, CHUNK):
        if what == "decode":
            rows.append((model.decode(chunk),))
        else:
            x = chunk.float() / job["scale"]
            rows.append(model.encode(x) if what == "encode" else (model.logits(x),))
    columns = [torch.cat(column).cpu() for column in zip(*rows, strict=True)]
    answers = dict(zip(ANSWERS[what], columns, strict=True))
    save_file(answers, Path(job["folder"], "answers.safetensors"))


def list_layers(model: Model, x: Tensor) -> dict[str, Any]:
    """List the layers that hold no other layers, and count multiply-adds, by torchinfo."""
    summary = torchinfo.summary(
        model, input_data=x, depth=9, verbose=0, mode="eval", cache_forward_pass=False
    )
    names = {id(module): name for name, module in model.module.named_modules()}
    layers = [
        {
            "name": names[id(layer.module)],
            "kind": layer.class_name,
            "output": [int(side) for side in layer.output_size],
            "parameters": 0 if layer.is_recursive else int(layer.num_params),
        }
        for layer in summary.summary_list
        if layer.is_leaf_layer
    ]
    return {"multiply_adds": int(summary.total_mult_adds) // len(x), "layers": layers[:MAX_LAYERS]}


def make_optimiser(model: Model, recipe: dict[str, Any]) -> torch.optim.Optimizer:
    """Make the optimiser of the recipe; vectors, which are biases and norms, do not decay."""
    parameters = model.trainable().values()
    name = recipe["optimiser"]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": recipe["weight_decay"]},
        {"params": [p for p in parameters if p.ndim <= 1]},
    ]
    options = {"momentum": recipe["momentum"]} if name in ("sgd", "rmsprop") else {}
    if name == "sgd":
        options["nesterov"] = recipe["momentum"] > 0
    if name in ("adam", "adamw") and all(p.is_floating_point() for p in parameters):
        options["fused"] = True  # one call for all tensors: a small model has many of few numbers
    classes: Any = {
        key.lower(): kind for key, kind in vars(torch.optim).items() if key[0].isupper()
    }
    optimiser: torch.optim.Optimizer = classes[name](
        groups, lr=recipe["lr"], weight_decay=0.0, **options
    )
    return optimiser


def scale_rate(recipe: dict[str, Any], progress: float) -> float:
    """Return the factor of the learning rate at `progress` in [0, 1], warm-up included."""
    warmup: float = recipe["warmup"]
    if progress < warmup:
        return max(progress, 0.1 * warmup) / warmup
    progress = (progress - warmup) / (1 - warmup)
    if recipe["schedule"] == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    if recipe["schedule"] == "step":
        if progress < 0.5:
            return 1.0
        return 0.1 if progress < 0.75 else 0.01
    return 1 - progress if recipe["schedule"] == "linear" else 1.0


def make_augmentation(transforms: list[dict[str, Any]]) -> Callable[[Tensor], Tensor]:
    """Compose transforms of torchvision.transforms.v2, which are drawn for each image by itself."""
    if not transforms:
        return lambda x: x
    from torchvision.transforms import v2

    modules = [
        getattr(v2, transform["type"])(**{k: v for k, v in transform.items() if k != "type"})
        for transform in transforms
    ]
    chain = v2.Compose(modules)

    def augment(x: Tensor) -> Tensor:
        images = [chain(image) for image in x]
        if any(image.shape != x.shape[1:] for image in images):
            names = ", ".join(transform["type"] for transform in transforms)
            raise BrokenModelError(f"augmentation {names} does not keep the shape of an image")
        return torch.stack(images).to(x).clamp(0, 1)

    return augment


def mix(x: Tensor, y: Tensor, recipe: dict[str, Any], classes: int) -> tuple[Tensor, Tensor]:
    """Apply mixup (Zhang et al. 2018) and label smoothing; return inputs, class probabilities."""
    smoothing = recipe["label_smoothing"]
    target = F.one_hot(y, classes).float() * (1 - smoothing) + smoothing / classes
    if not recipe["mixup"]:
        return x, target
    share = float(np.random.beta(recipe["mixup"], recipe["mixup"]))
    order = torch.randperm(len(x), device=x.device)
    mixed = share * x + (1 - share) * x[order]
    return mixed, share * target + (1 - share) * target[order]


@torch.no_grad()
def update(average: dict[str, Tensor], model: Model, memory: float) -> None:
    """Move averaged weights towards those of the model; counters are copied."""
    for name, value in model.tensors().items():
        if value.is_floating_point():
            average[name].lerp_(value, 1 - memory)
        else:
            average[name].copy_(value)


def _read_inputs(job: Job, *names: str) -> list[Tensor]:
    with np.load(Path(job["folder"], "inputs.npz")) as arrays:
        return [torch.from_numpy(arrays[name]).to(job["device"]) for name in names]
