"""Benchmarks that the pipeline and its experiments answer, collected from their result files.

Nothing is measured here. Each result names the command that writes its file again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.harness import REGISTRY, RESULTS_FILE, ROOT, Result, benchmark, clip_to_shares
from genlab.core.errors import GenlabError
from genlab.core.io import read_json
from genlab.core.params import PARAMS_FILE
from genlab.evaluation.reports.context import load_baselines
from genlab.evaluation.reports.tables import SHARES
from genlab.evaluation.reports.targets import read_targets
from genlab.evaluation.reports.trainings import (
    SWEEPS,
    find_metric,
    select_trainings,
    training_values,
)
from genlab.experiments.definitions import load_experiments
from genlab.experiments.results import (
    paired_differences,
    read_results,
    select_sweep,
)

GRIDS = "arc_grids"
IMAGES = "fashion_mnist"
REPORTED = {
    "grids.neg_elbo_over_entropy_bound": (GRIDS, "neg_elbo_over_entropy_bound"),
    "grids.valid_rate": (GRIDS, "samplers.ancestral.valid_rate"),
    "grids.count_tv": (GRIDS, "samplers.best.count_tv"),
    "grids.arc_agi_exact.default": (GRIDS, "arc_agi.exact_grid_accuracy"),
    "images.bits_per_dim": (IMAGES, "bits_per_dim"),
    "images.relative_frechet": (IMAGES, "samplers.best.relative_frechet"),
    "images.relative_frechet.posterior": (IMAGES, "samplers.posterior.relative_frechet"),
    "images.relative_frechet.prior": (IMAGES, "samplers.prior.relative_frechet"),
    "images.relative_frechet.ancestral": (IMAGES, "samplers.ancestral.relative_frechet"),
    "images.ssim": (IMAGES, "ssim"),
}
"""Dataset and path of each metric of the default models; `best`: chosen on validation."""
MINUTES = {"grids.train_minutes": GRIDS, "images.minutes": IMAGES}
LOWEST = {
    "grids.beta0.pixel": ("grids-beta0", "grids-beta0", "metrics.pixel_accuracy"),
    "grids.beta0.nonblack": ("grids-beta0", "grids-beta0", "metrics.nonblack_accuracy"),
    "grids.beta0.exact": ("grids-beta0", "grids-beta0", "metrics.exact_grid_accuracy"),
    "grids.arc_agi_exact": ("grids-beta0", "grids-beta0", "metrics.arc_agi.exact_grid_accuracy"),
    "grids.capacity.exact": ("capacity", "capacity-128", "metrics.exact_grid_accuracy"),
    "grids.capacity.exact_64": ("capacity", "capacity-64", "metrics.exact_grid_accuracy"),
}
"""Sweep, experiment and column of each result that is the lowest of the seeds."""
CONVERGED = 0.99  # exact match from which the long run should not fall
CORES = 2
DEFAULT = "dvc repro"


@benchmark(
    *REPORTED,
    *MINUTES,
    *LOWEST,
    "grids.long_run.exact",
    "grids.long_run.lowest",
    "grids.long_run.gain",
    "grids.seed_sd",
    "images.emoji_bpd",
    "images.emoji_relative_frechet",
    "images.one_model",
    "experiments.hours",
    "experiments.sweeps",
)
def pipeline() -> Iterator[Result]:
    """Collect the results of the pipeline and of its experiments."""
    experiments = read_results()
    defaults = list(default_results(experiments))
    yield from defaults
    yield from grid_sweeps(experiments)
    yield from emoji_results(experiments)
    yield from cost_and_consistency(experiments)
    images = [result for result in defaults if result.key.startswith("images.")]
    yield from one_model({result.key: result.value for result in images})


def default_results(experiments: pd.DataFrame) -> Iterator[Result]:
    """Results of the default models: means over trainings, else of the committed one."""
    files = {dataset: read(f"results/{dataset}/metrics.json") for dataset in (GRIDS, IMAGES)}
    trainings = {
        dataset: select_trainings(experiments, dataset, metrics)
        for dataset, metrics in files.items()
    }
    for key, (dataset, path) in REPORTED.items():
        rows = trainings[dataset]
        if rows.empty:
            yield reported(key, *find_metric(files[dataset], path))
        else:
            result = over_seeds(key, training_values(rows, path), rows, SWEEPS[dataset])
            if result.interval and path.endswith(SHARES):
                result = replace(result, interval=clip_to_shares(*result.interval))
            yield result
    for key, dataset in MINUTES.items():
        trained_here = Path(f"data/checkpoints/{dataset}/provenance.json")
        released = f"checkpoints/{dataset}.json"
        provenance = read(trained_here if trained_here.exists() else released)
        yield Result(key, provenance["training_seconds"] / 60, command=DEFAULT)


def grid_sweeps(experiments: pd.DataFrame) -> Iterator[Result]:
    """Results over seeds: the lowest of them, and the spread."""
    for key, (sweep, entry, column) in LOWEST.items():
        runs = select(experiments, sweep, entry)
        yield from lowest(key, sweep, runs, runs.get(column, ()))
    runs = select(experiments, "long_run", "long-run")
    curves = list(runs.get("training.exact_grid_accuracy", ()))
    yield from lowest("grids.long_run.exact", "long_run", runs, [curve[-1] for curve in curves])
    after = [min(curve[first_converged(curve) :]) for curve in curves]
    yield from lowest("grids.long_run.lowest", "long_run", runs, after)
    yield from long_run_gain(select(experiments, "long_run"))
    runs = select(experiments, "grid-seeds", "grids-default")
    if len(runs) > 1:
        deviation = float(runs["metrics.pixel_accuracy"].std())
        yield of_sweep("grids.seed_sd", deviation, "grid-seeds", runs)


def long_run_gain(runs: pd.DataFrame) -> Iterator[Result]:
    """What the four changes together save of the largest fall of exact match, paired by seed."""
    entries = {*runs.get("entry", ())}
    if entries >= {"long-run", "long-run-without"}:
        column = "diagnosis.training_instability.deepest_fall"
        gains = paired_differences(runs, column, "long-run-without", "long-run")
        yield over_seeds("grids.long_run.gain", gains, runs, "long_run")


def first_converged(curve: Sequence[float]) -> int:
    """The first epoch that reaches CONVERGED; the last one where none does."""
    reached = (epoch for epoch, value in enumerate(curve) if value >= CONVERGED)
    return next(reached, len(curve) - 1)


def select(experiments: pd.DataFrame, sweep: str, entry: str = "") -> pd.DataFrame:
    """The runs of a sweep, or of one entry; an empty table, and the reason printed, if refused."""
    try:
        runs = select_sweep(experiments, sweep)
    except GenlabError as error:
        print(f"left out: {error}")
        return pd.DataFrame()
    return runs[runs["entry"] == entry] if entry else runs


def lowest(key: str, sweep: str, runs: pd.DataFrame, values: Iterable[float]) -> Iterator[Result]:
    """The lowest of the runs' values, with all of them in the details."""
    numbers = [*map(float, values)]
    if numbers:
        yield of_sweep(key, min(numbers), sweep, runs, values=numbers)


