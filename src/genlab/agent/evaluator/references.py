"""Reference models that attempts are compared with, measured once per workspace."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from genlab.agent.architecture.training import Training
from genlab.agent.evaluator import classification
from genlab.agent.evaluator.datasets import DataSplit
from genlab.agent.evaluator.estimates import summarise
from genlab.agent.evaluator.model_evaluator import (
    BOOTSTRAP,
    EvaluationError,
    ModelEvaluator,
    standard_errors,
)
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json

Metrics = dict[str, Any]

STAGE_FILE = Path("results/agent_reference.json")  # written by stages/agent_reference.py
STAGE_COMMAND = "dvc repro agent_reference"
LBFGS_STEPS = 100
SMALL_CNN = """
from torch import nn


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.LazyConv2d(16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.LazyConv2d(32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.LazyLinear({classes}),
        )

    def forward(self, x):
        return self.net(x)
"""


def measure_references(
    evaluator: ModelEvaluator,
    workspace_file: Path,
    stage_file: Path = STAGE_FILE,
    *,
    seeds: int = 1,
    test: DataSplit | None = None,
) -> dict[str, Metrics]:
    """Measure the reference models, or read their metrics from `workspace_file` if it is there.

    Returns metrics by the name of the model: NAME_error is the standard error of NAME over seeds
    and items, `trainings` the number of seeds, and `test` the same on the test split, which no
    planner sees. For classifiers the models are the majority class, logistic regression, and a
    small CNN on `seeds` seeds where the limit on parameters allows it. For generative models it is
    the pipeline's VAE with a factorised likelihood and p(z) = N(0, I), if `stage_file` was written
    for the same data and budget.
    """
    if evaluator.task == "generate":
        return _read_stage(evaluator, stage_file)
    if len(np.unique(evaluator.data.train.labels)) < 2:
        raise GenlabError(
            f"{evaluator.data.name}: its training items are of one class; add another"
        )
    if not workspace_file.exists():
        write_json(workspace_file, _measure_classifiers(evaluator, seeds, test))
    metrics: dict[str, Metrics] = read_json(workspace_file, producer_command="genlab agent")
    return metrics


def _read_stage(evaluator: ModelEvaluator, stage_file: Path) -> dict[str, Metrics]:
    """Read what the stage has measured; empty where that was on other data or another budget."""
    if not stage_file.exists():
        return {}
    stored = read_json(stage_file, producer_command=STAGE_COMMAND)
    conditions = reference_conditions(evaluator)
    if any(stored.get(name) != value for name, value in conditions.items()):
        return {}
    return {"VAE": stored["metrics"]} if stored["metrics"] else {}


def _measure_classifiers(
    evaluator: ModelEvaluator, seeds: int, test: DataSplit | None
) -> dict[str, Metrics]:
    """Measure the classifiers; the small CNN is trained while the regression is fitted."""
    with ThreadPoolExecutor(1) as pool:
        regression = LogisticRegression(max_iter=LBFGS_STEPS)
        fitted = pool.submit(_measure, evaluator, regression, test)
        convolutional: dict[str, Metrics] = {}
        with suppress(EvaluationError):  # it may be beyond the limit on parameters
            convolutional["small CNN"] = _measure_small_cnn(evaluator, seeds, test)
        return {
            "majority class": _measure(evaluator, DummyClassifier(strategy="prior"), test),
            "logistic regression": fitted.result(),
            **convolutional,
        }


def _measure_small_cnn(evaluator: ModelEvaluator, seeds: int, test: DataSplit | None) -> Metrics:
    """Train the small CNN with the default recipe on each seed."""
    source = SMALL_CNN.replace("{classes}", str(evaluator.data.classes))
    results = []
    on_test = []
    for seed in range(seeds):
        result, weights = evaluator.evaluate(source, "SmallCNN", Training(), seed)
        results.append(asdict(result))
        if test is not None:
            on_test.append(evaluator.test(source, "SmallCNN", weights, test, seed))
    summary = summarise(results)
    return summary | {"test": summarise(on_test)} if on_test else summary


def reference_conditions(evaluator: ModelEvaluator) -> dict[str, Any]:
    """Return the data and budget that the stage's file must state to be a reference here."""
    data = evaluator.data
    return {
        "dataset": data.name,
        "examples": evaluator.budget.examples,
        "subset": len(data.train),
        "validation": len(data.validation),
    }


def _measure(evaluator: ModelEvaluator, model: Any, test: DataSplit | None) -> Metrics:
    """Fit a classifier of scikit-learn to pixel levels, here and not in the sandbox."""
    train = evaluator.data.train
    # One thread: the number of threads changes sums of float32, and with them the result.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # L-BFGS stops before it converges
        model.fit(_flatten(train, evaluator.data.scale), train.labels)
        summary = _measure_fitted(evaluator, model, evaluator.data.validation)
        if test is not None:
            summary["test"] = _measure_fitted(evaluator, model, test)
        return summary


def _measure_fitted(evaluator: ModelEvaluator, model: Any, split: DataSplit) -> Metrics:
    """Measure a fitted classifier on a split."""
    log_probabilities = model.predict_log_proba(_flatten(split, evaluator.data.scale))
    logits = np.full((len(split), evaluator.data.classes), -50.0)
    logits[:, model.classes_] = np.maximum(log_probabilities, -50.0)
    metrics = classification.measure(logits, split.labels, bootstrap=BOOTSTRAP)
    errors = standard_errors(metrics.pop("intervals"))
    metrics.pop("recall")
    return summarise([{"metrics": metrics, "errors": errors}])


def _flatten(split: DataSplit, scale: float) -> npt.NDArray[np.float32]:
    """Return the items as rows of numbers on [0, 1]."""
    rows: Any = split.items.reshape(len(split), -1) / np.float32(scale)
    flat: npt.NDArray[np.float32] = rows
    return flat
