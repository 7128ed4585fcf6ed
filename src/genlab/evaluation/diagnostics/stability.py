"""How stable a training run was, measured on its per-epoch curves.

Only epochs with the same loss are compared: one that rises with beta is no instability, and while
the prior alone is trained there is no reconstruction in it.
Of results/experiments.csv, long runs of grids at beta 0 without `amsgrad` have 3 to 10 spikes and
falls up to 0.97; with it, at most one spike, but falls up to 0.74. Images have no spike.
"""

import numpy as np
import pandas as pd
from scipy.stats import median_abs_deviation

WINDOW, MIN_WINDOW = 10, 5
"""Epochs before one that it is compared with, at most and at least."""
SPREADS = 5.0
"""Robust standard deviations of these epochs above their median: more is a spike."""
DOUBLED, RAISED = np.log(2), 0.05
"""What a spike is at least: twice the median loss of grids, 5 % of the median of images."""
NEGLIGIBLE = 0.01
"""Nats per grid: a smaller loss counts as this, since a single wrong grid decides about it."""
CONVERGED = 0.9
"""Of the best accuracy: before it is reached, accuracy rises and falls in any run."""


def measure_stability(kind: str, history: pd.DataFrame) -> dict[str, float]:
    """Spikes of the loss and what they did to validation, over a run's epochs.

    history: one row per epoch. Returns `loss_spikes` of the training loss; for grids `deepest_fall`
    of the validation exact-match accuracy below its best so far; for images `objective_spikes`
    of the validation objective, in nats, which may be negative.
    """
    alone = history["train/reconstruction_loss"].isna()
    changed = (history["beta"].diff() != 0) | (alone != alone.shift(fill_value=False))
    parts = [part for _, part in history.groupby(changed.cumsum())]
    if kind != "images":
        losses = [np.log(part["train/loss"].clip(lower=NEGLIGIBLE)) for part in parts]
        return {
            "loss_spikes": sum(_count_spikes(loss, DOUBLED, 0.0) for loss in losses),
            "deepest_fall": max(_deepest_fall(part["exact_grid_accuracy"]) for part in parts),
        }
    return {
        name: sum(_count_spikes(part[column], 0.0, RAISED) for part in parts)
        for name, column in (("loss_spikes", "train/loss"), ("objective_spikes", "val_objective"))
    }


def _count_spikes(values: pd.Series, least: float, share: float) -> int:
    """Rises above the epochs before; one that lasts for several epochs counts once."""
    past = values.shift().rolling(WINDOW, min_periods=MIN_WINDOW)
    median = past.median()
    spread = past.apply(
        lambda window: median_abs_deviation(window, scale="normal", nan_policy="omit"), raw=True
    )
    high = values - median > np.maximum(SPREADS * spread, least + share * median.abs())
    return int((high & ~high.shift(fill_value=False)).sum())


def _deepest_fall(accuracy: pd.Series) -> float:
    """The largest fall below the best so far, once CONVERGED of the final best was reached."""
    converged = accuracy[(accuracy >= CONVERGED * accuracy.max()).cummax()]
    return float((converged.cummax() - converged).max())
