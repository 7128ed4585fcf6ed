"""Metrics of a classifier, from its logits and labels that it never saw."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from torch import Tensor

from genlab.agent.evaluator.room import EvaluationError
from genlab.core.stats import percentile_interval

Logits = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
BOOTSTRAP = 500


def check_logits(given: Tensor | None, n: int, classes: int) -> Logits:
    """Logits as float64 (n, classes). Raises EvaluationError where they are none, or not finite."""
    if given is None or tuple(given.shape) != (n, classes):
        found = None if given is None else tuple(given.shape)
        raise EvaluationError(f"logits are {found}, not ({n}, {classes})")
    logits: Logits = given.double().numpy()
    if not np.isfinite(logits).all():
        raise EvaluationError("logits are not finite")
    return logits


def measure(logits: Logits, labels: Labels) -> dict[str, Any]:
    """`accuracy`, `macro_f1`, `val_loss` (cross-entropy in nats per item) and `n`."""
    classes, n = logits.shape[1], len(labels)
    found = logits.argmax(axis=1)
    counts = np.bincount(np.concatenate([labels, found]), minlength=classes)
    right = np.bincount(labels[found == labels], minlength=classes)
    f1 = 2 * right / np.maximum(counts, 1)
    return {
        "accuracy": float(right.sum() / n),
        "macro_f1": float(f1.sum() / (counts > 0).sum()),  # of classes that occur
        "val_loss": -float(log_softmax(logits, axis=1)[np.arange(n), labels].mean()),
        "n": n,
    }


def measure_with_intervals(logits: Logits, labels: Labels) -> dict[str, Any]:
    """`measure`, and NAME_interval, the 95 % bootstrap interval of each metric over items."""
    metrics, rng = measure(logits, labels), np.random.default_rng(0)
    draws = [rng.integers(len(labels), size=len(labels)) for _ in range(BOOTSTRAP)]
    scores = [measure(logits[rows], labels[rows]) for rows in draws]
    for name in ("accuracy", "macro_f1", "val_loss"):
        interval = percentile_interval([each[name] for each in scores], len(labels))
        metrics[f"{name}_interval"] = [interval["low"], interval["high"]]
    return metrics
