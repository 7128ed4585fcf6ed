"""Reconstruction metrics of grids: accuracies, baselines and colour histograms, with intervals."""

from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.stats import Floats, bootstrap_sums, percentile_intervals, wilson_interval
from genlab.grids.palette import BLACK, COLOURS
from genlab.grids.shapes import Grids

SHARES = ("pixel_accuracy", "nonblack_accuracy", "foreground_recall", "per_class_accuracy")
"""Metrics that are fractions of cells."""


def wrong_cells(truth: Grids, predicted: Grids) -> npt.NDArray[np.int64]:
    """Number of wrongly reconstructed cells of each grid. Both (n, h, w); returns (n,)."""
    wrong: npt.NDArray[np.int64] = (truth != predicted).sum(axis=(1, 2), dtype=np.int64)
    return wrong


def colour_confusion(
    truth: Grids, predicted: Grids, values: int = COLOURS
) -> npt.NDArray[np.int64]:
    """Confusion matrix of the cells of each grid, (n, 10, values): true colour, predicted value.

    truth, predicted: (n, h, w). values: number of values of a cell, padding included; cells that
    are padding in `truth` are not counted.
    """
    n = len(truth)
    indices = np.arange(n).reshape(n, 1, 1)
    codes = (indices * values + truth) * values + predicted
    counts = np.bincount(codes.ravel(), minlength=n * values**2)
    return counts.reshape(n, values, values)[:, :COLOURS]


def grid_metrics(
    truth: Grids,
    predicted: Grids,
    *,
    bootstrap: int = 1000,
    seed: int = 0,
    groups: npt.NDArray[Any] | None = None,
    values: int = COLOURS,
) -> dict[str, Any]:
    """Reconstruction metrics of grids, with 95 % intervals over grids or over `groups`.

    truth, predicted: (n, h, w) colours 0..9. groups: (n,), the task of each grid, since grids of a
    task are alike. values: 11 where there is padding, which counts only in exact matches. Returns

    - `pixel_accuracy`, `nonblack_accuracy` (of the non-black cells), `exact_grid_accuracy`
      (fraction of grids without a wrong cell), `per_class_accuracy` {"0".."9"};
    - `all_black_baseline` b and `skill_score` (pixel - b) / (1 - b): 0 for an all-black answer, 1
      for a perfect one;
    - `foreground_recall` of the non-black mask, whatever the colour;
    - `colour_histogram` {"true", "predicted"}: fractions of the ten colours, and
      `colour_histogram_tv`, the total variation between them;
    - `n` grids, and `intervals` {name: {low, high, n}}, where n counts the resampled units.

    A fraction that is undefined, because its colour does not occur, is left out.
    Intervals are percentile bootstraps, with two exceptions. `exact_grid_accuracy` of independent
    grids has Wilson's. A fraction of exactly 1 would have a bootstrap interval without width; it
    has Wilson's for n of n faultless grids (or groups), where n counts those in which the fraction
    is defined: a cell is wrong at most as often as a grid has a wrong cell. A total variation is
    never negative, so its bootstrap lies a little above the truth where that is near 0.
    """
    n = len(truth)
    confusion = colour_confusion(truth, predicted, values)
    exact = wrong_cells(truth, predicted) == 0
    total = confusion.sum(axis=0)
    point = _compute_metrics(total[None])
    per_grid = _compute_metrics(confusion)
    terms = np.column_stack([exact, np.ones(n), confusion.reshape(n, -1)])
    sums = bootstrap_sums(terms, bootstrap=bootstrap, seed=seed, groups=groups)
    units = np.arange(n) if groups is None else groups
    resampled = {"exact_grid_accuracy": sums[:, 0] / sums[:, 1]}
    resampled |= _compute_metrics(sums[:, 2:].reshape(-1, *total.shape))
    intervals = percentile_intervals(resampled, len(np.unique(units)))
    if groups is None:
        intervals["exact_grid_accuracy"] = wilson_interval(int(exact.sum()), n)
    metrics: dict[str, Any] = {
        "n": n,
        "exact_grid_accuracy": float(exact.mean()),
        "per_class_accuracy": {},
    }
    for name, value in point.items():
        group, _, key = name.rpartition(".")
        target = metrics[group] if group else metrics
        if not np.isnan(value[0]):
            target[key] = float(value[0])
        if name.startswith(SHARES) and value[0] == 1:
            faultless = len(np.unique(units[~np.isnan(per_grid[name])]))
            intervals[name] = wilson_interval(faultless, faultless)
    metrics["colour_histogram"] = _colour_histogram(total)
    return {**metrics, "intervals": intervals}


def total_variation(counts: Floats, others: Floats) -> Floats:
    """Total variation between normalised rows of two histograms: (b, k) and (b, k) to (b,).

    It is half the L1 distance; 1 where only one row is empty, 0 where both are.
    """
    totals = counts.sum(axis=1)
    other_totals = others.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = counts / totals[:, None]
        other_shares = others / other_totals[:, None]
    distance = 0.5 * np.abs(shares - other_shares).sum(axis=1)
    both_empty = (totals == 0) & (other_totals == 0)
    any_empty = (totals == 0) | (other_totals == 0)
    distances: Floats = np.where(any_empty, np.where(both_empty, 0.0, 1.0), distance)
    return distances


def _colour_histogram(confusion: npt.NDArray[Any]) -> dict[str, dict[str, float]]:
    """Fractions of the true and of the predicted colours, from a matrix (10, values)."""
    cells = {"true": confusion.sum(axis=1), "predicted": confusion.sum(axis=0)[:COLOURS]}
    histogram = {}
    for name, counts in cells.items():
        shares = counts / confusion.sum()
        histogram[name] = {str(colour): float(share) for colour, share in enumerate(shares)}
    return histogram


def _compute_metrics(confusion: npt.NDArray[Any]) -> dict[str, Floats]:
    """Metrics, (b,) each, from sums of `colour_confusion`, (b, 10, values); nan where undefined."""
    hits = np.diagonal(confusion, axis1=1, axis2=2)
    true = confusion.sum(axis=2)
    predicted = confusion.sum(axis=1)[:, :COLOURS]
    cells = true.sum(axis=1)
    foreground = true[:, 1:].sum(axis=1)
    pixel = hits.sum(axis=1) / cells
    baseline = true[:, BLACK] / cells
    with np.errstate(divide="ignore", invalid="ignore"):
        per_class = hits / true
        return {
            "pixel_accuracy": pixel,
            "nonblack_accuracy": hits[:, 1:].sum(axis=1) / foreground,
            "all_black_baseline": baseline,
            "skill_score": np.where(baseline < 1, (pixel - baseline) / (1 - baseline), np.nan),
            "foreground_recall": confusion[:, 1:, 1:].sum(axis=(1, 2)) / foreground,
            "colour_histogram_tv": total_variation(true, predicted),
            **{f"per_class_accuracy.{c}": per_class[:, c] for c in range(COLOURS)},
        }
