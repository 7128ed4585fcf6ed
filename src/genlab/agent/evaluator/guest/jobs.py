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
CURVE, MOST_LAYERS = 50, 200


def start(job: Job) -> None:
    """Use the device: where that fails, no model can be judged."""
    torch.zeros(1, device=job["device"])


def train(job: Job) -> None:
    """Train for so many `examples`, or until the `seconds` are up, as `training` says.

    Seconds are CPU time since the process began, or wall time of the steps on a GPU. `training`
    holds the fields of genlab.agent.architecture.training. Writes weights.safetensors, and
    trained.json: examples seen, loss over at most CURVE equal parts.
    """
    items, labels = _read_inputs(job, "items", "labels")
    folder, asked, model = Path(job["folder"]), job["training"], Model(job)
    size = min(asked["batch_size"], job["examples"])
    steps = job["examples"] // size
    optimiser, augment = make_optimiser(model, asked), make_augmentation(asked["augmentation"])
    rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: factor(asked, step / steps))
    average = {name: value.clone() for name, value in model.tensors().items() if asked["ema"]}
    generator, losses = torch.Generator().manual_seed(job["seed"]), list[float]()
    order = RandomSampler(items, num_samples=steps * size, generator=generator)
    clock = time.process_time if job["device"] == "cpu" else time.monotonic
    started = 0.0 if job["device"] == "cpu" else clock()  # process_time is 0 when a process begins
    unit = 1.0 if job["task"] == "classify" else 1 / math.log(2)  # bits per dimension, as results
    model.module.train()
    for step, rows in enumerate(BatchSampler(order, size, drop_last=True)):
        x = augment(items[rows].float() / job["scale"])
        x, target = mix(x, labels[rows], asked, job["classes"])
        warm = min(1.0, (step + 1) / max(1.0, asked["kl_warmup"] * steps))
        loss = model.loss(x, target, asked["kl_weight"] * warm, asked["free_bits"])
        losses.append(float(loss.detach()) * unit)
        if not math.isfinite(losses[-1]):
            raise BrokenModelError(f"the training loss is not finite at step {step + 1} of {steps}")
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if asked["clip"]:
            nn.utils.clip_grad_norm_(model.module.parameters(), asked["clip"])
        optimiser.step()
        rate.step()
        if average:  # faster over the first steps
            update(average, model, min(asked["ema"], (2 + step) / (11 + step)))
        if clock() - started > job["seconds"]:
            break
    model.module.load_state_dict(average, strict=False)
    state = {name: value.detach().cpu() for name, value in model.tensors().items()}
    state = {name: value.contiguous().clone() for name, value in state.items()}
    save_file(state, folder / "weights.safetensors")
    curve = [float(part.mean()) for part in np.array_split(losses, min(CURVE, len(losses)))]
    found = {"examples": len(losses) * size, "curve": curve}
    (folder / "trained.json").write_text(json.dumps(found), encoding="utf-8")


def describe(job: Job) -> None:
    """Describe a model, and where `check` asks so, whether it can be trained and evaluated.

    Writes summary.json: `parameters`, `trainable`, `output` (for a batch of two), and where
    torchinfo can follow, `multiply_adds` (per item) and `layers`.
    """
    model = Model(job)
    x, parameters = model.random_batch(2), list(model.module.parameters())
    with torch.no_grad():
        found: dict[str, Any] = {"output": list(model(x).shape)}
    found["parameters"] = sum(each.numel() for each in parameters)
    found["trainable"] = sum(each.numel() for each in parameters if each.requires_grad)
    with suppress(Exception):  # of torchinfo: the model itself has just answered
        found |= list_layers(model, x)
    if job["check"]:
        (items,) = _read_inputs(job, "items")
        check(model, items.float() / job["scale"])
    Path(job["folder"], "summary.json").write_text(json.dumps(found), encoding="utf-8")


@torch.no_grad()
def answer(job: Job) -> None:
    """Answer with kept weights: `what` is logits or encode, of items, or decode, of codes.

    Writes answers.safetensors: `logits`, or `mean` and `logvar`, or `out`.
    """
    (inputs,), model, what = _read_inputs(job, "inputs"), Model(job), job["what"]
    rows = list[tuple[Tensor, ...]]()
    for part in torch.split(inputs, CHUNK):
        if what == "decode":
            rows.append((model.decode(part),))
        else:
            x = part.float() / job["scale"]
            rows.append(model.encode(x) if what == "encode" else (model.logits(x),))
    columns = [torch.cat(column).cpu() for column in zip(*rows, strict=True)]
    named = dict(zip(ANSWERS[what], columns, strict=True))
    save_file(named, Path(job["folder"], "answers.safetensors"))


def list_layers(model: Model, x: Tensor) -> dict[str, Any]:
    """Layers without layers below them and multiply-adds, by torchinfo."""
    found = torchinfo.summary(
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
        for layer in found.summary_list
        if layer.is_leaf_layer
    ]
    return {"multiply_adds": int(found.total_mult_adds) // len(x), "layers": layers[:MOST_LAYERS]}


def make_optimiser(model: Model, asked: dict[str, Any]) -> torch.optim.Optimizer:
    """The optimiser of the recipe; vectors, which are biases and norms, do not decay."""
    trained, name = model.trainable().values(), asked["optimiser"]
    matrices, vectors = [p for p in trained if p.ndim > 1], [p for p in trained if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": asked["weight_decay"]}, {"params": vectors}]
    more = {"momentum": asked["momentum"]} if name in ("sgd", "rmsprop") else {}
    if name == "sgd":
        more["nesterov"] = asked["momentum"] > 0
    if name in ("adam", "adamw") and all(p.is_floating_point() for p in trained):
        more["fused"] = True  # one call for all tensors: a small model has many of few numbers
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

    transforms = [
        getattr(v2, each["type"])(**{k: v for k, v in each.items() if k != "type"})
        for each in asked
    ]
    chain = v2.Compose(transforms)

    def augment(x: Tensor) -> Tensor:
        images = [chain(image) for image in x]
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
