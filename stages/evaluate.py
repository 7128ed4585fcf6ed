"""Stage evaluate: evaluate the model on the test split, diagnose it, and pass a verdict.

Writes results/DATASET/{metrics,verdict,diagnosis}.json, metrics/DATASET.json (the headline),
plots/DATASET/evaluation/*.png and data/evaluated/DATASET/evidence.npz (reconstructions, nats and
samples, for failure_gallery).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from genlab.core import engine
from genlab.core.errors import run_cli
from genlab.core.params import DatasetOptions, load_params, overridable, parse_options
from genlab.datasets.registry import find_dataset
from genlab.evaluation.evaluators import EvaluationPaths, make_evaluator


class Options(DatasetOptions, overridable("seed", "device", "bootstrap")):
    """Evaluate a trained model; what is not given here comes from params.yaml.

    Example: python stages/evaluate.py --dataset arc_grids
    """

    data_path: Path | None = Field(
        None, description="Split file or its folder. [default: data/DATASET]"
    )
    checkpoint: Path | None = Field(
        None, description="Folder written by train. [default: data/checkpoints/DATASET]"
    )
    metrics_path: Path | None = Field(
        None, description="Folder for JSON. [default: results/DATASET]"
    )
    summary_path: Path | None = Field(
        None, description="JSON file of at most ten numbers. [default: metrics/DATASET.json]"
    )
    plots_path: Path | None = Field(
        None, description="Folder for PNG. [default: plots/DATASET/evaluation]"
    )
    output: Path | None = Field(
        None, description="Folder for arrays. [default: data/evaluated/DATASET]"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the stage with these arguments, by default the command line's."""
    options = parse_options(Options, arguments)
    name = options.dataset
    chosen = find_dataset(name)
    params = load_params().with_overrides(**options.overrides).for_dataset(name)
    engine.deterministic(params.seed, params.threads)
    paths = EvaluationPaths(
        data=options.data_path or Path("data") / name,
        trained=options.checkpoint or Path("data/checkpoints") / name,
        results=options.metrics_path or Path("results") / name,
        summary=options.summary_path or Path("metrics") / f"{name}.json",
        plots=options.plots_path or Path("plots") / name / "evaluation",
        arrays=options.output or Path("data/evaluated") / name,
    )
    print(f"{paths.summary}: {make_evaluator(params, chosen, paths).run()}")


if __name__ == "__main__":
    run_cli(main)
