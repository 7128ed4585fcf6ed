"""Are sampled grids grids of the language, and are they spread as the data are?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.stats import Floats, bootstrap_sums, percentile_intervals, wilson_interval
from genlab.evaluation.metrics.reconstruction import total_variation
from genlab.grids.parser import find_components, is_valid
from genlab.grids.shapes import Grids

MAX_TV = {"count_tv": 0.15, "size_tv": 0.10, "colour_tv": 0.05}
MIN_NOVELTY = 0.95
"""Samples count only within these distances of the data and above this share of novelty:
validity alone is won by tiny specks, and by copies."""


def sample_metrics(
    samples: Grids,
    train_grids: Grids,
    reference_objects: npt.NDArray[Any],
    reference_counts: npt.ArrayLike,
    *,
    min_objects: int = 1,
    max_objects: int = 6,
    bootstrap: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Validity of sampled grids, each number with its 95 % interval over the samples.

    samples: (n, h, w); train_grids: (m, h, w); reference_objects: the data's object table
    (OBJECT_DTYPE); reference_counts: (k,) objects of each of the data's grids. Returns

    - `valid_rate`: share that parse completely and hold min_objects to max_objects;
      `legal_components`: share of the connected components that are legal shapes;
    - `count_tv`, `size_tv`, `colour_tv`: total variation from the data of the components per grid,
      the cells per component (legal or not) and the colours of the non-black cells;
    - `unique_and_novel_share` (neither a repeat of an earlier sample nor a training grid),
      `black_share`;
    - `counted`: whether the distances and the novelty let these samples count, see the constants;
    - `n`, `intervals`.

    A number that is undefined (no component at all) is left out. The interval of a distance is the
    measured one plus and minus the 95 % quantile of the distances of resamples from the samples.
    These estimate how far the samples are from their distribution, which by the triangle inequality
    bounds the error: the interval covers at least as often as it claims, at a distance of 0 too.
    """
    n = len(samples)
    terms, reference = _histograms(samples, reference_objects, np.asarray(reference_counts))
    ends = np.cumsum([part.shape[1] for part in terms])[:-1]
    table = np.hstack(terms)
    total = table.sum(axis=0, keepdims=True)
    counts, sizes, colours, _ = np.split(total, ends, axis=1)
    point = _statistics(total, ends, reference)
    sums = bootstrap_sums(table, bootstrap=bootstrap, seed=seed)
    resampled = _statistics(sums, ends, (counts, sizes, colours[:, 1:]))
    intervals = percentile_intervals(resampled, n)
    for name in MAX_TV:
        found, error = float(point[name][0]), float(np.quantile(resampled[name], 0.95))
        intervals[name] |= {"low": max(found - error, 0.0), "high": min(found + error, 1.0)}
    metrics: dict[str, Any] = {"n": n}
    flags = {
        "unique_and_novel_share": _unique_and_novel(samples, train_grids),
        "valid_rate": is_valid(samples, min_objects=min_objects, max_objects=max_objects),
    }
    for name, flag in flags.items():
        metrics[name] = float(flag.mean())
        intervals[name] = wilson_interval(int(flag.sum()), n)
    metrics |= {name: float(value[0]) for name, value in point.items() if not np.isnan(value[0])}
    close = all(metrics[name] <= most for name, most in MAX_TV.items())
    metrics["counted"] = close and metrics["unique_and_novel_share"] >= MIN_NOVELTY
    return {**metrics, "intervals": intervals}


def _statistics(
    sums: Floats, ends: npt.NDArray[np.int64], reference: Sequence[Floats]
) -> dict[str, Floats]:
    """Sums of `_histograms`, (b, columns) cut at `ends`, against a reference: {name: (b,)}."""
    counts, sizes, colours, legal = np.split(sums, ends, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        legal_components = legal[:, 0] / sizes.sum(axis=1)
    return {
        "legal_components": legal_components,
        "count_tv": total_variation(counts, reference[0]),
        "size_tv": total_variation(sizes, reference[1]),
        "colour_tv": total_variation(colours[:, 1:], reference[2]),
        "black_share": colours[:, 0] / colours.sum(axis=1),
    }


def _unique_and_novel(samples: Grids, train_grids: Grids) -> npt.NDArray[np.bool_]:
    """Whether each sample is neither a repeat of an earlier one nor a training grid, (n,)."""
    drawn = {grid.tobytes() for grid in samples}
    known = {key for key in (grid.tobytes() for grid in train_grids) if key in drawn}
    flags = np.zeros(len(samples), dtype=np.bool_)
    for index, key in enumerate(grid.tobytes() for grid in samples):
        flags[index] = key not in known
        known.add(key)
    return flags


def _histograms(
    samples: Grids, reference_objects: npt.NDArray[Any], reference_counts: npt.NDArray[Any]
) -> tuple[list[Floats], list[Floats]]:
    """What `sample_metrics` sums: of each sample, (n, width) each, and of the data, (1, width).

    Components per grid, cells per component, cells per colour (the data's without black); of
    samples also the number of legal components.
    """
    n, found = len(samples), find_components(samples)
    grid, sizes = found.objects["grid"].astype(np.int64), found.objects["cells"].astype(np.int64)
    counts, known = np.bincount(grid, minlength=n), reference_objects["cells"]
    most = max(counts.max(), reference_counts.max()) + 1
    largest = max(sizes.max(initial=0), known.max()) + 1
    parts = [
        np.eye(most)[counts],
        np.bincount(grid * largest + sizes, minlength=n * largest).reshape(n, largest),
        np.stack([(samples == c).sum(axis=(1, 2)) for c in range(10)], axis=1),
        np.bincount(grid[found.valid], minlength=n)[:, None],
    ]
    reference = [
        np.bincount(reference_counts, minlength=most),
        np.bincount(known, minlength=largest),
        np.bincount(reference_objects["colour"], weights=known, minlength=10)[1:],
    ]
    return [part.astype(float) for part in parts], [part[None].astype(float) for part in reference]
