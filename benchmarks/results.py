"""The bars that the experiments themselves answer, collected from the files that they left.

Nothing is measured here: accuracy and bounds come from metrics/, the training time from the
checkpoint's provenance. Each entry names the command that makes its file again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

from genlab.core.errors import run_cli
from genlab.core.experiments import RESULTS_FILE, read_results
from genlab.core.io import read_json
from genlab.evaluation.grid_evaluation import best_sampler
from genlab.evaluation.reports.targets import read_targets
from record import BENCHMARKS, record

METRICS = Path("results/{dataset}/metrics.json")
PROVENANCE = Path("data/checkpoints/{dataset}/provenance.json")
EVALUATED = Path("data/evaluated/{dataset}/timing.json")
FASHION, GRIDS = "fashion_mnist", "arc_grids"
BASELINES = Path("results/baselines.json")
SEEDED = ("seeds-seed1", "seeds-seed2")
BETA0 = {
    "grids.beta0.pixel": "metrics.pixel_accuracy",
    "grids.beta0.foreground": "metrics.nonblack_accuracy",
    "grids.beta0.exact": "metrics.exact_grid_accuracy",
    "grids.arc_agi_exact": "metrics.arc_agi.exact_grid_accuracy",
}


def bench(
    output: Annotated[Path, typer.Option(help="File the results go to.")] = BENCHMARKS,
) -> None:
    """Collect the bars of the experiments from the runs' files."""
    experiments = read_results()
    grids(output, experiments)
    images(output, experiments)
    for key, entry in read_json(output, producer_command="make bench").items():
        print(f"{key:28s} {entry['value']:.6g}  {entry['interval'] or ''}")


def of(dataset: str, file: Path) -> Any:
    """The content of a result file of `dataset`."""
    return read_json(Path(str(file).format(dataset=dataset)), producer_command="make repro")


def grids(output: Path, experiments: pd.DataFrame) -> None:
    """The bars of the grid experiment."""
    metrics, provenance = of(GRIDS, METRICS), of(GRIDS, PROVENANCE)
    default, best = "dvc repro", best_sampler(metrics)
    keep(
        output, "grids.neg_elbo_over_entropy_bound", metrics, "neg_elbo_over_entropy_bound", default
    )
    if metrics["samplers"][best]["counted"]:
        keep(output, "grids.valid_rate", metrics["samplers"][best], "valid_rate", default)
    else:
        print(f"grids.valid_rate left out: samples of {best} are too unlike the data to count")
    keep_alone(output, "grids.train_minutes", provenance["training_seconds"] / 60, [0], default)
    if "beta0" in experiments.index:
        for key, column in BETA0.items():
            keep_column(output, key, experiments.loc["beta0"], column)
    else:
        print(f"grids.beta0.* left out: no beta0 in {RESULTS_FILE}; run: make experiments")
    seeded = experiments[experiments.index.isin(SEEDED)]
    if len(seeded):
        accuracies = [metrics["pixel_accuracy"], *seeded["metrics.pixel_accuracy"]]
        spread, seeds = float(np.std(accuracies, ddof=1)), [0, *map(int, seeded["seed"])]
        keep_alone(output, "grids.seed_sd", spread, seeds, "make experiments ARGS='--only seeds'")
    else:
        print(f"grids.seed_sd left out: no {' or '.join(SEEDED)} in {RESULTS_FILE}")


def images(output: Path, experiments: pd.DataFrame) -> None:
    """The bars of the image experiment."""
    metrics, default = of(FASHION, METRICS), "dvc repro"
    keep(output, "images.relative_frechet", best_of(metrics), "relative_frechet", default)
    keep(output, "images.ssim", metrics, "ssim", default)
    spent = of(FASHION, PROVENANCE)["training_seconds"] + of(FASHION, EVALUATED)["seconds"]
    keep_alone(output, "images.minutes", spent / 60, [0], default)
    if "emoji" in experiments.index:
        emoji = experiments.loc["emoji"]
        best = f"metrics.samplers.{emoji['metrics.best_sampler']}"
        keep_column(output, "images.emoji_bpd", emoji, "metrics.bits_per_dim")
        keep_column(output, "images.emoji_relative_frechet", emoji, f"{best}.relative_frechet")
    else:
        print(f"images.emoji_* left out: no emoji in {RESULTS_FILE}; run: make experiments")
    baseline = read_json(output, producer_command="make bench").get("images.bpd_below_baseline")
    if baseline is None:
        print(
            "images.one_model left out: no images.bpd_below_baseline; run: benchmarks/baselines.py"
        )
        return
    # One model, this checkpoint, against every bar of the three kinds. The baselines' numbers are those
    # of the side by side, where they have less time than this; the best of all, the tuned one too.
    baselines = read_json(BASELINES, producer_command="python benchmarks/baselines.py")["rows"]
    means = [row["mean"] for row in baselines if row["contender"] != "ours"]
    best = best_of(metrics)
    reached = {
        "images.frechet_over_baseline": best["frechet_distance"]
        / min(mean["frechet_distance"] for mean in means),
        "images.relative_frechet": best["relative_frechet"],
        "images.bpd_below_baseline": min(mean["bits_per_dim"] for mean in means)
        - metrics["bits_per_dim"],
        "images.ssim": metrics["ssim"],
    }
    targets = read_targets(Path())
    holds = all(targets[key].met(value) for key, value in reached.items())
    keep_alone(output, "images.one_model", float(holds), [0], default)


def best_of(metrics: Mapping[str, Any]) -> Mapping[str, Any]:
    """The numbers of the sampler that was picked."""
    found: Mapping[str, Any] = metrics["samplers"][metrics["best_sampler"]]
    return found


def keep_alone(output: Path, key: str, value: float, seeds: list[int], command: str) -> None:
    """Record a number that has no interval, one run a seed."""
    record(key, value, interval=None, n=len(seeds), seeds=seeds, command=command, path=output)


def keep_column(output: Path, key: str, run: pd.Series, column: str) -> None:
    """Record a number of a row of the experiments, with its interval."""
    group, _, name = column.rpartition(".")
    bounds = {part: run[f"{group}.intervals.{name}.{part}"] for part in ("low", "high", "n")}
    keep(output, key, {name: run[column], "intervals": {name: bounds}}, name, run["command"])


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
    run_cli(lambda: typer.run(bench))
