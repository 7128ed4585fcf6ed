"""Benchmarks that the pipeline and its experiments answer, collected from their result files.

Nothing is measured here. Each result names the command that writes its file again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.harness import ROOT, Result, benchmark
from genlab.core.experiment_results import read_results
from genlab.core.io import read_json
from genlab.evaluation.reports.targets import read_targets

GRIDS, IMAGES = "arc_grids", "fashion_mnist"
METRICS = "results/{}/metrics.json"
PROVENANCE = "data/checkpoints/{}/provenance.json"
EVALUATED = "data/evaluated/{}/timing.json"
BASELINES = Path("results/baselines.json")
SEEDED = ("seeds-seed1", "seeds-seed2")
BETA0 = {
    "grids.beta0.pixel": "metrics.pixel_accuracy",
    "grids.beta0.foreground": "metrics.nonblack_accuracy",
    "grids.beta0.exact": "metrics.exact_grid_accuracy",
    "grids.arc_agi_exact": "metrics.arc_agi.exact_grid_accuracy",
}
DEFAULT = "dvc repro"


@benchmark(
    "grids.neg_elbo_over_entropy_bound",
    "grids.valid_rate",
    "grids.count_tv",
    "grids.train_minutes",
    *BETA0,
    "grids.seed_sd",
    "images.relative_frechet",
    "images.ssim",
    "images.minutes",
    "images.emoji_bpd",
    "images.emoji_relative_frechet",
    "images.one_model",
)
def pipeline() -> Iterator[Result]:
    """Collect the results of the pipeline and of its experiments."""
    experiments = read_results()
    yield from grid_results(read(METRICS, GRIDS), experiments)
    yield from image_results(read(METRICS, IMAGES), experiments)


def grid_results(metrics: Mapping[str, Any], experiments: pd.DataFrame) -> Iterator[Result]:
    """Results of the default grid model, of the capacity run and over seeds."""
    key = "grids.neg_elbo_over_entropy_bound"
    yield reported(key, metrics, "neg_elbo_over_entropy_bound")
    samples = metrics["samplers"][metrics["best_sampler"]]
    yield reported("grids.valid_rate", samples, "valid_rate")
    yield reported("grids.count_tv", samples, "count_tv")
    seconds = read(PROVENANCE, GRIDS)["training_seconds"]
    yield Result("grids.train_minutes", seconds / 60, command=DEFAULT)
    if "beta0" in experiments.index:
        for key, column in BETA0.items():
            yield reported_column(key, experiments.loc["beta0"], column)
    seeded = experiments[experiments.index.isin(SEEDED)]
    if len(seeded):
        accuracies = [metrics["pixel_accuracy"], *seeded["metrics.pixel_accuracy"]]
        seeds = [0, *map(int, seeded["seed"])]
        command = "make experiments ARGS='--only seeds'"
        deviation = float(np.std(accuracies, ddof=1))
        yield Result("grids.seed_sd", deviation, None, len(seeds), seeds, command)


def image_results(metrics: Mapping[str, Any], experiments: pd.DataFrame) -> Iterator[Result]:
    """Results of the default image model, of the one for colour emoji, and against baselines."""
    samples = metrics["samplers"][metrics["best_sampler"]]
    yield reported("images.relative_frechet", samples, "relative_frechet")
    yield reported("images.ssim", metrics, "ssim")
    seconds = read(PROVENANCE, IMAGES)["training_seconds"] + read(EVALUATED, IMAGES)["seconds"]
    yield Result("images.minutes", seconds / 60, command=DEFAULT)
    if "emoji" in experiments.index:
        emoji = experiments.loc["emoji"]
        column = f"metrics.samplers.{emoji['metrics.best_sampler']}.relative_frechet"
        yield reported_column("images.emoji_bpd", emoji, "metrics.bits_per_dim")
        yield reported_column("images.emoji_relative_frechet", emoji, column)
    if not BASELINES.exists():
        print(f"images.one_model left out: no {BASELINES}; run: benchmarks/run.py baselines")
        return
    # This checkpoint against every target at once. The baselines' numbers are those of the
    # comparison at equal CPU time, where they have less than this one; the best of all counts.
    rows = read_json(BASELINES, producer_command="python benchmarks/run.py baselines")["rows"]
    means = [row["mean"] for row in rows if row["contender"] != "ours"]
    values = {
        "images.frechet_over_baseline": samples["frechet_distance"]
        / min(mean["frechet_distance"] for mean in means),
        "images.relative_frechet": samples["relative_frechet"],
        "images.bpd_below_baseline": min(mean["bits_per_dim"] for mean in means)
        - metrics["bits_per_dim"],
        "images.ssim": metrics["ssim"],
    }
    targets = read_targets(ROOT)
    met = all(targets[key].met(value) for key, value in values.items())
    yield Result("images.one_model", float(met), command=DEFAULT)


def read(pattern: str, dataset: str) -> Any:
    """Read a result file of `dataset`."""
    return read_json(Path(pattern.format(dataset)), producer_command="make repro")


def reported(key: str, found: Mapping[str, Any], name: str, command: str = DEFAULT) -> Result:
    """The number `name` of a metrics file with its interval."""
    interval = found["intervals"][name]
    bounds = (float(interval["low"]), float(interval["high"]))
    return Result(key, float(found[name]), bounds, int(interval["n"]), (0,), command)


def reported_column(key: str, run: pd.Series, column: str) -> Result:
    """The number in `column` of an experiment's row with its interval."""
    group, _, name = column.rpartition(".")
    bounds = {part: run[f"{group}.intervals.{name}.{part}"] for part in ("low", "high", "n")}
    return reported(key, {name: run[column], "intervals": {name: bounds}}, name, run["command"])
