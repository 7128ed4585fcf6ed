"""Checkpoints, released checkpoints, and the state from which a killed run resumes."""

import io
import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write, read_json, write_bytes, write_json
from genlab.vae.models.vae import VAE, Architecture, Items

FORMAT = "genlab.vae"
VERSION = 6
HEADER = "genlab"
CHECKPOINTS = Path("data/checkpoints")
CHECKPOINT = "model.safetensors"
PROVENANCE = "provenance.json"
RELEASED = Path("checkpoints")

Row = dict[str, float]


def save_checkpoint(path: Path, model: VAE, facts: Mapping[str, Any]) -> None:
    """Write the weights as safetensors, atomically; `facts` is JSON in the header.

    The same weights and facts give the same bytes.
    """
    header = {
        "format": FORMAT,
        "version": VERSION,
        "architecture": asdict(model.architecture),
        "facts": dict(facts),
    }
    weights = {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}
    # A single metadata entry: safetensors writes several in an order that changes by process.
    metadata = {HEADER: json.dumps(header, sort_keys=True)}
    write_bytes(path, save(weights, metadata=metadata))


def load_checkpoint(path: Path, *, producer_command: str) -> tuple[VAE, dict[str, Any]]:
    """Load the model in evaluation mode, and its facts.

    Raises a GenlabError that names the file and the command that makes it again, where it is
    absent, truncated, foreign, or of another version or architecture.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()[HEADER])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header["version"] != VERSION:
            raise ValueError(f"version {header['version']} instead of {VERSION}")
        model = VAE(Architecture(**header["architecture"]))
        model.load_state_dict(weights)
        return model.eval(), header["facts"]
    except Exception as error:  # a foreign header can make any part of the model fail
        fault = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise GenlabError(
            f"{path}: not a checkpoint of this version ({fault}); make it again with:"
            f" {producer_command}",
            path=path,
            fix=producer_command,
        ) from error


def find_checkpoint(dataset: str, folder: Path | None = None) -> Path:
    """Find the checkpoint of a dataset: the user's own, or else the one released in git.

    folder: of the user's own one. (default: data/checkpoints/DATASET)
    """
    trained = (folder or CHECKPOINTS / dataset) / CHECKPOINT
    released = RELEASED / f"{dataset}.safetensors"
    return released if released.is_file() and not trained.is_file() else trained


def release(dataset: str) -> Path:
    """Copy the checkpoint of a dataset, with its provenance, to the folder that git tracks.

    Returns the copy. Raises a GenlabError where there is no checkpoint, or it cannot be loaded.
    """
    folder = CHECKPOINTS / dataset
    released = RELEASED / f"{dataset}.safetensors"
    command = f"dvc repro train@{dataset}"
    load_checkpoint(folder / CHECKPOINT, producer_command=command)
    write_json(
        released.with_suffix(".json"), read_json(folder / PROVENANCE, producer_command=command)
    )
    with atomic_write(released) as temporary:
        shutil.copyfile(folder / CHECKPOINT, temporary)
    return released


def require_shape(model: VAE, items: Items, source: Path) -> None:
    """Raise a GenlabError where the checkpoint is for items of another shape."""
    shape = items.shape[1:]
    expected = model.architecture.item_shape
    if shape != expected:
        raise GenlabError(
            f"{source}: items are {_format_shape(shape)},"
            f" the checkpoint is for {_format_shape(expected)};"
            " train again with: dvc repro train"
        )


def _format_shape(shape: tuple[int, ...]) -> str:
    return "x".join(str(length) for length in shape)


def encode_history(history: list[Row]) -> list[dict[str, float | None]]:
    """Prepare every epoch's numbers for JSON: None for one that is not finite."""
    return [
        {name: value if math.isfinite(value) else None for name, value in row.items()}
        for row in history
    ]


def decode_history(facts: Mapping[str, Any]) -> list[Row]:
    """Read every epoch's numbers from a checkpoint's facts, with NaN for None."""
    return [
        {name: math.nan if value is None else value for name, value in row.items()}
        for row in facts["history"]
    ]


@dataclass
class Progress:
    """State of a run between two epochs, beside weights and optimizer."""

    epoch: int = 0  # completed epochs
    updates: int = 0
    skipped_updates: int = 0
    best_epoch: int = 0
    best_score: tuple[float, float] = (math.inf, math.inf)
    seconds: float = 0.0
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[Row] = field(default_factory=list)  # one row of numbers per epoch


def save_state(path: Path, progress: Progress, modules: Mapping[str, Any]) -> None:
    """Write the state of a run. modules: objects with a `state_dict`, by name."""
    states = {name: module.state_dict() for name, module in modules.items()}
    # Via memory: torch.save turns a full disk into an unrelated error.
    buffer = io.BytesIO()
    torch.save({"version": VERSION, "progress": vars(progress), **states}, buffer)
    write_bytes(path, buffer.getvalue())


def load_state(path: Path, modules: Mapping[str, Any], device: torch.device) -> Progress:
    """Load a saved state into `modules`. Raises a GenlabError where it does not fit them."""
    try:
        state = torch.load(path, weights_only=True, map_location=device)
        if state["version"] != VERSION:
            raise ValueError(f"version {state['version']}")
        for name, module in modules.items():
            module.load_state_dict(state[name])
        return Progress(**state["progress"])
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise GenlabError(
            f"{path}: not a state this run can resume ({reason});"
            f" start from scratch with: rm -r {path.parent}"
        ) from error
