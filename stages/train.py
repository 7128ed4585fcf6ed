"""Stage train: fit the VAE and keep the best checkpoint.

Writes data/checkpoints/DATASET/ (model.safetensors, provenance.json, timing/),
results/DATASET/training.json and plots/DATASET/training/ (dvclive series, reconstructions).
A killed run goes on at its last whole epoch when the same command is given again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from genlab.core import engine
from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.params import load_params, overrides
from genlab.datasets.registry import find_dataset
from genlab.vae.training.run import TRAINING_KEYS, train_dataset


@overrides(*TRAINING_KEYS)
def train(
    dataset: Annotated[str, typer.Option(help="Dataset to train on.")] = "arc_grids",
    data_path: Annotated[
        Path | None, typer.Option(help="Split file or its folder. (default: data/DATASET)")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder of the checkpoint. (default: data/checkpoints/DATASET)"),
    ] = None,
    metrics_path: Annotated[
        Path | None, typer.Option(help="Summary. (default: results/DATASET/training.json)")
    ] = None,
    plots_path: Annotated[
        Path | None, typer.Option(help="dvclive folder. (default: plots/DATASET/training)")
    ] = None,
    *,
    overrides: dict[str, Any],
) -> None:
    """Train the VAE of a dataset; what isn't given here comes from params.yaml.

    Example: python stages/train.py --dataset arc_grids --beta-schedule constant --beta-max 0.0
    """
    chosen = find_dataset(dataset)
    params = load_params().with_overrides(**overrides).for_dataset(dataset)
    engine.deterministic(params.seed)
    folder = output or Path("data/checkpoints") / dataset
    summary = train_dataset(
        params,
        chosen,
        data_path or Path("data") / dataset,
        folder,
        plots_path or Path("plots") / dataset / "training",
    )
    write_json(metrics_path or Path("results") / dataset / "training.json", summary)
    best = summary["best"]
    accuracy = (
        f"PSNR {best['psnr']:.2f} dB"
        if chosen.kind == "images"
        else f"exact grids {best['exact_grid_accuracy']:.4f}"
    )
    print(
        f"{folder}/model.safetensors: best epoch {summary['best_epoch']} of {summary['epochs']},"
        f" validation ELBO {summary['best']['elbo']:.2f} nats, {accuracy}"
    )


if __name__ == "__main__":
    run_cli(lambda: typer.run(train))
