"""Variables of report templates: result files of a dataset and runs of its experiments."""

from pathlib import Path
from typing import Any

import pandas as pd

from genlab.core.io import read_json
from genlab.core.params import load_params
from genlab.evaluation.diagnostics.criteria import MAX_PRIOR_OVER_POSTERIOR
from genlab.evaluation.diagnostics.rules import MAX_CORRELATION, detected_issues
from genlab.evaluation.reports.targets import read_targets
from genlab.evaluation.reports.trainings import judge_trainings, select_trainings
from genlab.experiments.definitions import compare_code
from genlab.experiments.results import (
    RESULTS_FILE,
    add_image_columns,
    flatten_results,
    read_results,
)
from genlab.experiments.rules import find_missing, read_rules

Context = dict[str, Any]
"""Variables of a template by name."""

RESULTS = ("data", "training", "metrics", "verdict", "diagnosis", "failures")
"""Files of results/DATASET, written by the stages."""
LIMITS = {
    "prior_over_posterior": MAX_PRIOR_OVER_POSTERIOR,
    "residual_correlation": MAX_CORRELATION,
}
"""Limits of diagnoses by the number of the evidence that is compared with them."""
EXPERIMENTS_FILE = "experiments.yaml"
DEFAULT = "default"
"""Name of the pipeline's run among the experiments."""


def load_context(root: Path, dataset: str) -> Context:
    """Read everything that a report of `dataset` is rendered from.

    Raises a GenlabError that names a missing file and the command that makes it.
    """
    context: Context = {
        name: read_json(root / "results" / dataset / f"{name}.json", producer_command="make repro")
        for name in RESULTS
    }
    experiments = read_results(root / RESULTS_FILE)
    params = load_params(root / "params.yaml")
    trainings = select_trainings(experiments, dataset, context["metrics"])
    verdict = judge_trainings(trainings, context["verdict"])
    return context | {
        "verdict": verdict,
        "limits": LIMITS,
        "trainings": trainings,
        "rules": read_rules(root / EXPERIMENTS_FILE),
        "missing_runs": find_missing(root / EXPERIMENTS_FILE, experiments),
        "dataset": dataset,
        "title": params.dataset(dataset).title,
        "family": params.dataset(dataset).family,
        "params": params.for_dataset(dataset).model_dump(),
        "runs": load_runs(root, dataset, context),
        "baselines": load_baselines(root) if dataset == "fashion_mnist" else None,
        "gpu": load_gpu(root) if dataset == "fashion_mnist" else None,
        "benchmarks": load_benchmarks(root),
        "targets": read_targets(root, dataset),
        "code": compare_code(experiments[experiments["dataset"] == dataset]),
    }


def load_benchmarks(root: Path) -> Context:
    """Load the results of the benchmarks by key."""
    benchmarks: Context = read_json(root / "results/benchmarks.json", producer_command="make bench")
    return benchmarks


def load_runs(root: Path, dataset: str, results: Context) -> pd.DataFrame:
    """Load the default run and the experiments of a dataset: a row per run, dotted columns.

    Columns are those of results/experiments.csv, and for images those of `add_image_columns`.
    """
    experiments = read_results(root / RESULTS_FILE)
    files = ("metrics", "training", "verdict", "diagnosis")
    default_row: dict[str, Any] = {
        **flatten_results(*(results[file] for file in files)),
        "sweep": [],
        "diagnosis.found": detected_issues(results["diagnosis"]["diagnoses"]),
    }
    default = pd.DataFrame([default_row], index=[DEFAULT])
    rows = experiments[experiments["dataset"] == dataset]
    return add_image_columns(pd.concat([default, rows]).copy())


def load_gpu(root: Path) -> Context:
    """Load the record of the experiment `gpu`."""
    record: Context = read_json(root / "results/gpu.json", producer_command="git checkout results")
    return record


def load_baselines(root: Path) -> Context:
    """Load the comparison with other models at equal CPU time.

    Returns `rows`, the compared models; `models`, the same by name; `search`, the settings tried;
    and `current`, whether our model was trained with today's params.
    """
    baselines: Context = read_json(
        root / "results" / "baselines.json", producer_command="python benchmarks/run.py baselines"
    )
    digest = load_params(root / "params.yaml").training_digest("fashion_mnist")
    models = {row["contender"]: row for row in baselines["rows"]}
    return {**baselines, "models": models, "current": baselines.get("params") == digest}
