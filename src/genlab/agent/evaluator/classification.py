"""Metrics of a classifier, computed from its logits and labels that it never saw."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from genlab.core.stats import bootstrap_sums, percentile_intervals

Floats = npt.NDArray[np.float64]


def measure(logits: Floats, labels: npt.NDArray[np.int64], *, bootstrap: int = 0) -> dict[str, Any]:
    """Return `accuracy`, `macro_f1`, `val_loss` (cross-entropy in nats per item), `n` and `recall`.

    logits: (n, classes). labels: (n,). recall: one value per class, 0 where it does not occur.
    bootstrap: number of resamples of the items behind the 95 % `intervals`; 0 leaves them out.
    """
    n, classes = logits.shape
    one_hot = np.eye(classes)
    predicted = logits.argmax(axis=1)
    correct = one_hot[labels] * (predicted == labels)[:, None]
    counts = one_hot[labels] + one_hot[predicted]
    loss = -log_softmax(logits, axis=1)[np.arange(n), labels]
    rows = np.column_stack([loss, correct, counts])

    def compute_metrics(sums: Floats) -> dict[str, Floats]:
        """Metrics as functions of sums of `rows` over n items, (samples, 1 + 2 classes)."""
        correct, counts = np.split(sums[:, 1:], 2, axis=1)
        f1 = 2 * correct / np.maximum(counts, 1)
        return {
            "accuracy": correct.sum(axis=1) / n,
            "macro_f1": f1.sum(axis=1) / (counts > 0).sum(axis=1),  # of classes that occur
            "val_loss": sums[:, 0] / n,
        }

    over_all_items = compute_metrics(rows.sum(axis=0, keepdims=True))
    metrics: dict[str, Any] = {name: float(value[0]) for name, value in over_all_items.items()}
    items_per_class = np.maximum(one_hot[labels].sum(axis=0), 1)
    metrics["recall"] = (correct.sum(axis=0) / items_per_class).tolist()
    if bootstrap:
        resampled = compute_metrics(bootstrap_sums(rows, bootstrap=bootstrap, seed=0))
        metrics["intervals"] = percentile_intervals(resampled, n)
    return {**metrics, "n": n}
