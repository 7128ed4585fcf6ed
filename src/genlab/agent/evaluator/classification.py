"""Metrics of a classifier, from its logits and labels that it never saw."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from genlab.core.stats import percentile_interval, share_interval

Logits = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
BOOTSTRAP = 1000


def check_logits(given: torch.Tensor | None, n: int, classes: int) -> Logits:
    """Logits as float64 (n, classes). Raises ValueError where they are not finite or misshapen."""
    if given is None or tuple(given.shape) != (n, classes):
        found = "missing" if given is None else f"of shape {tuple(given.shape)}"
        raise ValueError(f"logits are {found}, not ({n}, {classes})")
    logits = given.double().numpy()
    if not np.isfinite(logits).all():
        raise ValueError("logits are not finite")
    return logits


def loss(logits: Logits, labels: Labels) -> float:
    """Cross-entropy in nats per item."""
    return float(_nats(logits, labels).mean())


def measure(logits: Logits, labels: Labels) -> dict[str, Any]:
    """`accuracy`, `macro_f1`, `val_loss` (nats per item) and `n`."""
    confusion = _confusion(logits, labels)
    return {
        "accuracy": float(np.trace(confusion) / len(labels)),
        "macro_f1": float(_macro_f1(confusion[None])[0]),
        "val_loss": loss(logits, labels),
        "n": len(labels),
    }


def measure_with_intervals(logits: Logits, labels: Labels) -> dict[str, Any]:
    """`measure` and the 95 % interval of each metric: Wilson's, or the bootstrap's over items."""
    n, confusion = len(labels), _confusion(logits, labels)
    rng = np.random.default_rng(0)
    # Counts of resampled items are multinomial: no item has to be drawn.
    drawn = rng.multinomial(n, confusion.ravel() / n, size=BOOTSTRAP)
    scores = _macro_f1(drawn.reshape(BOOTSTRAP, *confusion.shape))
    nats = _nats(logits, labels)
    losses = [nats[rng.integers(n, size=n)].mean() for _ in range(BOOTSTRAP)]
    found = {
        "accuracy": share_interval(int(np.trace(confusion)), n),
        "macro_f1": percentile_interval(scores, n),
        "val_loss": percentile_interval(losses, n),
    }
    intervals = {f"{key}_interval": [each["low"], each["high"]] for key, each in found.items()}
    return {**measure(logits, labels), **intervals}


def _nats(logits: Logits, labels: Labels) -> Logits:
    """Cross-entropy of each item, (n,)."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    chosen = shifted[np.arange(len(labels)), labels]
    found: Logits = np.log(np.exp(shifted).sum(axis=1)) - chosen
    return found


def _confusion(logits: Logits, labels: Labels) -> npt.NDArray[np.int64]:
    """Counts (classes, classes) of true and predicted classes."""
    classes = logits.shape[1]
    pairs = labels * classes + logits.argmax(axis=1)
    return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)


def _macro_f1(confusion: npt.NDArray[np.int64]) -> Logits:
    """Mean F1 of each (classes, classes), over classes that are true or predicted for an item."""
    right = np.diagonal(confusion, axis1=1, axis2=2)
    total = confusion.sum(axis=1) + confusion.sum(axis=2)
    found: Logits = (2 * right / np.maximum(total, 1)).sum(axis=1) / (total > 0).sum(axis=1)
    return found
