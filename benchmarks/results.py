"""The bars that the experiments themselves answer, collected from the files that they left.

Nothing is measured here: accuracy and bounds come from metrics/, the training time from the
checkpoint's provenance. Each entry names the command that makes its file again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from genlab.core.artifacts import read_json
from genlab.core.console import guarded
from genlab.measure.evaluation import best_sampler
from record import BENCHMARKS, record

METRICS = Path("metrics/arc_grids/metrics.json")
EXPERIMENTS = Path("metrics/experiments.json")
PROVENANCE = Path("data/checkpoints/arc_grids/provenance.json")
BETA0 = {
    "grids.beta0.pixel": "pixel_accuracy",
    "grids.beta0.foreground": "foreground_accuracy",
    "grids.beta0.exact": "exact_grid_accuracy",
}


def bench(
    output: Annotated[Path, typer.Option(help="File the results go to.")] = BENCHMARKS,
) -> None:
    """Collect the bars of the grid experiment from the run's files."""
    metrics = read_json(METRICS, made_by="make repro")
    experiments = read_json(EXPERIMENTS, made_by="make experiments")
    provenance = read_json(PROVENANCE, made_by="make repro")
    beta0 = experiments["beta0"]
    default = "dvc repro"
    for key, name in BETA0.items():
        keep(output, key, beta0["metrics"], name, beta0["command"])
    keep(
        output,
        "grids.arc_agi_exact",
        beta0["metrics"]["arc_agi"],
        "exact_grid_accuracy",
        beta0["command"],
    )
    keep(output, "grids.elbo_over_entropy", metrics, "elbo_over_entropy", default)
    best = best_sampler(metrics)
    keep(output, "grids.legal_samples", metrics["samplers"][best], "legal_grids", default)
    runs = [
        metrics,
        *(e["metrics"] for name, e in experiments.items() if name.startswith("seeds-")),
    ]
    accuracies = [run["pixel_accuracy"] for run in runs]
    seeds = [0, *(int(name.rsplit("-", 1)[1]) for name in experiments if name.startswith("seeds-"))]
    record(
        "grids.seed_sd",
        float(np.std(accuracies, ddof=1)),
        interval=None,
        n=len(runs),
        seeds=seeds,
        command="make experiments ARGS='--only seeds-1 seeds-2'",
        path=output,
    )
    record(
        "grids.train_minutes",
        provenance["training_seconds"] / 60,
        interval=None,
        n=1,
        seeds=[0],
        command=default,
        path=output,
    )
    for key, entry in read_json(output, made_by="make bench").items():
        print(f"{key:28s} {entry['value']:.6g}  {entry['interval'] or ''}")


def keep(output: Path, key: str, found: Mapping[str, Any], name: str, command: str) -> None:
    """Record the number `name` of a metrics file with its interval."""
    interval = found["intervals"][name]
    record(
        key,
        found[name],
        interval=(interval["low"], interval["high"]),
        n=interval["n"],
        seeds=[0],
        command=command,
        path=output,
    )


if __name__ == "__main__":
    guarded(lambda: typer.run(bench))
