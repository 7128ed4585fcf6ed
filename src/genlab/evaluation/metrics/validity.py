"""Are sampled grids grids of the language, and are they spread as the data are?"""

from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.stats import Floats, percentile_intervals, resampled_sums, share_interval
from genlab.evaluation.metrics.reconstruction import total_variation
from genlab.grids.parser import Components, find_components, is_valid

Grids = npt.NDArray[np.uint8]

COUNT_TV, SIZE_TV, COLOUR_TV = 0.15, 0.10, 0.05
NOVELTY = 0.95
"""Samples count only within these distances of the data and above this share of novelty:
legality alone is won by tiny specks, and by copies."""


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

    - `valid_rate`: share that parse wholly and hold min_objects to max_objects;
      `legal_components`: share of the connected components that are legal shapes;
    - `count_tv`, `size_tv`, `colour_tv`: total variation from the data of the components a grid,
      the cells a component (legal or not) and the colours of the non-black cells;
    - `unique_share` (not a repeat of an earlier sample), `novel_share` (not a training grid),
      `unique_and_novel_share`, `black_share`;
    - `counted`: whether the distances and the novelty let these samples count, see the constants;
    - `n`, `intervals`.

    A number that is undefined (no component at all) is left out.
    """
    found = find_components(samples)
    counts = np.asarray(reference_counts)
    terms, reference, widths = _terms(samples, found, reference_objects, counts)
    n = len(samples)
    point = _statistics(terms.sum(axis=0, keepdims=True), reference, widths)
    sums = resampled_sums(terms, bootstrap=bootstrap, seed=seed)
    intervals = percentile_intervals(_statistics(sums, reference, widths), n)
    metrics: dict[str, Any] = {"n": n}
    for name, flags in _flags(samples, train_grids, min_objects, max_objects).items():
        metrics[name] = float(flags.mean())
        intervals[name] = share_interval(int(flags.sum()), n)
    metrics |= {name: float(value[0]) for name, value in point.items() if not np.isnan(value[0])}
    metrics["counted"] = (
        metrics["count_tv"] <= COUNT_TV
        and metrics["size_tv"] <= SIZE_TV
        and metrics["colour_tv"] <= COLOUR_TV
        and metrics["unique_and_novel_share"] >= NOVELTY
    )
    metrics["intervals"] = intervals
    return metrics


def _flags(
    samples: Grids, train_grids: Grids, min_objects: int, max_objects: int
) -> dict[str, npt.NDArray[np.bool_]]:
    """Properties of single samples, (n,) each: their shares have Wilson's intervals."""
    known = {grid.tobytes() for grid in train_grids}
    seen: set[bytes] = set()
    unique = np.zeros(len(samples), dtype=np.bool_)
    novel = np.zeros(len(samples), dtype=np.bool_)
    for index, grid in enumerate(samples):
        key = grid.tobytes()
        unique[index], novel[index] = key not in seen, key not in known
        seen.add(key)
    return {
        "valid_rate": is_valid(samples, min_objects=min_objects, max_objects=max_objects),
        "unique_share": unique,
        "novel_share": novel,
        "unique_and_novel_share": unique & novel,
    }


def _terms(
    samples: Grids,
    found: Components,
    reference_objects: npt.NDArray[Any],
    reference_counts: npt.NDArray[Any],
) -> tuple[Floats, list[Floats], list[int]]:
    """Histograms of each sample side by side, the data's histograms, and their widths.

    The three histograms (objects a grid, cells a component, colours of non-black cells) are
    followed by three columns: legal components, black cells, all cells.
    """
    n = len(samples)
    grid, sizes = found.objects["grid"].astype(np.int64), found.objects["cells"].astype(np.int64)
    counts = np.bincount(grid, minlength=n)
    top_count = int(max(counts.max(), reference_counts.max(initial=0))) + 1
    top_size = int(max(sizes.max(initial=0), reference_objects["cells"].max(initial=0))) + 1
    colours = np.stack([(samples == c).sum(axis=(1, 2)) for c in range(10)], axis=1)
    histograms = [
        np.eye(top_count)[counts],
        _histogram(grid, sizes, n, top_size),
        colours[:, 1:],
        np.bincount(grid[found.valid], minlength=n)[:, None],
        colours[:, :1],
        np.full((n, 1), samples[0].size),
    ]
    cells = reference_objects["cells"].astype(np.float64)
    reference: list[Floats] = [
        np.bincount(reference_counts, minlength=top_count).astype(np.float64),
        np.bincount(reference_objects["cells"], minlength=top_size).astype(np.float64),
        np.bincount(reference_objects["colour"], weights=cells, minlength=10)[1:].astype(float),
    ]
    widths = [int(part.shape[1]) for part in histograms]
    return np.hstack(histograms).astype(np.float64), reference, widths


def _histogram(rows: npt.NDArray[Any], values: npt.NDArray[Any], n: int, width: int) -> Floats:
    """How often each value occurs in each row, (n, width)."""
    flat = np.bincount(rows * width + values, minlength=n * width)
    return flat.reshape(n, width).astype(np.float64)


def _statistics(sums: Floats, reference: list[Floats], widths: list[int]) -> dict[str, Floats]:
    """Every metric that is a function of sums over samples: (b, columns) to {name: (b,)}."""
    counts, sizes, colours, is_legal, black, cells = np.split(sums, np.cumsum(widths)[:-1], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        legal_components = is_legal[:, 0] / sizes.sum(axis=1)
    return {
        "legal_components": legal_components,
        "count_tv": total_variation(counts, reference[0][None]),
        "size_tv": total_variation(sizes, reference[1][None]),
        "colour_tv": total_variation(colours, reference[2][None]),
        "black_share": black[:, 0] / cells[:, 0],
    }
