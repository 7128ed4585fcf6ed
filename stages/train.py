"""Stage train: fit the VAE and keep the best checkpoint.

Writes data/checkpoints/DATASET/ (model.safetensors, provenance.json, timing/),
results/DATASET/training.json and plots/DATASET/training/ (dvclive series, reconstructions).
A killed run resumes at its last whole epoch when the same command is run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from genlab.core import engine
from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.params import (
    TRAINING_KEYS,
    DatasetOptions,
    load_params,
    overridable,
    parse_options,
)
from genlab.datasets.registry import find_dataset
from genlab.vae.training.run import train_dataset


class Options(DatasetOptions, overridable(*TRAINING_KEYS, "wandb")):
    """Train the VAE of a dataset; what is not given here comes from params.yaml.

    Example: python stages/train.py --dataset arc_grids --beta-schedule constant --beta-max 0.0
    """

    data_path: Path | None = Field(
        None, description="Split file or its folder. [default: data/DATASET]"
    )
    output: Path | None = Field(
        None, description="Folder of the checkpoint. [default: data/checkpoints/DATASET]"
    )
    metrics_path: Path | None = Field(
        None, description="Summary file. [default: results/DATASET/training.json]"
    )
    plots_path: Path | None = Field(
        None, description="dvclive folder. [default: plots/DATASET/training]"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the stage with these arguments, by default the command line's."""
    options = parse_options(Options, arguments)
    name = options.dataset
    chosen = find_dataset(name)
    params = load_params().with_overrides(**options.overrides).for_dataset(name)
    engine.deterministic(params.seed)
    folder = options.output or Path("data/checkpoints") / name
    data = options.data_path or Path("data") / name
    plots = options.plots_path or Path("plots") / name / "training"
    summary = train_dataset(params, chosen, data, folder, plots)
    write_json(options.metrics_path or Path("results") / name / "training.json", summary)
    best = summary["best"]
    accuracy = (
        f"PSNR {best['psnr']:.2f} dB"
        if chosen.kind == "images"
        else f"exact grids {best['exact_grid_accuracy']:.4f}"
    )
    print(
        f"{folder}/model.safetensors: best epoch {summary['best_epoch']} of {summary['epochs']},"
        f" validation ELBO {best['elbo']:.2f} nats, {accuracy}"
    )


if __name__ == "__main__":
    run_cli(main)
