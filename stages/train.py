"""Stage train: fit the VAE and keep the best checkpoint.

Writes data/checkpoints/DATASET/ (model.safetensors, provenance.json, timing/),
results/DATASET/training.json and plots/DATASET/training/ (dvclive series, reconstructions).
The same command resumes a killed run after its last complete epoch. Processes that torchrun starts
share each batch: torchrun --nproc-per-node 2 stages/train.py
"""

from pathlib import Path

from pydantic import Field

from genlab.core import engine
from genlab.core.errors import run_cli
from genlab.core.params import TRAINING_KEYS
from genlab.core.params.options import DatasetOptions, overridable, parse_options
from genlab.vae.training import distributed
from genlab.vae.training.run import train_dataset


class Options(DatasetOptions, overridable(*TRAINING_KEYS, "wandb")):
    """Train the VAE of a dataset; defaults come from params.yaml.

    Example: python stages/train.py --dataset arc_grids --beta-schedule constant --beta-max 0.0
    """

    data_path: Path = Field(Path("data/DATASET"), description="Split file or its folder.")


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    params = options.params
    dataset = params.dataset(options.dataset)
    engine.make_deterministic(params.seed)
    folder = options.output_path("data/checkpoints/DATASET")
    plots = options.output_path("plots/DATASET", "training")
    results = options.output_path("results/DATASET", "training.json")
    with distributed.process_group(params.device):
        summary = train_dataset(params, dataset, options.data_path, folder, plots, results)
    if summary is None:  # torchrun's other processes write nothing
        return
    print(
        f"{folder}: best epoch {summary['best_epoch']} of {summary['epochs']},"
        f" validation ELBO {summary['best']['elbo']:.2f} nats"
    )


if __name__ == "__main__":
    run_cli(main)
