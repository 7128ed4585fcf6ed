"""Validity of sampled grids, and distances of their distribution to that of the data."""

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
"""Samples count only within these distances of the data and above this fraction of novelty:
tiny specks, or copies of training grids, would maximise the valid rate alone."""


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
    """Validity of sampled grids and their distances to the data, with 95 % intervals over samples.

    samples: (n, h, w); train_grids: (m, h, w); reference_objects: object table of the data
    (OBJECT_DTYPE); reference_counts: objects of each grid of the data, (k,). Returns

    - `valid_rate`: fraction that parse completely and have min_objects to max_objects;
      `legal_components`: fraction of the connected components that are legal shapes;
    - `count_tv`, `size_tv`, `colour_tv`: total variation to the data of the components per grid,
      the cells per component (legal or not) and the colours of the non-black cells;
    - `unique_and_novel_share` (neither a repeat of an earlier sample nor a training grid),
      `black_share`;
    - `counted`: whether the samples count by MAX_TV and MIN_NOVELTY;
    - `n`, `intervals`.

    A metric that is undefined, because there is no component, is left out. The interval of a
    distance is the measured distance plus and minus the 95 % quantile of the distances between the
    samples and their resamples. This quantile estimates how far the samples are from their
    distribution, which bounds the error by the triangle inequality: the interval covers at least as
    often as it claims, also at a distance of 0.
    """
    n = len(samples)
    terms, reference = _count_terms(samples, reference_objects, np.asarray(reference_counts))
    ends = np.cumsum([columns.shape[1] for columns in terms])[:-1]
    table = np.hstack(terms)
    total = table.sum(axis=0, keepdims=True)
    counts, sizes, colours, _ = np.split(total, ends, axis=1)
    point = _compute_metrics(total, ends, reference)
    sums = bootstrap_sums(table, bootstrap=bootstrap, seed=seed)
    resampled = _compute_metrics(sums, ends, (counts, sizes, colours[:, 1:]))
    intervals = percentile_intervals(resampled, n)
    for name in MAX_TV:
        distance = float(point[name][0])
        error = float(np.quantile(resampled[name], 0.95))
        intervals[name] |= {"low": max(distance - error, 0.0), "high": min(distance + error, 1.0)}
    metrics: dict[str, Any] = {"n": n}
    flags = {
        "unique_and_novel_share": _unique_and_novel(samples, train_grids),
        "valid_rate": is_valid(samples, min_objects=min_objects, max_objects=max_objects),
    }
    for name, flag in flags.items():
        metrics[name] = float(flag.mean())
        intervals[name] = wilson_interval(int(flag.sum()), n)
    metrics |= {name: float(value[0]) for name, value in point.items() if not np.isnan(value[0])}
    close = all(metrics[name] <= limit for name, limit in MAX_TV.items())
    metrics["counted"] = close and metrics["unique_and_novel_share"] >= MIN_NOVELTY
    return {**metrics, "intervals": intervals}


def _compute_metrics(
    sums: Floats, ends: npt.NDArray[np.int64], reference: Sequence[Floats]
) -> dict[str, Floats]:
    """Metrics, (b,) each, from sums of `_count_terms`, (b, columns), split at `ends`."""
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
    sample_keys = [grid.tobytes() for grid in samples]
    distinct = set(sample_keys)
    # Of the training grids, which may be many, only those that occur among the samples.
    taken = {key for key in (grid.tobytes() for grid in train_grids) if key in distinct}
    flags = np.zeros(len(samples), dtype=np.bool_)
    for index, key in enumerate(sample_keys):
        flags[index] = key not in taken
        taken.add(key)
    return flags


def _count_terms(
    samples: Grids, reference_objects: npt.NDArray[Any], reference_counts: npt.NDArray[Any]
) -> tuple[list[Floats], list[Floats]]:
    """Counts that `sample_metrics` sums over samples, (n, width) each, and those of the data.

    Both have histograms of the components per grid, the cells per component and the cells per
    colour (of the data without black), (1, width) each. Of samples there is also the number of
    legal components.
    """
    n = len(samples)
    components = find_components(samples)
    grid_of = components.objects["grid"].astype(np.int64)
    sizes = components.objects["cells"].astype(np.int64)
    reference_sizes = reference_objects["cells"]
    counts = np.bincount(grid_of, minlength=n)
    count_bins = max(counts.max(), reference_counts.max()) + 1
    size_bins = max(sizes.max(initial=0), reference_sizes.max()) + 1
    terms = [
        np.eye(count_bins)[counts],
        np.bincount(grid_of * size_bins + sizes, minlength=n * size_bins).reshape(n, size_bins),
        np.stack([(samples == c).sum(axis=(1, 2)) for c in range(10)], axis=1),
        np.bincount(grid_of[components.valid], minlength=n)[:, None],
    ]
    reference = [
        np.bincount(reference_counts, minlength=count_bins),
        np.bincount(reference_sizes, minlength=size_bins),
        np.bincount(reference_objects["colour"], weights=reference_sizes, minlength=10)[1:],
    ]
    return (
        [columns.astype(float) for columns in terms],
        [histogram[None].astype(float) for histogram in reference],
    )
