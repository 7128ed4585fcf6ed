"""Data and test sets for the judge of generated models."""

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny

from genlab.agent.architecture.training import Training
from genlab.agent.evaluator.datasets import Data, DataSplit
from genlab.agent.evaluator.model_evaluator import ModelEvaluator
from genlab.agent.evaluator.results import EvaluationError
from genlab.core.config_yaml import parse_config

SETS = Path(__file__).resolve().parents[1] / "agent" / "sets"
FASHION = Path("/usr/share/datasets/fashion-mnist")
HEAD = "import torch\nfrom torch import nn\n"
LINEAR = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(784, 10)
    def forward(self, x):
        return self.last(x.flatten(1))
"""


def read_set(name: str) -> list[dict[str, Any]]:
    """The entries of a test set."""
    return list(parse_config((SETS / f"{name}.yaml").read_text(encoding="utf-8")))


def cases(name: str, quick: tuple[str, ...]) -> list[Any]:
    """The entries of a test set as parameters; all but `quick` are marked slow."""
    return [
        pytest.param(e, id=e["name"], marks=[] if e["name"] in quick else [pytest.mark.slow])
        for e in read_set(name)
    ]


def pictures(train: int = 300, validation: int = 100) -> Data:
    """Rectangles of 28 x 28 pixels with 10 classes that nothing can learn."""

    def draw(count: int, seed: int) -> DataSplit:
        images = tiny.images(count, seed).transpose(0, 3, 1, 2)
        return DataSplit(np.ascontiguousarray(images), np.arange(count, dtype=np.int64) % 10)

    return Data("pictures", 10, draw(train, 0), draw(validation, 1))


def fashion(train: int = 5000, validation: int = 500) -> Data:
    """The first items of Fashion-MNIST; skips the test where this machine has none."""
    if not FASHION.is_dir():
        pytest.skip("this machine has no dataset-fashion-mnist")

    def read(name: str, offset: int) -> np.ndarray:
        return np.frombuffer(gzip.decompress((FASHION / name).read_bytes()), np.uint8, -1, offset)

    images = read("train-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    labels = read("train-labels-idx1-ubyte.gz", 8).astype(np.int64)
    end = train + validation
    train_split = DataSplit(images[:train], labels[:train])
    validation_split = DataSplit(images[train:end], labels[train:end])
    return Data("fashion", 10, train_split, validation_split)


def evaluate(evaluator: ModelEvaluator, code: str) -> tuple[dict[str, float], str]:
    """The metrics of a module's class Model, or why it has none."""
    try:
        return evaluator.evaluate(code, "Model", Training(), 0)[0].metrics, ""
    except EvaluationError as error:
        return {}, error.reason


def matches(pattern: str, reason: str) -> bool:
    """Whether a reason is one line that the pattern of a test set is found in."""
    return "\n" not in reason and re.search(pattern, reason, re.IGNORECASE) is not None
