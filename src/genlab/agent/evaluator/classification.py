"""Metrics of a classifier, from its logits and labels that it never saw."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from genlab.core.stats import bootstrap_sums, percentile_intervals

Floats = npt.NDArray[np.float64]


def measure(logits: Floats, labels: npt.NDArray[np.int64], *, bootstrap: int = 0) -> dict[str, Any]:
    """`accuracy`, `macro_f1`, `val_loss` (cross-entropy in nats per item), `n` and `recall`.

    recall: of each class; 0 where it does not occur. bootstrap: resamples of the items behind
    `intervals`, at 95 %; without any there are none.
    """
    n, classes = logits.shape
    one_hot, found = np.eye(classes), logits.argmax(axis=1)
    right = one_hot[labels] * (found == labels)[:, None]
    counts = one_hot[labels] + one_hot[found]
    loss = -log_softmax(logits, axis=1)[np.arange(n), labels]
    rows = np.column_stack([loss, right, counts])

    def metrics_of(sums: Floats) -> dict[str, Floats]:
        """Metrics as functions of sums of `rows` over n items, (samples, 1 + 2 classes)."""
        right, counts = np.split(sums[:, 1:], 2, axis=1)
        f1 = 2 * right / np.maximum(counts, 1)
        return {
            "accuracy": right.sum(axis=1) / n,
            "macro_f1": f1.sum(axis=1) / (counts > 0).sum(axis=1),  # of classes that occur
            "val_loss": sums[:, 0] / n,
        }

    whole = metrics_of(rows.sum(axis=0, keepdims=True))
    metrics: dict[str, Any] = {name: float(value[0]) for name, value in whole.items()}
    labelled = np.maximum(one_hot[labels].sum(axis=0), 1)
    metrics["recall"] = (right.sum(axis=0) / labelled).tolist()
    if bootstrap:
        resampled = metrics_of(bootstrap_sums(rows, bootstrap=bootstrap, seed=0))
        metrics["intervals"] = percentile_intervals(resampled, n)
    return {**metrics, "n": n}
