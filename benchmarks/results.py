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
SEEDED = ("seeds-seed1", "seeds-seed2")
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
    default, best = "dvc repro", best_sampler(metrics)
    keep(output, "grids.elbo_over_entropy", metrics, "elbo_over_entropy", default)
    if metrics["samplers"][best]["counted"]:
        keep(output, "grids.legal_samples", metrics["samplers"][best], "legal_grids", default)
    else:
        print(f"grids.legal_samples left out: samples of {best} are too unlike the data to count")
    keep_alone(output, "grids.train_minutes", provenance["training_seconds"] / 60, [0], default)
    if "beta0" in experiments:
        beta0 = experiments["beta0"]
        for key, name in BETA0.items():
            keep(output, key, beta0["metrics"], name, beta0["command"])
        real = beta0["metrics"]["arc_agi"]
        keep(output, "grids.arc_agi_exact", real, "exact_grid_accuracy", beta0["command"])
    else:
        print(f"grids.beta0.* left out: no beta0 in {EXPERIMENTS}; run: make experiments")
    seeded = {int(k.rpartition("seed")[2]): e for k, e in experiments.items() if k in SEEDED}
    if seeded:
        runs = [metrics, *(e["metrics"] for e in seeded.values())]
        spread = float(np.std([run["pixel_accuracy"] for run in runs], ddof=1))
        again = "make experiments ARGS='--only seeds'"
        keep_alone(output, "grids.seed_sd", spread, [0, *seeded], again)
    else:
        print(f"grids.seed_sd left out: no {' or '.join(SEEDED)} in {EXPERIMENTS}")
    for key, entry in read_json(output, made_by="make bench").items():
        print(f"{key:28s} {entry['value']:.6g}  {entry['interval'] or ''}")


def keep_alone(output: Path, key: str, value: float, seeds: list[int], command: str) -> None:
    """Record a number that has no interval, one run a seed."""
    record(key, value, interval=None, n=len(seeds), seeds=seeds, command=command, path=output)


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
