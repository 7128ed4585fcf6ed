"""Reference models beside every attempt, measured once per workspace by the same judge."""

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
from genlab.agent.evaluator.judge import BOOTSTRAP, EvaluationError, ModelJudge, standard_errors
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json

Metrics = dict[str, Any]

OF_STAGE = Path("results/agent_reference.json")  # written by stages/agent_reference.py
STAGE = "dvc repro agent_reference"
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
    judge: ModelJudge,
    workspace_file: Path,
    stage_file: Path = OF_STAGE,
    *,
    seeds: int = 1,
    test: DataSplit | None = None,
) -> dict[str, Metrics]:
    """Metrics of each reference model by its name, read from `workspace_file` if it is there.

    NAME_error is the standard error of NAME over seeds and items, `trainings` the number of seeds,
    and `test` the same of the test part, which no planner sees. Classifiers: majority class,
    logistic regression, and a small CNN on `seeds` seeds where the limit on parameters allows it.
    Generative: the pipeline's VAE with a factorised likelihood and p(z) = N(0, I), if `stage_file`
    was written for the same data and budget.
    """
    if judge.task == "generate":
        stored = read_json(stage_file, producer_command=STAGE) if stage_file.exists() else {}
        fits = {**stored, **reference_conditions(judge)} == stored and stored["metrics"]
        return {"VAE": stored["metrics"]} if fits else {}
    if len(np.unique(judge.data.train.labels)) < 2:
        raise GenlabError(f"{judge.data.name}: its training items are of one class; add another")
    if not workspace_file.exists():
        write_json(workspace_file, _measure_classifiers(judge, seeds, test))
    read: dict[str, Metrics] = read_json(workspace_file, producer_command="genlab agent")
    return read


def _measure_classifiers(
    judge: ModelJudge, seeds: int, test: DataSplit | None
) -> dict[str, Metrics]:
    """Metrics of the classifiers; the convolutions are trained while the regression is fitted."""
    with ThreadPoolExecutor(1) as pool:
        regression = LogisticRegression(max_iter=LBFGS_STEPS)
        fitted = pool.submit(_measure, judge, regression, test)
        convolutional: dict[str, Metrics] = {}
        with suppress(EvaluationError):  # two convolutions, the default recipe
            convolutional["small CNN"] = _measure_small_cnn(judge, seeds, test)
        return {
            "majority class": _measure(judge, DummyClassifier(strategy="prior"), test),
            "logistic regression": fitted.result(),
            **convolutional,
        }


def _measure_small_cnn(judge: ModelJudge, seeds: int, test: DataSplit | None) -> Metrics:
    source = SMALL_CNN.replace("{classes}", str(judge.data.classes))
    results = []
    on_test = []
    for seed in range(seeds):
        result, weights = judge.evaluate(source, "SmallCNN", Training(), seed)
        results.append(asdict(result))
        if test is not None:
            on_test.append(judge.test(source, "SmallCNN", weights, test, seed))
    summary = summarise(results)
    return summary | {"test": summarise(on_test)} if on_test else summary


def reference_conditions(judge: ModelJudge) -> dict[str, Any]:
    """What a figure of the stage has to agree in to be shown."""
    data, examples = judge.data, judge.budget.examples
    sizes = {"subset": len(data.train), "validation": len(data.validation)}
    return {"dataset": data.name, "examples": examples, **sizes}


def _measure(judge: ModelJudge, model: Any, test: DataSplit | None) -> Metrics:
    """Fit a classifier of scikit-learn to levels, here and not in the sandbox."""
    train = judge.data.train
    # One thread: the number of threads changes sums of float32, and with them the result.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where more steps would change it a little
        model.fit(_flatten(train, judge.data.scale), train.labels)
        summary = _answer(judge, model, judge.data.validation)
        return summary if test is None else summary | {"test": _answer(judge, model, test)}


def _answer(judge: ModelJudge, model: Any, part: DataSplit) -> Metrics:
    """Metrics of a fitted classifier on a part."""
    answers = model.predict_log_proba(_flatten(part, judge.data.scale))
    logits = np.full((len(part), judge.data.classes), -50.0)
    logits[:, model.classes_] = np.maximum(answers, -50.0)
    measured = classification.measure(logits, part.labels, bootstrap=BOOTSTRAP)
    errors = standard_errors(measured.pop("intervals"))
    measured.pop("recall")
    return summarise([{"metrics": measured, "errors": errors}])


def _flatten(part: DataSplit, scale: float) -> npt.NDArray[np.float32]:
    """Items as rows of numbers on [0, 1]."""
    rows: Any = part.items.reshape(len(part), -1) / np.float32(scale)
    flat: npt.NDArray[np.float32] = rows
    return flat
