"""Figures that show numbers: curves, histograms, tables of colours, points with intervals."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from genlab.evaluation.figures.style import BLUE, INK, MUTED, ORANGE, SERIES, drawn
from genlab.grids.palette import ARC_PALETTE, COLOUR_NAMES

Point = tuple[float, float, float]
"""A value with its interval: (value, low, high)."""


def colour_histogram(
    path: str | Path, true_hist: Mapping[str, float], predicted_hist: Mapping[str, float]
) -> None:
    """Shares of the ten colours, true beside predicted; black has a panel of its own.

    Both {"0".."9": share of all cells}.
    """
    with drawn(path, 3.0) as figure:
        left, right = figure.subplots(1, 2, width_ratios=[1, 6])
        for axes, colours in ((left, [0]), (right, list(range(1, 10)))):
            at = np.arange(len(colours))
            fill = [np.divide(ARC_PALETTE[c], 255) for c in colours]
            pairs = ((true_hist, -0.2, ""), (predicted_hist, 0.2, "////"))
            for histogram, shift, hatch in pairs:
                values = [100 * histogram[str(colour)] for colour in colours]
                axes.bar(at + shift, values, 0.38, color=fill, edgecolor="none")
                # A black bar hides black hatching; a white edge is drawn over the fill.
                axes.bar(at + shift, values, 0.38, fill=False, hatch=hatch, edgecolor="white")
                axes.bar(at + shift, values, 0.38, fill=False, edgecolor=INK, linewidth=0.6)
            axes.set_xticks(at, [COLOUR_NAMES[colour] for colour in colours])
            axes.grid(axis="x", visible=False)
        left.set_ylabel("share of all cells, %")
        right.set_title("Colours: true (plain) beside predicted (hatched)")


def training_curves(path: str | Path, series: Mapping[str, Sequence[float]]) -> None:
    """Loss and reconstruction, KL and β·KL, and accuracies, over the epochs.

    series: {name: one value an epoch}; names as the trainer logs them. A panel whose names are
    all absent is left out. Raises ValueError when none can be drawn.
    """
    panels = [
        ("Loss and its reconstruction part", ["loss", "reconstruction_loss"]),
        ("KL, and β·KL as it stands in the loss", ["kl_divergence", "beta_kl"]),
        ("Accuracy on validation grids", ["pixel_accuracy", "exact_grid_accuracy"]),
    ]
    shown = [(title, [n for n in names if len(series.get(n, ()))]) for title, names in panels]
    shown = [(title, names) for title, names in shown if names]
    if not shown:
        raise ValueError(f"no curve to draw among {sorted(series)}")
    with drawn(path, 2.35 * len(shown)) as figure:
        for axes, (title, names) in zip(
            figure.subplots(len(shown), 1, squeeze=False)[:, 0], shown, strict=True
        ):
            for index, name in enumerate(names):
                # Dashed, so that it does not hide the first curve where the two agree.
                dashes = "--" if index else "-"
                _curve(axes, series[name], _label(name), SERIES[index], dashes=dashes)
            _wide_range(axes, [value for name in names for value in series[name]])
            if "accuracy" not in names[0]:
                axes.set_ylabel("nats a grid")
            axes.set_title(title)
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.set_xlabel("epoch")


def loss_over_baselines(path: str | Path, runs: Mapping[str, Sequence[float]]) -> None:
    """Reconstruction loss of several runs over the epochs; the first one is the run itself."""
    with drawn(path, 3.6) as figure:
        axes = figure.subplots()
        for index, (name, values) in enumerate(runs.items()):
            width = 2.6 if index == 0 else 1.4
            _curve(axes, values, name, SERIES[index % len(SERIES)], width=width)
        axes.set_yscale("log")
        axes.set(xlabel="epoch", ylabel="reconstruction loss, nats a grid")
        axes.set_title("Reconstruction loss over that of the baseline runs")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def colour_confusion(path: str | Path, matrix: npt.ArrayLike) -> None:
    """Per cent of each true colour's cells (row) that got each colour (column). (10, 10) counts."""
    counts = np.asarray(matrix, dtype=np.float64)
    totals = counts.sum(axis=1, keepdims=True)
    shares = 100 * np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    with drawn(path, 4.9) as figure:
        axes = figure.subplots()
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=100, aspect="auto")
        for (row, col), share in np.ndenumerate(shares):
            if counts[row, col]:
                ink = "white" if share > 55 else INK
                axes.text(
                    col, row, _percent(share), ha="center", va="center", fontsize=8, color=ink
                )
        axes.set_xticks(range(10), COLOUR_NAMES)
        axes.set_yticks(range(10), COLOUR_NAMES)
        axes.set(
            xlabel="predicted colour", ylabel="true colour", xlim=(-0.95, 9.5), ylim=(9.95, -0.5)
        )
        for colour, rgb in enumerate(ARC_PALETTE):
            fill = np.divide(rgb, 255)
            axes.add_patch(Rectangle((-0.9, colour - 0.4), 0.3, 0.8, color=fill))
            axes.add_patch(Rectangle((colour - 0.4, 9.6), 0.8, 0.3, color=fill))
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.set_title("Per cent of each true colour's cells; empty: not one cell")


