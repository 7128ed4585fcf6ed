"""Load a generated module, and check what it answers."""

from __future__ import annotations

import importlib.util
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

Job = dict[str, Any]
MOST_LATENTS = 1024


class BrokenModelError(Exception):
    """The generated model does not do what a model has to do."""


def prepare(job: Job) -> nn.Module:
    """Build the job's model, initialise lazy layers by a batch of two, load kept weights."""
    torch.set_num_threads(1)  # sums of several threads differ, and trainings run in parallel
    torch.set_flush_denormal(True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    warnings.simplefilter("ignore")
    seed_all(job["seed"])
    model = load(Path(job["folder"], "model.py"), job["class_name"]).to(job["device"]).eval()
    with torch.no_grad():
        answer(model, torch.rand(2, *job["shape"], device=job["device"]), job)
    if (kept := Path(job["folder"], "kept.safetensors")).exists():
        state = load_file(kept, device=job["device"])
        model.load_state_dict(state, strict=False)
        if lost := sorted(set(tensors_of(model)) - set(state)):
            raise BrokenModelError(f"weights lack {lost[0]}: the module changes in training")
    seed_all(job["seed"])
    return model


def seed_all(seed: int) -> None:
    """Seed the generators that a model or its training draws from."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def read_inputs(job: Job, *names: str) -> list[Tensor]:
    """Arrays of inputs.npz on the job's device."""
    with np.load(Path(job["folder"], "inputs.npz")) as arrays:
        return [torch.from_numpy(arrays[name]).to(job["device"]) for name in names]


def load(path: Path, class_name: str) -> nn.Module:
    """Build the class of the file without arguments."""
    spec = importlib.util.spec_from_file_location("model", path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["model"] = module = importlib.util.module_from_spec(spec)  # dataclasses look it up
    spec.loader.exec_module(module)
    found = getattr(module, class_name, None)
    if found is None:
        raise BrokenModelError(f"model.py has no class {class_name}, an nn.Module")
    if not isinstance(found, type) or not issubclass(found, nn.Module):
        raise BrokenModelError(f"{class_name} is not a class of nn.Module")
    model: nn.Module = found()
    return model


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers that are saved, by name."""
    state = nn.Module.state_dict(model)
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Parameters that are trained, by name; at least one."""
    found = {name: each for name, each in model.named_parameters() if each.requires_grad}
    if not found:
        raise BrokenModelError("the model has no parameters that can be trained")
    return found


def answer(model: nn.Module, x: Tensor, job: Job) -> tuple[Tensor, ...]:
    """Logits of a classifier; mean, log variance and decoded parameters of a generative model."""
    if job["task"] == "classify":
        return (logits(model, x, job),)
    mean, logvar = encode(model, x)
    return mean, logvar, decode(model, mean, job)


def logits(model: nn.Module, x: Tensor, job: Job) -> Tensor:
    """Logits (n, classes); whatever tensor forward gives, where `classes` is None."""
    given = model(x)
    if job["classes"] is None and isinstance(given, Tensor):
        return given
    return _checked("forward", given, (len(x), job["classes"] or 0))


def encode(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and log variance, (n, d) each."""
    method: Any = model.encode
    given = method(x)
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise BrokenModelError(f"encode gives {_kind(given)}, not a pair of mean and logvar")
    latents = given[0].shape[-1] if isinstance(given[0], Tensor) and given[0].ndim else 0
    if not 1 <= latents <= MOST_LATENTS:
        raise BrokenModelError(f"encode gives {latents} latents, must be 1 to {MOST_LATENTS}")
    mean, logvar = (_checked("encode", part, (len(x), latents)) for part in given)
    return mean, logvar


def decode(model: nn.Module, z: Tensor, job: Job) -> Tensor:
    """Parameters of the mixture of each pixel, (n, components * K, height, width)."""
    method: Any = model.decode
    out = method(z)
    channels = out.shape[1] if isinstance(out, Tensor) and out.ndim == 4 else 0
    if not channels or channels % job["components"]:
        wanted = f"(n, K x {job['components']}, height, width) for K mixture components per pixel"
        raise BrokenModelError(f"decode gives {_kind(out)}, not the shape {wanted}")
    return _checked("decode", out, (len(z), channels, *job["shape"][1:]))


def _checked(method: str, value: object, shape: tuple[int, ...]) -> Tensor:
    if not isinstance(value, Tensor) or tuple(value.shape) != shape:
        raise BrokenModelError(f"{method} gives {_kind(value)}, not the shape {shape}")
    if not value.is_floating_point():
        raise BrokenModelError(f"{method} gives {value.dtype}, not floating-point numbers")
    return value.float()


def _kind(value: object) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__