def of_sweep(key: str, value: float, sweep: str, runs: pd.DataFrame, **details: object) -> Result:
    """A result of the runs of a sweep."""
    return Result(key, value, None, len(runs), list_seeds(runs), sweep_command(sweep), details)


def over_seeds(key: str, values: Iterable[float], runs: pd.DataFrame, sweep: str) -> Result:
    """The mean of a value per seed, with Student's interval and all values."""
    numbers = [*map(float, values)]
    details = {"trainings": len(numbers), "values": numbers}
    mean = Result.mean(key, numbers, list_seeds(runs))
    return replace(mean, command=sweep_command(sweep), details=details)


def list_seeds(runs: pd.DataFrame) -> list[int]:
    return sorted({*map(int, runs.get("seed", ()))})


def sweep_command(name: str) -> str:
    return f"make experiments ARGS='--only {name}'"


def emoji_results(experiments: pd.DataFrame) -> Iterator[Result]:
    """The model of colour emoji."""
    if "emoji" in experiments.index:
        emoji = experiments.loc["emoji"]
        column = f"metrics.samplers.{emoji['metrics.best_sampler']}.relative_frechet"
        yield reported_column("images.emoji_bpd", emoji, "metrics.bits_per_dim")
        yield reported_column("images.emoji_relative_frechet", emoji, column)


