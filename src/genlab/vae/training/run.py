"""Train on a dataset's files; writes the checkpoint, its provenance, plots and a summary."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from genlab.core import engine
from genlab.core.code import digest_code
from genlab.core.io import UNFINISHED, sha256, write_json
from genlab.core.params import TRAINING_KEYS, Params, digest_values
from genlab.core.params.catalogue import Dataset
from genlab.core.tracking import Tracker, WandbMirror
from genlab.datasets.arc_grids import find_data_file, find_joined_file, load_split
from genlab.datasets.images import load_images
from genlab.datasets.manifests import MANIFEST_FILE
from genlab.grids import palette
from genlab.vae.models.vae import VAE, Items, to_array
from genlab.vae.training import distributed
from genlab.vae.training.checkpoint import (
    CHECKPOINT,
    PROVENANCE,
    encode_history,
    save_checkpoint,
)
from genlab.vae.training.tasks import make_task
from genlab.vae.training.trainer import Trainer

SERIES = ("loss", "reconstruction_loss", "kl_divergence", "beta_kl", "kl_loss")
COST_SERIES = ("auxiliary_loss", "focal_loss")  # terms that only some losses have
PICTURED_EPOCHS = (1, 2, 5)  # and every PICTURE_EVERY-th, where reconstructions still change
PICTURE_EVERY = 10
PICTURED = 12  # items
PICTURE_SIDE = 96  # approximate side of a drawn item in pixels


def train_dataset(
    params: Params, dataset: Dataset, data_path: Path, folder: Path, plots: Path, results: Path
) -> dict[str, Any] | None:
    """Train on a dataset; returns the summary, whose numbers depend on the params alone.

    Returns None in a process that is not the first one of several.

    data_path: the folder of stage split, or its split file of grids. folder: for
    `model.safetensors`, with every epoch's numbers among its facts, and `provenance.json`. plots:
    folder for dvclive's series and reconstructions. results: file for the summary. The unfinished
    run is removed last, so that an error in writing loses nothing. Raises a GenlabError where the
    data cannot be read or does not fit.
    """
    file, train, val = load_items(params, dataset, data_path)
    device = engine.select_device(params.device)
    task = make_task(params, train, dataset.classes, device)
    key = run_key(params, file)
    unfinished = UNFINISHED / f"{dataset.name}-{key[:16]}"
    trainer = Trainer(params, task, val, unfinished, device)
    if not distributed.is_first():
        trainer.run(lambda *_: None)
        return None
    config = {name: getattr(params, name) for name in TRAINING_KEYS}
    mirror = WandbMirror(dataset.name, config) if params.wandb else None
    resumed = trainer.progress.epoch
    with Tracker(unfinished, mirror, start_epoch=resumed + 1 if resumed else 0) as tracker:

        def on_epoch(
            epoch: int, model: VAE, values: dict[str, float], timing: dict[str, float]
        ) -> None:
            tracker.log(epoch, values, timing)
            if epoch in PICTURED_EPOCHS or epoch % PICTURE_EVERY == 0:
                sheet = _draw_reconstructions(model, trainer.val)
                tracker.image(f"reconstructions_{epoch:04d}.png", sheet, if_changed=True)

        model = trainer.run(on_epoch)
        tracker.image("reconstructions_best.png", _draw_reconstructions(model, trainer.val))
        tracker.publish(plots, folder / "timing")
    history = encode_history(trainer.progress.history)
    facts = {
        "dataset": dataset.name,
        "training": config,
        "history": history,
        "phases": asdict(trainer.phases),
        "best_epoch": trainer.progress.best_epoch,
    }
    save_checkpoint(folder / CHECKPOINT, model, facts)
    run = {"run": key, "training_seconds": trainer.progress.seconds}
    write_json(folder / PROVENANCE, {**engine.collect_provenance(params, file), **run})
    summary = _summarize(trainer, model, history)
    write_json(results, summary)
    trainer.remove_state()
    return summary


def load_items(params: Params, dataset: Dataset, data_path: Path) -> tuple[Path, Items, Items]:
    """Load the training and the validation items, and name the file that identifies the data.

    Items are uint8, grids (n, size, size) or images (n, side, side, channels), mapped from disk.
    Returns the file, the training items and the validation items.
    """
    side = dataset.side
    if dataset.kind == "grids":
        file = find_data_file(data_path)
        train, val = (load_split(file, split, side) for split in ("train", "val"))
        return file.parent / MANIFEST_FILE if find_joined_file(file) else file, train, val
    shape = (side, side, dataset.channels)
    train, val = (load_images(data_path, split, shape) for split in ("train", "val"))
    # The manifest holds the checksums of all files beside it.
    return data_path / MANIFEST_FILE, train, val


def run_key(params: Params, data: Path) -> str:
    """Return the digest of params, data and code by which an unfinished run is found again."""
    code = digest_code("unfinished_training")
    return digest_values(
        {"params": params.digest(*TRAINING_KEYS), "data": sha256(data), "code": code}
    )


def _summarize(
    trainer: Trainer, model: VAE, history: list[dict[str, float | None]]
) -> dict[str, Any]:
    progress = trainer.progress
    best = history[progress.best_epoch - 1]
    counts = model.parameter_counts()
    logged = (*SERIES, *(name for name in COST_SERIES if name in best), trainer.task.accuracy)
    return {
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch,
        "stopped_early": progress.epoch < trainer.params.epochs,
        "items_seen": progress.updates * trainer.params.batch_size,
        "updates": progress.updates,
        "skipped_updates": progress.skipped_updates,
        "parameters": {**counts, "all": sum(counts.values())},
        "best": {name: value for name, value in best.items() if "/" not in name},
        "series": {name: [row[name] for row in history] for name in logged},
    }


def _draw_reconstructions(model: VAE, items: torch.Tensor) -> Items:
    """Draw inputs above their reconstructions, with a few grey pixels between them."""
    inputs = items[:PICTURED]
    with torch.no_grad():
        pair = np.stack([to_array(inputs), to_array(model.reconstruct(inputs))])
    rgb = palette.to_rgb(pair) if not model.architecture.channels else pair
    rgb = np.broadcast_to(rgb, (*rgb.shape[:4], 3))
    rgb = np.pad(rgb, [(0, 0), (0, 0), (1, 1), (1, 1), (0, 0)], constant_values=90)
    rows, count, height, width, _ = rgb.shape
    sheet = rgb.transpose(0, 2, 1, 3, 4).reshape(rows * height, count * width, 3)
    scale = max(1, PICTURE_SIDE // model.architecture.size)
    return sheet.repeat(scale, 0).repeat(scale, 1)
