"""Curves and scatters that go with images: codes in a plane, KL by latent, training, rate."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import patheffects
from matplotlib.axes import Axes

from genlab.evaluation.figures.charts import _curve, _label, _wide_range
from genlab.evaluation.figures.style import BLUE, INK, ORANGE, RULE, SERIES, WIDTH, drawn
from genlab.evaluation.figures.typeset import DPI, MARGIN, PAGE, length, lines, same_lengths

Plane = npt.NDArray[np.float64]

MOST_CLASSES = 12
"""Classes that a reader still tells apart by colour and name."""
CLASS_COLOURS = (*SERIES, INK, "#3f9fd8", "#c9a400", "#8f3f71")
CLASS_MARKERS = "osD^vP*Xph<>"


def projection(
    path: str | Path,
    points: npt.ArrayLike,
    labels: npt.ArrayLike,
    names: Sequence[str],
    title: str,
    other: npt.ArrayLike | None = None,
    other_name: str = "draws of the prior",
) -> None:
    """Codes in two dimensions, coloured by class, each class named at its median point.

    points: (n, 2); labels: (n,), indices into names; other: (m, 2), drawn below in grey. With more
    than MOST_CLASSES classes the density of the points is shown instead of them.
    """
    at, classes = _plane(points, "points"), np.asarray(labels)
    same_lengths("projection", {"points": len(at), "labels": len(classes)})
    if classes.min() < 0 or classes.max() >= len(names):
        raise ValueError(f"labels must be indices into the {len(names)} names")
    below = at[:0] if other is None else _plane(other, "other")
    dense = len(names) > MOST_CLASSES
    limits = _limits(at, below, ratio=1.25 if dense else 1.45)
    with drawn(path, 5.8) as figure:
        axes = figure.subplots()
        if len(below):
            outside = int(((below < limits[:, 0]) | (below > limits[:, 1])).any(axis=1).sum())
            rest = f" ({outside:,} of {len(below):,} outside)" if outside else ""
            look: dict[str, Any] = {"color": "#c3c9cf", "label": other_name + rest}
            axes.scatter(below[:, 0], below[:, 1], s=5, lw=0, **look)
            axes.legend(loc="lower right", markerscale=3, frameon=True, edgecolor=RULE)
        if dense:
            cells = axes.hexbin(
                at[:, 0], at[:, 1], gridsize=70, mincnt=1, bins="log", cmap="viridis_r", lw=0
            )
            figure.colorbar(cells, ax=axes, label="images a cell", pad=0.01)
        else:
            # One scatter in the order of the data: no class is painted over all the others.
            colours = [CLASS_COLOURS[label] for label in classes]
            axes.scatter(at[:, 0], at[:, 1], s=6, c=colours, lw=0, alpha=0.7)
            _name_classes(axes, at, classes, names, limits)
        axes.set(xlim=limits[0], ylim=limits[1], xticks=[], yticks=[])
        axes.set_aspect("equal", anchor="NW")
        axes.grid(visible=False)
        axes.spines[:].set_visible(True)
        axes.spines[:].set_color(RULE)
        axes.set_title("\n".join(lines(title, PAGE - 4 * MARGIN, 11, bold=True)))


def kl_by_latent(
    path: str | Path, kl_per_latent: Sequence[float], active_threshold: float = 0.01
) -> None:
    """KL of each latent from its prior, nats, the largest first, and how many pass a threshold."""
    values = np.sort(np.asarray(kl_per_latent, dtype=np.float64))[::-1]
    if not len(values) or not np.isfinite(values).all():
        raise ValueError(f"kl_by_latent needs finite KLs of at least one latent, got {len(values)}")
    active = int((values > active_threshold).sum())
    positive, top = values[values > 0], max(float(values[0]), active_threshold)
    with drawn(path, 3.0) as figure:
        axes = figure.subplots()
        axes.stairs(values, np.arange(len(values) + 1) + 0.5, fill=True, color=BLUE, alpha=0.35)
        axes.stairs(values, np.arange(len(values) + 1) + 0.5, color=BLUE, lw=1.4, baseline=None)
        logarithmic = _decades(positive.tolist()) > 1.5
        if logarithmic:
            axes.set_yscale("log")
            # What lies far below the threshold is all the same.
            axes.set_ylim(max(positive[-1], active_threshold / 100) / 2, 2 * top)
        else:
            axes.set_ylim(0, 1.05 * max(top, 1.5 * active_threshold))
        if logarithmic or active_threshold > 0.02 * top:  # else it is one with the axis
            look: dict[str, Any] = {"color": ORANGE, "lw": 1.2, "ls": "--"}
            axes.axhline(active_threshold, label=f"threshold, {active_threshold:g} nats", **look)
            axes.legend(loc="upper right")
        axes.set_xlim(0.5, len(values) + 0.5)
        axes.set(xlabel="latents, the largest KL first", ylabel="KL, nats an image")
        axes.set_title(
            f"KL from N(0, I) by latent: {active} of {len(values)} above"
            f" {active_threshold:g} nats, {values.sum():.4g} nats together"
        )


def image_curves(path: str | Path, series: Mapping[str, Sequence[float]]) -> None:
    """Loss and reconstruction, KL and β·KL, and PSNR of reconstructions, over the epochs.

    series: {name: one value an epoch}; names as the trainer logs them. A panel whose names are
    all absent is left out. Raises ValueError when none can be drawn.
    """
    panels = [
        ("Loss and its reconstruction part", "nats an image", ["loss", "reconstruction_loss"]),
        ("KL, and β·KL as it stands in the loss", "nats an image", ["kl_divergence", "beta_kl"]),
        ("PSNR of validation reconstructions", "dB", ["psnr"]),
    ]
    shown = [
        (title, unit, [n for n in names if len(series.get(n, ()))]) for title, unit, names in panels
    ]
    shown = [panel for panel in shown if panel[-1]]
    if not shown:
        raise ValueError(f"no curve to draw among {sorted(series)}")
    with drawn(path, 2.35 * len(shown)) as figure:
        column = figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0]
        for axes, (title, unit, names) in zip(column, shown, strict=True):
            for index, name in enumerate(names):
                # Dashed, so that it does not hide the first curve where the two agree.
                dashes = "--" if index else "-"
                _curve(axes, series[name], _label(name), SERIES[index], dashes=dashes)
            _wide_range(axes, [value for name in names for value in series[name]])
            axes.set(ylabel=unit)
            axes.set_title(title)
            if names != ["psnr"]:
                axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        column[-1].set_xlabel("epoch")
        figure.align_ylabels()


def rate_distortion(path: str | Path, points: Sequence[Mapping[str, Any]]) -> None:
    """Distortion, IWAE bound and Fréchet distance against the rate, along a sweep over β.

    points: {beta, rate (KL, nats), distortion (MSE), neg_iwae_nats, frechet}; a point with a `seed`
    is another seed of a β of the sweep. A value that is absent or not finite is left out, a panel
    without a value too. Raises ValueError when none can be drawn.
    """
    panels = [("distortion", "MSE"), ("neg_iwae_nats", "−IWAE, nats"), ("frechet", "Fréchet")]
    shown = [(key, unit) for key, unit in panels if any(_drawable(p, key) for p in points)]
    if not shown:
        raise ValueError(f"no point of rate and distortion to draw among {len(points)}")
    with drawn(path, 2.3 * len(shown) + 0.5) as figure:
        column = figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0]
        for axes, (key, unit) in zip(column, shown, strict=True):
            _along_rate(axes, [point for point in points if _drawable(point, key)], key)
            axes.set(ylabel=unit)
        rates = [float(p["rate"]) for p in points for key, _ in shown if _drawable(p, key)]
        if max(rates) > 30 * max(1.0, min(rates)):
            # Below a nat all is collapse: linear, so that it takes no decades and 0 has a place.
            column[-1].set_xscale("symlog", linthresh=1.0, linscale=0.4)
            column[-1].set_xlim(-0.2 if min(rates) < 1 else min(rates) / 1.4, 1.5 * max(rates))
        column[-1].set_xlabel("rate: KL, nats an image")
        column[0].set_title("Along the sweep over β")
        figure.align_ylabels()
        # On the title's line, where no point can be.
        column[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, borderaxespad=0.2)


def _along_rate(axes: Axes, points: Sequence[Mapping[str, Any]], key: str) -> None:
    """One panel: the sweep as a line whose points bear their β, other seeds as open diamonds."""
    sweep = sorted((p for p in points if p.get("seed") is None), key=lambda p: float(p["rate"]))
    seeds = [p for p in points if p.get("seed") is not None]
    if sweep:
        label = "a run, beside it its β"
        axes.plot(*_column(sweep, key), "o-", ms=5.5, color=BLUE, label=label)
    if seeds:
        betas = ", ".join(f"{beta:g}" for beta in sorted({float(p["beta"]) for p in seeds}))
        look: dict[str, Any] = {"ls": "", "marker": "D", "ms": 8, "mfc": "none", "mew": 1.4}
        axes.plot(*_column(seeds, key), color=ORANGE, label=f"other seeds of β {betas}", **look)
    shown = sweep or seeds
    halo = [patheffects.withStroke(linewidth=2.5, foreground="white")]
    slopes = np.diff([float(point[key]) for point in shown])
    for index, point in enumerate(shown):
        # Right of its point, above or below, where the line does not go.
        rises = len(slopes) > 0 and slopes[min(index, len(slopes) - 1)] > 0
        axes.annotate(
            f"{float(point['beta']):g}", (point["rate"], point[key]), (5, -13 if rises else 6),
            textcoords="offset points", fontsize=9, path_effects=halo,
        )  # fmt: skip
    axes.margins(0.06, 0.2)
    if _decades([float(point[key]) for point in points]) > 1.5:
        axes.set_yscale("log")


def _column(points: Sequence[Mapping[str, Any]], key: str) -> tuple[list[float], list[float]]:
    return [float(p["rate"]) for p in points], [float(p[key]) for p in points]


def _drawable(point: Mapping[str, Any], key: str) -> bool:
    values = (point.get("rate"), point.get(key))
    return all(value is not None and math.isfinite(value) for value in values)


def _decades(values: Sequence[float]) -> float:
    """Powers of ten between the least and the greatest value; 0 where one is not positive."""
    if not values or min(values) <= 0:
        return 0.0
    return math.log10(max(values) / min(values))


def _plane(points: npt.ArrayLike, what: str) -> Plane:
    at = np.asarray(points, dtype=np.float64)
    if at.ndim != 2 or at.shape[1] != 2 or not len(at) or not np.isfinite(at).all():
        raise ValueError(f"projection: {what} must be finite numbers (n, 2), got {at.shape}")
    return at


def _limits(points: Plane, below: Plane, ratio: float) -> Plane:
    """[[left, right], [low, high]], `ratio` as wide as high: all points, 99 % of those below."""
    inner = np.percentile(below, (0.5, 99.5), axis=0) if len(below) else points
    seen = np.concatenate([points, inner])
    low, high = seen.min(axis=0), seen.max(axis=0)
    size = np.maximum(1.06 * (high - low), 1e-9)
    size = np.maximum(size, [ratio * size[1], size[0] / ratio])
    centre = (low + high) / 2
    return np.stack([centre - size / 2, centre + size / 2], axis=1)


def _name_classes(
    axes: Axes, points: Plane, classes: npt.NDArray[Any], names: Sequence[str], limits: Plane
) -> None:
    """A marker at each class's median and its name beside it, moved until no two names overlap."""
    present = [int(label) for label in np.unique(classes)]
    medians = np.array([np.median(points[classes == label], axis=0) for label in present])
    inch = (limits[0, 1] - limits[0, 0]) / (WIDTH - 0.2)
    widths = [length(names[label], 9, bold=True) / DPI for label in present]
    sizes = np.array([[width + 0.05, 0.19] for width in widths])
    starts = _apart(medians / inch + np.array([0.1, 0.0]), sizes) * inch
    halo = [patheffects.withStroke(linewidth=3, foreground="white")]
    for label, median, start in zip(present, medians, starts, strict=True):
        colour, marker = CLASS_COLOURS[label], CLASS_MARKERS[label]
        axes.plot(*zip(median, start, strict=True), color=INK, lw=0.8, zorder=4)
        size = 13 if marker == "*" else 9
        axes.plot(*median, marker, ms=size, mfc=colour, mec="white", mew=1.2, zorder=5)
        axes.text(
            start[0], start[1], names[label], ha="left", va="center", color=colour, weight="bold",
            fontsize=9, path_effects=halo, zorder=6,
        )  # fmt: skip


def _apart(corners: Plane, sizes: Plane) -> Plane:
    """Boxes (n, 2) by their left edge and middle, moved up and down until none lies on another."""
    at = corners + sizes * [0.5, 0.0]
    for _ in range(200):
        still = True
        for i in range(len(at)):
            for j in range(i):
                overlap = (sizes[i] + sizes[j]) / 2 - np.abs(at[i] - at[j])
                if (overlap > 1e-6).all():
                    push = overlap[1] / 2 * (1.0 if at[i, 1] >= at[j, 1] else -1.0)
                    at[i, 1], at[j, 1], still = at[i, 1] + push, at[j, 1] - push, False
        if still:
            break
    moved: Plane = at - sizes * [0.5, 0.0]
    return moved