def cost_and_consistency(experiments: pd.DataFrame) -> Iterator[Result]:
    """Hours of two cores that the experiments take, and whether their sweeps compare."""
    try:
        described = load_experiments(ROOT / "experiments.yaml", ROOT / PARAMS_FILE)
    except GenlabError as error:  # an experiment does not fit what the user set in params.yaml
        print(f"left out: experiments.hours, experiments.sweeps: {error}")
        return
    automatic = [experiment for experiment in described if not experiment.manual]
    missing = [run.name for run in automatic if run.name not in experiments.index]
    minutes = 0.0
    for run in automatic:
        measured = run.name not in missing
        of_run = experiments.at[run.name, "seconds"] / 60 if measured else run.minutes or 0.0
        minutes += of_run * run.threads
    details = {"measured": len(automatic) - len(missing), "estimated": len(missing)}
    hours = minutes / 60 / CORES
    command = "make experiments ARGS='--jobs 2'"
    yield Result("experiments.hours", hours, None, len(automatic), (0,), command, details)
    sweeps = dict.fromkeys(sweep for run in automatic for sweep in run.sweep)
    complete = [
        sweep
        for sweep in sweeps
        if len(select(experiments, sweep)) == sum(sweep in run.sweep for run in automatic)
    ]
    incomplete = sorted({*sweeps} - {*complete})
    share = len(complete) / len(sweeps)
    by_sweep = {"incomplete_or_mixed": incomplete}
    yield Result("experiments.sweeps", share, None, len(sweeps), (0,), command, by_sweep)


def one_model(values: Mapping[str, float]) -> Iterator[Result]:
    """Whether one model, the default, meets every target of images and over the baselines.

    It does not where the comparison with the baselines was made with other params.
    """
    recorded = read_json(RESULTS_FILE, producer_command="make bench")
    keys = REGISTRY["baselines"]
    if not recorded.keys() >= set(keys):
        print("images.one_model left out: run: python benchmarks/run.py baselines")
        return
    targets = read_targets(ROOT)
    all_values = {**values, **{key: recorded[key]["value"] for key in keys}}
    met = [targets[key].met(value) for key, value in all_values.items()]
    current = load_baselines(ROOT)["current"]
    if not current:
        print("the comparison with baselines is of other params; run: benchmarks/run.py baselines")
    yield Result("images.one_model", float(current and False not in met))


def read(path: str | Path) -> Any:
    """Read a result file of the pipeline."""
    return read_json(Path(path), producer_command="make repro")


def reported(key: str, metrics: Mapping[str, Any], name: str, command: str = DEFAULT) -> Result:
    """The metric `name` of one training with its interval over items."""
    interval = metrics["intervals"][name]
    bounds = (float(interval["low"]), float(interval["high"]))
    details = {"trainings": 1}
    return Result(key, float(metrics[name]), bounds, int(interval["n"]), (0,), command, details)


def reported_column(key: str, run: pd.Series, column: str) -> Result:
    """The metric in `column` of an experiment's row with its interval."""
    group, _, name = column.rpartition(".")
    interval = {key: run[f"{group}.intervals.{name}.{key}"] for key in ("low", "high", "n")}
    metrics = {name: run[column], "intervals": {name: interval}}
    return reported(key, metrics, name, sweep_command(str(run.name)))
