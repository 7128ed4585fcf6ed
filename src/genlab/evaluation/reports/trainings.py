"""Headlines and verdicts over several trainings of a default model, one per seed."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from genlab.core.errors import GenlabError
from genlab.core.io import read_json
from genlab.core.stats import student_interval
from genlab.evaluation.diagnostics.criteria import COMPARISONS, summarise
from genlab.experiments.results import (
    RESULTS_FILE,
    add_image_columns,
    read_results,
    select_sweep,
)

SWEEPS = {"arc_grids": "grid-seeds", "fashion_mnist": "image-seeds"}
"""Sweep of each dataset that trains its default model with several seeds."""
TRAININGS = 5
"""Minimum number of trainings for a statement about more than one of them."""
BEST = "samplers.best."
TOLERANCE = 1e-9  # relative: numbers went through the text of a CSV file


def select_trainings(
    experiments: pd.DataFrame, dataset: str, metrics: Mapping[str, Any]
) -> pd.DataFrame:
    """Select the trainings of a dataset's default model, one row per seed.

    experiments: rows of results/experiments.csv. metrics: of the committed run, which has to be one
    of the trainings, so that these are of the committed model. Returns an empty table where there
    are fewer than TRAININGS, or where they are of different code or machines.
    """
    none = experiments.iloc[:0]
    try:
        rows = select_sweep(experiments, SWEEPS.get(dataset, ""))
    except GenlabError:
        return none
    is_committed = [
        math.isclose(nats, metrics.get("neg_elbo_nats", math.nan), rel_tol=TOLERANCE)
        for nats in rows["metrics.neg_elbo_nats"]
    ]
    return add_image_columns(rows) if len(rows) >= TRAININGS and any(is_committed) else none


def read_trainings(root: Path, dataset: str) -> pd.DataFrame:
    """Read the trainings of a dataset's default model; see `select_trainings`.

    Raises a GenlabError where a result file is missing or malformed.
    """
    metrics = read_json(
        root / "results" / dataset / "metrics.json", producer_command="dvc repro evaluate"
    )
    return select_trainings(read_results(root / RESULTS_FILE), dataset, metrics)


def find_metric(metrics: Mapping[str, Any], path: str) -> tuple[Mapping[str, Any], str]:
    """Find the group of metrics that a dotted path leads to, and the metric's name in it.

    `samplers.best` in a path is the sampler that validation chose.
    """
    *sections, name = path.replace(BEST, f"samplers.{metrics['best_sampler']}.").split(".")
    for section in sections:
        metrics = metrics[section]
    return metrics, name


def training_values(trainings: pd.DataFrame, path: str) -> list[float]:
    """Values of a metric in several trainings; see `find_metric`."""
    return [
        float(row["metrics." + path.replace(BEST, f"samplers.{row['metrics.best_sampler']}.")])
        for _, row in trainings.iterrows()
    ]


def judge_trainings(trainings: pd.DataFrame, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Judge a model by several trainings; without them, by the verdict of one.

    trainings: of `select_trainings`. verdict: content of verdict.json. Returns it with `outcome`
    (passed, not passed or undecided), `scope` (what it is about), and an `outcome` of each
    criterion: met, missed or undecided.
    """
    if trainings.empty:
        criteria = [
            {**row, "outcome": "met" if row["passed"] else "missed"} for row in verdict["criteria"]
        ]
        outcome = "passed" if verdict["passed"] else "not passed"
        return {**verdict, "criteria": criteria, "outcome": outcome, "scope": "of one training"}
    criteria = [
        _judge_criterion(row["name"], row["sign"], row["why"], trainings)
        for row in verdict["criteria"]
        if f"criteria.{row['name']}.value" in trainings
    ]
    missed = [row for row in criteria if row["outcome"] == "missed"]
    undecided = [row for row in criteria if row["outcome"] == "undecided"]
    summary = summarise(missed)
    if undecided:
        names = ", ".join(row["name"] for row in undecided)
        summary = f"{summary}; undecided: {names}" if missed else f"undecided: {names}"
    return {
        **verdict,
        "summary": summary,
        "passed": not missed and not undecided,
        "criteria": criteria,
        "outcome": "not passed" if missed else "undecided" if undecided else "passed",
        "scope": f"over {len(trainings)} trainings",
    }


def _judge_criterion(name: str, sign: str, why: str, trainings: pd.DataFrame) -> dict[str, Any]:
    """Judge a criterion by Student's interval of value minus threshold, paired by training."""
    values = trainings[f"criteria.{name}.value"].astype(float)
    thresholds = trainings[f"criteria.{name}.threshold"].astype(float)
    interval = student_interval(values - thresholds)
    satisfied = {COMPARISONS[sign](interval[end], 0.0) for end in ("low", "high")}
    if values.isna().any():
        satisfied = {False}
        why += "; not measured, or not finite"
    outcome = "undecided" if len(satisfied) == 2 else "met" if True in satisfied else "missed"
    mean = float(values.mean(skipna=False))
    return {
        "name": name,
        "value": None if math.isnan(mean) else mean,
        "interval": None if math.isnan(mean) else student_interval(values),
        "threshold": float(thresholds.mean()),
        "sign": sign,
        "outcome": outcome,
        "passed": outcome == "met",
        "why": why,
    }
