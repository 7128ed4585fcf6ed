"""Stage evaluate: evaluate the model on the test split, diagnose it, and pass a verdict.

Writes results/DATASET/{metrics,verdict,diagnosis}.json, metrics/DATASET.json (the headline),
plots/DATASET/evaluation/*.png and data/evaluated/DATASET/evidence.npz (reconstructions, nats and
samples, for failure_gallery).
"""

from pathlib import Path

from pydantic import Field

from genlab.core import engine
from genlab.core.errors import run_cli
from genlab.core.params.options import DatasetOptions, overridable, parse_options
from genlab.evaluation.evaluators.base import EvaluationPaths
from genlab.evaluation.evaluators.families import make_evaluator


class Options(DatasetOptions, overridable("seed", "device", "bootstrap")):
    """Evaluate a trained model; defaults come from params.yaml.

    Example: python stages/evaluate.py --dataset arc_grids
    """

    data_path: Path = Field(Path("data/DATASET"), description="Split file or its folder.")
    judges: Path = Field(Path("data/judges/DATASET"), description="Folder written by judges.")
    checkpoint: Path = Field(
        Path("data/checkpoints/DATASET"), description="Folder written by train."
    )


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    params = options.params
    dataset = params.dataset(options.dataset)
    engine.make_deterministic(params.seed, params.threads)
    paths = EvaluationPaths(
        data=options.data_path,
        judges=options.judges,
        trained=options.checkpoint,
        results=options.output_path("results/DATASET"),
        summary=options.output_path("metrics", f"{options.dataset}.json"),
        plots=options.output_path("plots/DATASET", "evaluation"),
        arrays=options.output_path("data/evaluated/DATASET"),
    )
    print(f"{paths.summary}: {make_evaluator(params, dataset, paths).run()}")


if __name__ == "__main__":
    run_cli(main)
