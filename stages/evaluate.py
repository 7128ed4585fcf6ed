"""Stage evaluate: measure the model on the test split, diagnose it, and pass a verdict.

Writes results/DATASET/{metrics,verdict,diagnosis}.json, plots/DATASET/evaluation/*.png and
data/evaluated/DATASET/evidence.npz (reconstructions, nats and samples, for failure_gallery).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from genlab.core import engine
from genlab.core.errors import run_cli
from genlab.core.params import load_params, overrides
from genlab.datasets.registry import find_dataset
from genlab.evaluation.evaluators import EvaluationPaths, make_evaluator


@overrides("seed", "device")
def evaluate(
    dataset: Annotated[str, typer.Option(help="Dataset to measure on.")] = "arc_grids",
    data_path: Annotated[
        Path | None, typer.Option(help="Split file or its folder. (default: data/DATASET)")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder of train. (default: data/checkpoints/DATASET)")
    ] = None,
    metrics_path: Annotated[
        Path | None, typer.Option(help="Folder for JSON. (default: results/DATASET)")
    ] = None,
    summary_path: Annotated[
        Path | None, typer.Option(help="JSON file of ten scalars. (default: metrics/DATASET.json)")
    ] = None,
    plots_path: Annotated[
        Path | None, typer.Option(help="Folder for PNG. (default: plots/DATASET/evaluation)")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for arrays. (default: data/evaluated/DATASET)")
    ] = None,
    *,
    overrides: dict[str, Any],
) -> None:
    """Measure a trained model; what isn't given here comes from params.yaml.

    Example: python stages/evaluate.py --dataset arc_grids
    """
    chosen = find_dataset(dataset)
    params = load_params().with_overrides(**overrides).for_dataset(dataset)
    engine.deterministic(params.seed, params.threads)
    paths = EvaluationPaths(
        data=data_path or Path("data") / dataset,
        trained=checkpoint or Path("data/checkpoints") / dataset,
        results=metrics_path or Path("results") / dataset,
        summary=summary_path or Path("metrics") / f"{dataset}.json",
        plots=plots_path or Path("plots") / dataset / "evaluation",
        arrays=output or Path("data/evaluated") / dataset,
    )
    print(f"{paths.summary}: {make_evaluator(params, chosen, paths).run()}")


if __name__ == "__main__":
    run_cli(lambda: typer.run(evaluate))
