"""A generated module as the evaluator uses it: loaded, with its answers checked."""

import importlib.util
import random
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F

Job = dict[str, Any]
MAX_LATENTS = 1024


class BrokenModelError(Exception):
    """The generated model breaks its contract."""


class Model(nn.Module):
    """The model of a job, with initialised lazy layers and stored weights, if there are any.

    Lazy layers are initialised by a batch of two. layout: memory format of images and weights, by
    default that of `find_layout`. state: weights, by default those of the job's folder.
    """

    def __init__(
        self,
        job: Job,
        layout: torch.memory_format | None = None,
        state: dict[str, Tensor] | None = None,
    ) -> None:
        super().__init__()
        torch.set_num_threads(1)  # sums of several threads differ, and trainings run in parallel
        torch.set_flush_denormal(True)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
        warnings.simplefilter("ignore")
        self.layout = layout or find_layout(job)
        self.job = job
        folder = Path(job["folder"])
        set_seed(job["seed"], job["device"])
        module: nn.Module = load(folder / "model.py", job["class_name"])()
        self.module = module.to(job["device"]).eval()
        with torch.no_grad():
            self.answer(self.random_batch(2))
        self.module.to(memory_format=self.layout)
        stored_weights = folder / "stored.safetensors"
        if stored_weights.exists():
            state = load_file(stored_weights, device=job["device"])
        if state is not None:
            self.module.load_state_dict(state, strict=False)
            if missing := sorted(set(self.tensors()) - set(state)):
                raise BrokenModelError(f"weights lack {missing[0]}: the module changes in training")
        # New tensors are filled with nan until here, and throughout a check, to detect a model that
        # reads memory which it has not written. In every training step it would cost a fifth.
        fill = job["do"] == "describe"
        torch.utils.deterministic.fill_uninitialized_memory = fill  # type: ignore[attr-defined]
        set_seed(job["seed"], job["device"])

    def random_batch(self, size: int) -> Tensor:
        """Draw noise in the shape of a batch of items."""
        return torch.rand(size, *self.job["shape"], device=self.job["device"])

    def tensors(self) -> dict[str, Tensor]:
        """Return the parameters and buffers that are saved, by name."""
        state = nn.Module.state_dict(self.module)
        return {name: value for name, value in state.items() if isinstance(value, Tensor)}

    def trainable(self) -> dict[str, nn.Parameter]:
        """Return the parameters that are trained, by name; at least one."""
        parameters = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        if not parameters:
            raise BrokenModelError("the model has no parameters that can be trained")
        return parameters

    def forward(self, x: Tensor) -> Tensor:
        """Return the last answer, so that the model is one function of its input."""
        return self.answer(x)[-1]

    def answer(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return logits of a classifier, or mean, log variance and decoded parameters."""
        if self.job["task"] == "classify":
            return (self.logits(x),)
        mean, logvar = self.encode(x)
        return mean, logvar, self.decode(mean)

    def logits(self, x: Tensor) -> Tensor:
        """Return logits (n, classes); whatever tensor forward gives, where `classes` is None."""
        out = self.module(x.contiguous(memory_format=self.layout))
        classes = self.job["classes"]
        if classes is None and isinstance(out, Tensor):
            return out
        return _check_output("forward", out, (len(x), classes or 0))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log variance, (n, d) each."""
        method: Any = self.module.encode
        out = method(x.contiguous(memory_format=self.layout))
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise BrokenModelError(f"encode gives {_describe(out)}, not a pair of mean and logvar")
        latents = out[0].shape[-1] if isinstance(out[0], Tensor) and out[0].ndim else 0
        if not 1 <= latents <= MAX_LATENTS:
            raise BrokenModelError(f"encode gives {latents} latents, must be 1 to {MAX_LATENTS}")
        mean, logvar = (_check_output("encode", value, (len(x), latents)) for value in out)
        return mean, logvar

    def decode(self, z: Tensor) -> Tensor:
        """Return parameters of the mixture of each pixel, (n, components * K, height, width)."""
        method: Any = self.module.decode
        out = method(z)
        per_component = self.job["components"]
        channels = out.shape[1] if isinstance(out, Tensor) and out.ndim == 4 else 0
        if not channels or channels % per_component:
            shape = f"(n, K x {per_component}, height, width) for K mixture components per pixel"
            raise BrokenModelError(f"decode gives {_describe(out)}, not the shape {shape}")
        return _check_output("decode", out, (len(z), channels, *self.job["shape"][1:]))

    def loss(self, x: Tensor, target: Tensor, beta: float = 1.0, free_bits: float = 0.0) -> Tensor:
        """Return the training loss of a batch: cross-entropy, or the negative ELBO per dimension.

        x: items on [0, 1]. target: class probabilities. The ELBO is in nats and its KL is weighted
        by beta; each latent's mean KL counts as at least free_bits nats (Kingma et al. 2016).
        """
        if self.job["task"] == "classify":
            return F.cross_entropy(self.logits(x), target)
        from genlab.distributions.discretized_logistic import DiscretizedLogisticMixture
        from genlab.distributions.gaussian import kl_standard_normal, reparameterize

        mean, logvar = self.encode(x)
        out = self.decode(reparameterize(mean, logvar, torch.randn_like(mean)))
        mixture = DiscretizedLogisticMixture(x.shape[1], out.shape[1] // self.job["components"])
        nll = -mixture.log_prob(out, (x * 255).round())
        kl = kl_standard_normal(mean, logvar).mean(0)
        penalty = kl.clamp_min(free_bits) if free_bits else kl
        return (nll.mean() + beta * penalty.sum()) / x[0].numel()


def find_layout(job: Job) -> torch.memory_format:
    """Find the memory format in which a model trains fastest.

    Channels last makes convolution, normalisation and pooling twice as fast on a CPU. A model that
    does not train with it, such as one that calls `x.view(len(x), -1)`, gets contiguous images.
    """
    if job["device"] != "cpu" or job["do"] == "describe":
        return torch.contiguous_format
    try:
        probe = Model(job, torch.channels_last)
        if not any(parameter.ndim == 4 for parameter in probe.module.parameters()):
            return torch.contiguous_format
        probe.module.train()
        target = torch.full((2, job["classes"]), 1 / job["classes"])
        probe.loss(probe.random_batch(2), target, 1.0).backward()  # type: ignore[no-untyped-call]
    except Exception:  # whatever it is: contiguous images show whether it is the model's fault
        return torch.contiguous_format
    return torch.channels_last


@cache
def load(path: Path, class_name: str) -> type[nn.Module]:
    """Load the class from the file, which is executed once per process."""
    spec = importlib.util.spec_from_file_location("model", path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules["model"] = module = importlib.util.module_from_spec(spec)  # dataclasses look it up
    spec.loader.exec_module(module)
    model_class = getattr(module, class_name, None)
    if model_class is None:
        raise BrokenModelError(f"model.py has no class {class_name}, an nn.Module")
    if not isinstance(model_class, type) or not issubclass(model_class, nn.Module):
        raise BrokenModelError(f"{class_name} is not a class of nn.Module")
    return model_class


def set_seed(seed: int, device: str) -> None:
    """Seed the generators that a model or its training draws from."""
    random.seed(seed)
    np.random.seed(seed)
    if device == "cpu":
        torch.default_generator.manual_seed(seed)
    else:  # slower by milliseconds: it records a traceback for each device that is not used yet
        torch.manual_seed(seed)


def _check_output(method: str, value: object, shape: tuple[int, ...]) -> Tensor:
    if not isinstance(value, Tensor) or tuple(value.shape) != shape:
        raise BrokenModelError(f"{method} gives {_describe(value)}, not the shape {shape}")
    if not value.is_floating_point():
        raise BrokenModelError(f"{method} gives {value.dtype}, not floating-point numbers")
    return value.float()


def _describe(value: object) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__
