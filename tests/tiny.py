"""Tiny experiments for tests: params, grids, a model; each of them takes milliseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from ruamel.yaml import YAML

from genlab.core.artifacts import write_npz
from genlab.core.params import Params, load_params, parse_params
from genlab.datasets.arc_grids import OBJECTS_FILE, OBJECTS_KIND, Grids, make, program_of
from genlab.datasets.arc_grids import write_splits as write_grids
from genlab.datasets.splits import take_objects
from genlab.vae.model import VAE, Architecture

PARAMS_FILE = Path(__file__).resolve().parent.parent / "params.yaml"
SIZE = 8
CLASSES = 10
TRAINING: dict[str, Any] = {
    "seed": 0,
    "device": "cpu",
    "threads": 1,
    "network": "mixer",
    "patch": 2,
    "width": 8,
    "depth": 1,
    "latent_dim": 32,
    "prior": "autoregressive",
    "prior_width": 8,
    "prior_depth": 2,
    "prior_components": 4,
    "epochs": 3,
    "epoch_size": 64,
    "batch_size": 16,
    "lr": 0.01,
    "lr_schedule": "constant",
    "weight_decay": 0.01,
    "grad_clip": 1.0,
    "patience": 20,
    "beta_max": 1.0,
    "beta_schedule": "linear",
    "beta_warmup": 0.5,
    "beta_cycles": 2,
    "beta_delay": 0.0,
    "free_bits": 0.0,
    "focal_gamma": 2.0,
    "class_weight_power": 0.5,
    "corruption": 0.5,
    "wandb": False,
}
GRIDS: dict[str, Any] = {"count": 400, "size": SIZE, "min_objects": 1, "max_objects": 2}
EVALUATE: dict[str, Any] = {
    "samples": 100,
    "importance_samples": 4,
    "importance_grids": 8,
    "bootstrap": 100,
}


def values(**training: Any) -> dict[str, Any]:
    """The content of a params file of a tiny experiment, with other flat keys where given."""
    content = load_params(PARAMS_FILE).model_dump()
    content["grids"].update(GRIDS)
    content["evaluate"].update(EVALUATE)
    return {**content, **TRAINING, "arc_grids": {}, **training}


def params(**training: Any) -> Params:
    """The params of a tiny experiment."""
    return parse_params(values(**training), "tiny")


def write_params(folder: Path, **training: Any) -> Path:
    """`params.yaml` of a tiny experiment in `folder`."""
    path = folder / "params.yaml"
    with path.open("w", encoding="utf-8") as file:
        YAML().dump(values(**training), file)
    return path


def grids(count: int, seed: int = 0) -> Grids:
    """Different grids of the tiny program: uint8 (count, 8, 8)."""
    return make(program_of(params().grids), count, seed).grids


def write_dataset(folder: Path, count: int = 400, seed: int = 0) -> Path:
    """A split file of tiny grids, 80/10/10, with its objects, in `folder`."""
    draw = make(program_of(params().grids), count, seed)
    edges = [0, count * 8 // 10, count * 9 // 10, count]
    rows = {
        name: np.arange(a, b)
        for name, a, b in zip(("train", "val", "test"), edges, edges[1:], strict=False)
    }
    path = folder / f"simplified_dataset_{count}.npz"
    write_grids(path, {name: draw.grids[chosen] for name, chosen in rows.items()})
    tables = {name: take_objects(draw.objects, chosen, count) for name, chosen in rows.items()}
    write_npz(folder / OBJECTS_FILE, tables, kind=OBJECTS_KIND)
    return path


def architecture(**changes: Any) -> Architecture:
    """The shapes of a tiny model."""
    shapes = {key: TRAINING[key] for key in Architecture.__dataclass_fields__ if key in TRAINING}
    return Architecture(**{**shapes, "size": SIZE, "classes": CLASSES, **changes})


def model(seed: int = 0, **changes: Any) -> VAE:
    """A tiny model with noise on every weight, so that none stands at the zero it starts from."""
    torch.manual_seed(seed)
    return stir(VAE(architecture(**changes)), seed)


def stir(module: Any, seed: int = 0, size: float = 0.3) -> Any:
    """Add noise to every parameter, so that branches which start at zero take part."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.add_(size * noise)
    return module
