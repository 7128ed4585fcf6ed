"""Reconstruction metrics of grids: accuracies, baselines and colour histograms, with intervals."""

from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.stats import Floats, percentile_intervals, resampled_sums, share_interval

Grids = npt.NDArray[np.uint8]
COLOURS = 10
BLACK = 0


def wrong_cells(truth: Grids, predicted: Grids) -> npt.NDArray[np.int64]:
    """Cells of each grid that came back with another colour. Both (n, h, w); returns (n,)."""
    wrong: npt.NDArray[np.int64] = (truth != predicted).sum(axis=(1, 2), dtype=np.int64)
    return wrong


def colour_confusion(truth: Grids, predicted: Grids) -> npt.NDArray[np.int64]:
    """Cells by (true colour, predicted colour), (10, 10)."""
    pairs = truth.astype(np.int64) * COLOURS + predicted
    return np.bincount(pairs.ravel(), minlength=COLOURS**2).reshape(COLOURS, COLOURS)


def grid_metrics(
    truth: Grids, predicted: Grids, *, bootstrap: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Reconstruction metrics of grids, flat, with 95 % intervals over grids.

    truth, predicted: (n, h, w) colours 0..9. Returns

    - `pixel_accuracy`, `nonblack_accuracy` (of the non-black cells), `exact_grid_accuracy` (share
      of grids without a wrong cell), `per_class_accuracy` {"0".."9"};
    - `all_black_baseline` b and `skill_score` (pixel - b) / (1 - b): 0 is an all-black answer,
      1 is perfect;
    - `foreground_precision`, `foreground_recall` of the non-black mask, whatever the colour;
    - `colour_histogram_tv` (total variation between all ten colours' shares) and
      `foreground_histogram_tv` (between the nine others' shares of what is not black);
    - `colour_histogram` {"true", "predicted"}: shares of the ten colours;
    - `n` grids, and `intervals` {name: {low, high, n}}.

    A share that the data do not define (a colour that does not occur) is left out.
    Intervals are percentile bootstraps over grids, with two exceptions. `exact_grid_accuracy` has
    Wilson's. A share that is exactly 1 has a bootstrap without width; its interval is Wilson's for
    n faultless grids of n, those in which the share is defined: the chance of a wrong cell is at
    most the chance of a grid that has one. A total variation is never negative, so its bootstrap
    sits a little above the truth when that is near 0.
    """
    exact = int(np.count_nonzero(wrong_cells(truth, predicted) == 0))
    terms = _terms(truth, predicted)
    n, cells = len(truth), truth[0].size
    point = _statistics(terms.sum(axis=0, keepdims=True), cells * n)
    sums = resampled_sums(terms, bootstrap=bootstrap, seed=seed)
    intervals = percentile_intervals(_statistics(sums, cells * n), n)
    for name, grids in _grids_with(terms).items():
        if grids and point[name][0] == 1:
            intervals[name] = share_interval(grids, grids)
    intervals["exact_grid_accuracy"] = share_interval(exact, n)
    metrics: dict[str, Any] = {"n": n, "exact_grid_accuracy": exact / n, "per_class_accuracy": {}}
    for name, value in point.items():
        group, _, key = name.rpartition(".")
        if not np.isnan(value[0]):
            (metrics[group] if group else metrics)[key] = float(value[0])
    counts = {"true": terms[:, 10:20], "predicted": terms[:, 20:30]}
    metrics["colour_histogram"] = {
        name: {str(c): float(share) for c, share in enumerate(of.sum(axis=0) / (cells * n))}
        for name, of in counts.items()
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


def _terms(truth: Grids, predicted: Grids) -> Floats:
    """Sums over each grid that every statistic is made of, (n, 31).

    Ten columns each of hits, true and predicted cells by colour; cells non-black in both.
    """

    def by_colour(grids: Grids, where: npt.NDArray[np.bool_] | bool = True) -> list[Floats]:
        return [np.sum((grids == c) & where, axis=(1, 2)) for c in range(COLOURS)]

    overlap = np.sum((truth != BLACK) & (predicted != BLACK), axis=(1, 2))
    hits = by_colour(truth, truth == predicted)
    columns = [*hits, *by_colour(truth), *by_colour(predicted), overlap]
    return np.stack(columns, axis=1).astype(np.float64)


def _statistics(sums: Floats, cells: int) -> dict[str, Floats]:
    """Every metric from the sums of `_terms`: (b, 31) to {name: (b,)}, nan where undefined."""
    hits, true, predicted = sums[:, :10], sums[:, 10:20], sums[:, 20:30]
    overlap = sums[:, 30]
    true_foreground, predicted_foreground = true[:, 1:].sum(axis=1), predicted[:, 1:].sum(axis=1)
    pixel, baseline = hits.sum(axis=1) / cells, true[:, BLACK] / cells
    with np.errstate(divide="ignore", invalid="ignore"):
        per_class = hits / true
        return {
            "pixel_accuracy": pixel,
            "nonblack_accuracy": hits[:, 1:].sum(axis=1) / true_foreground,
            "all_black_baseline": baseline,
            "skill_score": np.where(baseline < 1, (pixel - baseline) / (1 - baseline), np.nan),
            "foreground_precision": overlap / predicted_foreground,
            "foreground_recall": overlap / true_foreground,
            "colour_histogram_tv": total_variation(true, predicted),
            "foreground_histogram_tv": total_variation(true[:, 1:], predicted[:, 1:]),
            **{f"per_class_accuracy.{c}": per_class[:, c] for c in range(COLOURS)},
        }


def _grids_with(terms: Floats) -> dict[str, int]:
    """Grids in which each share of cells has cells to be a share of."""
    true, predicted = terms[:, 10:20] > 0, terms[:, 20:30] > 0
    foreground = int(true[:, 1:].any(axis=1).sum())
    return {
        "pixel_accuracy": len(terms),
        "nonblack_accuracy": foreground,
        "foreground_recall": foreground,
        "foreground_precision": int(predicted[:, 1:].any(axis=1).sum()),
        **{f"per_class_accuracy.{c}": int(true[:, c].sum()) for c in range(COLOURS)},
    }
