"""Stability of a training run, measured on its curves over epochs.

Only epochs with the same loss function are compared: a loss that rises with beta is no instability,
and while only the prior is trained, the loss has no reconstruction term.
"""

import numpy as np
import pandas as pd
from scipy.stats import median_abs_deviation

WINDOW = 10
"""Number of past epochs that an epoch is compared with."""
MIN_WINDOW = 5
"""Minimum number of past epochs for a comparison."""
SPREADS = 5.0
"""A spike exceeds the median of the past epochs by more robust standard deviations than this."""
MIN_LOG_RISE = np.log(2)
"""Minimum rise of the log loss of grids in a spike: the loss doubles."""
MIN_RELATIVE_RISE = 0.05
"""Minimum rise of the loss of images in a spike, as a fraction of the median."""
NEGLIGIBLE = 0.01
"""Nats per grid: smaller losses count as this, since a single wrong grid determines them."""
CONVERGED = 0.9
"""Fraction of the best accuracy: before it is reached, accuracy rises and falls in any run."""


def measure_stability(family: str, history: pd.DataFrame) -> dict[str, float]:
    """Count spikes of the training loss, and measure their effect on validation.

    family: of datasets. history: one row per epoch. Returns `loss_spikes` of the training loss; for
    grids `deepest_fall`, that of the validation exact-match accuracy below its best so far; for
    images `objective_spikes`, those of the validation objective, in nats, which may be negative.
    """
    prior_only = history["train/reconstruction_cost"].isna()
    changed = (history["beta"].diff() != 0) | (prior_only != prior_only.shift(fill_value=False))
    phases = [phase for _, phase in history.groupby(changed.cumsum())]
    if family != "images":
        log_losses = [np.log(phase["train/loss"].clip(lower=NEGLIGIBLE)) for phase in phases]
        return {
            "loss_spikes": sum(_count_spikes(loss, MIN_LOG_RISE, 0.0) for loss in log_losses),
            "deepest_fall": max(_deepest_fall(phase["exact_grid_accuracy"]) for phase in phases),
        }
    return {
        name: sum(_count_spikes(phase[column], 0.0, MIN_RELATIVE_RISE) for phase in phases)
        for name, column in (("loss_spikes", "train/loss"), ("objective_spikes", "val_objective"))
    }


def _count_spikes(values: pd.Series, min_rise: float, min_relative_rise: float) -> int:
    """Count rises above the past epochs; a rise that lasts for several epochs counts once."""
    past = values.shift().rolling(WINDOW, min_periods=MIN_WINDOW)
    median = past.median()
    spread = past.apply(
        lambda window: median_abs_deviation(window, scale="normal", nan_policy="omit"), raw=True
    )
    threshold = np.maximum(SPREADS * spread, min_rise + min_relative_rise * median.abs())
    high = values - median > threshold
    return int((high & ~high.shift(fill_value=False)).sum())


def _deepest_fall(accuracy: pd.Series) -> float:
    """Largest fall below the best so far, after CONVERGED of the final best was first reached."""
    converged = accuracy[(accuracy >= CONVERGED * accuracy.max()).cummax()]
    return float((converged.cummax() - converged).max())