def accuracy_by_group(
    path: str | Path, kinds: Mapping[str, Point], counts: Mapping[Any, Point]
) -> None:
    """Accuracy with its interval by shape kind and by object count: {group: (value, low, high)}."""
    with drawn(path, 0.27 * max(len(kinds), len(counts)) + 1.1) as figure:
        left, right = figure.subplots(1, 2, width_ratios=[3, 2], sharex=True)
        _lying_points(left, {name.replace("_", " "): point for name, point in kinds.items()})
        _lying_points(right, {_objects(count): point for count, point in counts.items()})
        left.set_title("By shape kind")
        right.set_title("By object count")
        for axes in (left, right):
            axes.set_xlabel("accuracy, %")


def capacity_curve(
    path: str | Path, points: Sequence[tuple[int, float, float, float]], entropy_nats: float
) -> None:
    """Exact-grid accuracy against the number of latents, beside what the grids hold.

    points: (latent_dim, exact, low, high). The upper axis is the entropy shared among the latents.
    """
    bits = entropy_nats / math.log(2)
    ordered = sorted(points)
    dims = [point[0] for point in ordered]
    with drawn(path, 3.7) as figure:
        axes = figure.subplots()
        _upright_points(axes, ordered)
        axes.set_xscale("log", base=2)
        axes.set_xticks(dims, [str(dim) for dim in dims])
        axes.set(xlabel="latents", ylabel="exact grids, %")
        upper = axes.secondary_xaxis("top")
        upper.set_xticks(dims, [f"{bits / dim:.2g}" for dim in dims])
        upper.set_xlabel(
            "bits that each latent must carry: "
            f"a grid holds {bits:.0f} bits ({entropy_nats:.1f} nats)"
        )
        axes.minorticks_off()


def beta_skill(path: str | Path, points: Sequence[tuple[float, float, float, float]]) -> None:
    """Skill over the all-black answer against β: (beta_max, skill, low, high), β = 0 included."""
    ordered = sorted(points)
    betas = [point[0] for point in ordered]
    positive = [beta for beta in betas if beta > 0]
    with drawn(path, 3.2) as figure:
        axes = figure.subplots()
        _upright_points(axes, ordered, scale=1)
        if positive:
            axes.set_xscale("symlog", linthresh=min(positive), linscale=0.7)
        axes.set_xticks(betas, [f"{beta:g}" for beta in betas])
        axes.minorticks_off()
        axes.axhline(0, color=ORANGE, lw=1.2, ls="--")
        axes.text(betas[0], 0, "all-black answer", color=ORANGE, va="bottom", fontsize=9)
        axes.set(xlabel="β", ylabel="skill: 0 all black, 1 exact")
        axes.set_title("Skill of reconstruction against β")


def _objects(count: Any) -> str:
    return f"{count} object" if str(count) == "1" else f"{count} objects"


def _curve(
    axes: Axes,
    values: Sequence[float],
    label: str,
    colour: str,
    *,
    width: float = 1.8,
    dashes: str = "-",
) -> None:
    epochs = range(1, len(values) + 1)
    axes.plot(epochs, values, color=colour, lw=width, ls=dashes, label=label)
    axes.plot(len(values), values[-1], "o", ms=4, color=colour)


def _label(name: str) -> str:
    return {
        "loss": "loss",
        "reconstruction_loss": "reconstruction",
        "kl_divergence": "KL",
        "beta_kl": "β·KL",
        "pixel_accuracy": "cells",
        "exact_grid_accuracy": "whole grids",
    }.get(name, name)


def _wide_range(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis (linear around 0) where the values span more than two decades."""
    sizes = [value for value in values if math.isfinite(value) and value > 0]
    if not sizes or min(values) < 0 or max(sizes) / min(sizes) <= 100:
        return
    if min(values) > 0:
        axes.set_yscale("log")
    else:
        axes.set_yscale("symlog", linthresh=max(min(sizes), max(sizes) * 1e-4))


def _percent(share: float) -> str:
    """Never rounds an error away, nor up to 100."""
    if share < 0.1:
        return "<0.1"
    if 99.9 < share < 100:
        return ">99.9"
    return f"{share:.1f}" if share < 100 else "100"


def _errors(points: Sequence[Point], scale: float) -> npt.NDArray[np.float64]:
    """Distances to the two ends of the intervals, never negative, (2, n)."""
    value, low, high = (scale * np.array(column) for column in zip(*points, strict=True))
    errors: npt.NDArray[np.float64] = np.maximum([value - low, high - value], 0)
    return errors


def _lying_points(axes: Axes, groups: Mapping[str, Point]) -> None:
    at = np.arange(len(groups))
    points = list(groups.values())
    values = [100 * point[0] for point in points]
    axes.errorbar(
        values, at, xerr=_errors(points, 100), fmt="o", ms=5, color=BLUE, ecolor=MUTED, capsize=2.5
    )
    axes.set_yticks(at, list(groups))
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def _upright_points(
    axes: Axes, points: Sequence[tuple[float, float, float, float]], scale: float = 100
) -> None:
    at = [point[0] for point in points]
    values = [scale * point[1] for point in points]
    errors = _errors([point[1:] for point in points], scale)
    axes.errorbar(at, values, yerr=errors, fmt="o-", ms=5, color=BLUE, ecolor=MUTED, capsize=3)
    for x, y in zip(at, values, strict=True):
        shift = 7 if y >= 0 else -15
        axes.annotate(
            f"{y:.4g}", (x, y), (0, shift), textcoords="offset points", ha="center", fontsize=9
        )
    axes.margins(y=0.14)
