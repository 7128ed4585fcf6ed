"""Figures of numbers: training curves, histograms, sweeps over experiments."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from genlab.evaluation.figures.style import MUTED, SERIES, figure_file
from genlab.grids.palette import ARC_PALETTE, COLOUR_NAMES

CURVES: Mapping[str, Mapping[str, str]] = {
    "Loss and its reconstruction term": {"loss": "loss", "reconstruction_loss": "reconstruction"},
    "KL, and β·KL as it enters the loss": {"kl_divergence": "KL", "beta_kl": "β·KL"},
    "Accuracy on validation grids": {"pixel_accuracy": "pixels", "exact_grid_accuracy": "grids"},
    "PSNR of validation reconstructions": {"psnr": "PSNR"},
}
"""Panels of the training curves: the logged names and their labels."""


def training_curves(path: str | Path, series: Mapping[str, Sequence[float]], unit: str) -> None:
    """Loss, KL and quality of reconstructions over the epochs.

    series: {name: one value per epoch}, names as the trainer logs them; a panel without values is
    left out. unit: of loss and KL.
    """
    shown = {
        title: {name: label for name, label in names.items() if len(series.get(name, ()))}
        for title, names in CURVES.items()
    }
    shown = {title: names for title, names in shown.items() if names}
    with figure_file(path, 2.35 * len(shown)) as figure:
        column = figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0]
        for axes, (title, names) in zip(column, shown.items(), strict=True):
            for style, (name, label) in zip(("-", "--"), names.items(), strict=False):
                axes.plot(range(1, len(series[name]) + 1), series[name], style, label=label)
            _set_log_scale(axes, [value for name in names for value in series[name]])
            axes.set_title(title)
            axes.set_ylabel("dB" if "psnr" in names else "" if "pixel_accuracy" in names else unit)
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        column[-1].set_xlabel("epoch")
        figure.align_ylabels()


def loss_over_baselines(
    path: str | Path, curves: Mapping[str, Sequence[float]], reference: tuple[str, float]
) -> None:
    """Reconstruction loss of several runs over the epochs; the first one is the run itself.

    reference: the name and the loss of an answer without a model, in nats per grid.
    """
    with figure_file(path, 3.6) as figure:
        axes = figure.subplots()
        name, loss = reference
        axes.axhline(loss, color=MUTED, lw=1.2, ls="--")
        last = 1.3 * max(map(len, curves.values()))
        look: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9}
        axes.annotate(name, (last, loss), (-4, 4), color=MUTED, ha="right", **look)
        for index, (name, values) in enumerate(curves.items()):
            colour, end = SERIES[index], (len(values), values[-1])
            axes.plot(range(1, len(values) + 1), values, color=colour, lw=1.2 if index else 2.4)
            axes.plot(*end, "o", ms=4, color=colour)
            # Below its point: the flattest curve ends close under the reference.
            axes.annotate(name, end, (6, -8), color=colour, **look)
        axes.set_yscale("log")
        axes.set_xlim(0, last)
        axes.set(xlabel="epoch", ylabel="nats per grid")
        axes.set_title("Reconstruction loss on validation grids")


def colour_histogram(
    path: str | Path, true_hist: Mapping[str, float], predicted_hist: Mapping[str, float]
) -> None:
    """Shares of the ten colours, true beside predicted; black has its own panel.

    Both {"0".."9": share of all cells}.
    """
    with figure_file(path, 3.0) as figure:
        left, right = figure.subplots(1, 2, width_ratios=[1, 6])
        for axes, colours in ((left, [0]), (right, list(range(1, 10)))):
            at = np.arange(len(colours))
            fill = [np.divide(ARC_PALETTE[c], 255) for c in colours]
            for histogram, shift, hatch in ((true_hist, -0.2, ""), (predicted_hist, 0.2, "////")):
                values = [100 * histogram[str(colour)] for colour in colours]
                # Hatches take the edge's colour; white shows on every fill.
                axes.bar(at + shift, values, 0.38, color=fill, hatch=hatch, edgecolor="white")
            axes.set_xticks(at, [COLOUR_NAMES[colour] for colour in colours])
            axes.grid(axis="x", visible=False)
        left.set_ylabel("share of all cells, %")
        right.set_title("Colours: true (plain) beside predicted (hatched)")


def _set_log_scale(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis, linear around 0, where the values span more than a decade."""
    positive = [value for value in values if math.isfinite(value) and value > 0]
    if not positive or min(values) < 0 or max(positive) / min(positive) <= 10:
        return
    if min(values) > 0:
        axes.set_yscale("log")
    else:
        axes.set_yscale("symlog", linthresh=max(min(positive), max(positive) * 1e-4))
