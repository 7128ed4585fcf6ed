"""Reconstruction metrics of grids: accuracies, baselines and colour histograms, with intervals."""

from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.stats import Floats, bootstrap_sums, percentile_intervals, wilson_interval
from genlab.grids.palette import BLACK, COLOURS
from genlab.grids.shapes import Grids

SHARES = ("pixel_accuracy", "nonblack_accuracy", "foreground_recall", "per_class_accuracy")
"""The metrics that are shares of cells."""


def wrong_cells(truth: Grids, predicted: Grids) -> npt.NDArray[np.int64]:
    """Cells of each grid that came back with another colour. Both (n, h, w); returns (n,)."""
    wrong: npt.NDArray[np.int64] = (truth != predicted).sum(axis=(1, 2), dtype=np.int64)
    return wrong


def colour_confusion(
    truth: Grids, predicted: Grids, values: int = COLOURS
) -> npt.NDArray[np.int64]:
    """Cells of each grid by (true colour, predicted value): both (n, h, w) to (n, 10, values).

    values: of cells, those of padding included; what is padding in truth is not counted.
    """
    n = len(truth)
    grid = np.arange(n).reshape(n, 1, 1)
    codes = (grid * values + truth) * values + predicted
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
    """Reconstruction metrics of grids, flat, with 95 % intervals over grids, or over `groups`.

    truth, predicted: (n, h, w) colours 0..9. groups: (n,), the task of each grid, where grids of a
    task are alike. values: 11 where there is padding, which counts in exact matches alone. Returns

    - `pixel_accuracy`, `nonblack_accuracy` (of the non-black cells), `exact_grid_accuracy` (share
      of grids without a wrong cell), `per_class_accuracy` {"0".."9"};
    - `all_black_baseline` b and `skill_score` (pixel - b) / (1 - b): 0 is an all-black answer,
      1 is perfect;
    - `foreground_recall` of the non-black mask, whatever the colour;
    - `colour_histogram` {"true", "predicted"}: shares of the ten colours, and
      `colour_histogram_tv`, the total variation between them;
    - `n` grids, and `intervals` {name: {low, high, n}}, their n that of what is resampled.

    A share that the data do not define (a colour that does not occur) is left out.
    Intervals are percentile bootstraps, with two exceptions. `exact_grid_accuracy` of independent
    grids has Wilson's. A share that is exactly 1 has a bootstrap without width; its interval is
    Wilson's for n faultless grids (or groups) of n, those in which the share is defined: the chance
    of a wrong cell is at most the chance of a grid that has one. A total variation is never
    negative, so its bootstrap sits a little above the truth when that is near 0.
    """
    n, confusion = len(truth), colour_confusion(truth, predicted, values)
    exact = wrong_cells(truth, predicted) == 0
    accuracy, total = float(exact.mean()), confusion.sum(axis=0)
    point, of_each_grid = _statistics(total[None]), _statistics(confusion)
    terms = np.column_stack([exact, np.ones(n), confusion.reshape(n, -1)])
    sums = bootstrap_sums(terms, bootstrap=bootstrap, seed=seed, groups=groups)
    units = np.arange(n) if groups is None else groups
    drawn = {"exact_grid_accuracy": sums[:, 0] / sums[:, 1]}
    drawn |= _statistics(sums[:, 2:].reshape(-1, *total.shape))
    intervals = percentile_intervals(drawn, len(np.unique(units)))
    if groups is None:
        intervals["exact_grid_accuracy"] = wilson_interval(int(exact.sum()), n)
    metrics: dict[str, Any] = {"n": n, "exact_grid_accuracy": accuracy, "per_class_accuracy": {}}
    for name, value in point.items():
        group, _, key = name.rpartition(".")
        if not np.isnan(value[0]):
            (metrics[group] if group else metrics)[key] = float(value[0])
        if name.startswith(SHARES) and value[0] == 1:
            faultless = len(np.unique(units[~np.isnan(of_each_grid[name])]))
            intervals[name] = wilson_interval(faultless, faultless)
    metrics["colour_histogram"] = {
        name: {str(c): float(share) for c, share in enumerate(cells / total.sum())}
        for name, cells in {
            "true": total.sum(axis=1),
            "predicted": total.sum(axis=0)[:COLOURS],
        }.items()
    }
    return {**metrics, "intervals": intervals}


def total_variation(counts: Floats, others: Floats) -> Floats:
    """Half the L1 distance between the shares of two rows of counts: (b, k) twice to (b,).

    Where one side is empty and the other is not, the distance is 1; both empty: 0.
    """
    totals, other_totals = counts.sum(axis=1), others.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares, other_shares = counts / totals[:, None], others / other_totals[:, None]
    distance = 0.5 * np.abs(shares - other_shares).sum(axis=1)
    empty = np.where((totals == 0) & (other_totals == 0), 0.0, 1.0)
    found: Floats = np.where((totals == 0) | (other_totals == 0), empty, distance)
    return found


def _statistics(confusion: npt.NDArray[Any]) -> dict[str, Floats]:
    """Every metric from sums of `colour_confusion`: (b, 10, 10) to {name: (b,)}, nan: undefined."""
    hits = np.diagonal(confusion, axis1=1, axis2=2)
    true, predicted = confusion.sum(axis=2), confusion.sum(axis=1)[:, :COLOURS]
    cells, foreground = true.sum(axis=1), true[:, 1:].sum(axis=1)
    pixel, baseline = hits.sum(axis=1) / cells, true[:, BLACK] / cells
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
