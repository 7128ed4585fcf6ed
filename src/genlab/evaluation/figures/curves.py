"""Training curves: the loss with its terms, the KL, and the quality of reconstructions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from genlab.evaluation.figures.style import MUTED, figure_file

Series = Mapping[str, Sequence[float]]
Lines = Mapping[str, str]
"""Names of series, with their labels."""

PANEL_HEIGHT = 2.35
"""Height of a panel in inches."""
LINE_STYLES: Sequence[Mapping[str, Any]] = (
    {"linestyle": "-", "linewidth": 3.2, "alpha": 0.5},  # stays visible below a line that covers it
    {"linestyle": "--"},
    {"linestyle": "-."},
    {"linestyle": ":"},
)
"""Styles of the lines of a panel."""
JOINT = "joint phase begins"
FROZEN = "autoencoder frozen"
BEST = "best epoch"
MARK_STYLES: Mapping[str, Mapping[str, Any]] = {
    JOINT: {"linewidth": 1.1, "linestyle": ":"},
    FROZEN: {"linewidth": 1.1, "linestyle": "--"},
    BEST: {"linewidth": 1.1, "linestyle": "-"},
}
"""Styles of the vertical lines at marked epochs, by event."""
QUALITY: Mapping[str, Lines] = {
    "Accuracy on validation items": {
        "pixel_accuracy": "cells",
        "exact_grid_accuracy": "grids",
    },
    "PSNR of validation reconstructions, dB": {"psnr": "PSNR"},
}
WIDE = 30.0
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""


def draw_training_curves(
    path: str | Path, series: Series, unit: str, marks: Mapping[str, float] | None = None
) -> None:
    """Draw the validation loss with its terms, the KL, and the quality over the epochs.

    series: {name: one value per epoch}, with the names that the trainer logs; the terms add up to
    the loss. unit: of loss and KL. marks: {event: epoch}, see `mark_epochs`. A panel of quality is
    left out where one of its series is missing.
    """
    marks = marks or {}
    # During the delay p(z) is N(0, I), not the learned prior.
    prior = " (to N(0, I) before the joint phase)" if JOINT in marks else ""
    panels = {
        f"Validation loss and its terms, {unit}": {"loss": "loss", **list_terms(series)},
        f"KL divergence{prior}, {unit}": list_divergences(series),
        **{
            title: names
            for title, names in QUALITY.items()
            if all(name in series for name in names)
        },
    }
    with figure_file(path, PANEL_HEIGHT * len(panels)) as figure:
        column = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
        for axes, (title, names) in zip(column, panels.items(), strict=True):
            for style, (name, label) in zip(LINE_STYLES, names.items(), strict=False):
                epochs = range(1, len(series[name]) + 1)
                axes.plot(epochs, series[name], label=label, **style)
            axes.set_title(title)
            if title.startswith("Accuracy"):
                axes.set_ylim(0, 1.05)
            else:
                _set_scale(axes, np.concatenate([series[name] for name in names]))
            for event, epoch in marks.items():
                legend_entry = event if axes is column[0] else None
                axes.axvline(epoch, color=MUTED, label=legend_entry, **MARK_STYLES[event])
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        column[-1].set_xlabel("epoch")
        column[-1].xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def mark_epochs(phases: Mapping[str, int], best_epoch: int, epochs: int) -> dict[str, float]:
    """Mark where phases begin and the best epoch, {event: epoch}; what did not occur is left out.

    phases: fields of `Phases`. epochs: number of epochs that were run. A phase begins between two
    epochs, so half an epoch after the last one before it.
    """
    events = {JOINT: phases["delay"], FROZEN: phases["joint"]}
    marks = {name: last + 0.5 for name, last in events.items() if 0 < last < epochs}
    return {**marks, BEST: float(best_epoch)}


def list_terms(series: Series) -> Lines:
    """List the terms of the training loss, which is their sum, with their labels.

    The focal loss takes the place of the negative log-likelihood.
    """
    labels = {
        "focal_loss": "focal loss",
        "reconstruction_loss": "reconstruction",
        "auxiliary_loss": "auxiliary term",
        "kl_loss": label_kl_loss(series),
    }
    if "focal_loss" in series:
        del labels["reconstruction_loss"]
    return {name: label for name, label in labels.items() if name in series}


def list_divergences(series: Series) -> Lines:
    """List the KL and its term of the loss, one line where both are equal in every epoch."""
    kl = series["kl_divergence"]
    label = label_kl_loss(series)
    if np.allclose(kl, series["kl_loss"], rtol=1e-3, equal_nan=True):
        return {"kl_divergence": f"KL = {label}"}
    return {"kl_divergence": "KL", "kl_loss": label}


def label_kl_loss(series: Series) -> str:
    """Label the KL's term of the loss; free bits take effect where it exceeds beta times the KL."""
    has_free_nats = np.greater(series["kl_loss"], np.multiply(series["beta_kl"], 1 + 1e-3)).any()
    return "β·max(KL, free nats)" if has_free_nats else "β·KL"


def _set_scale(axes: Axes, values: npt.NDArray[np.float64]) -> None:
    """Set the scale of the vertical axis; the loss of a density may be negative.

    It is linear for values that differ by less than the factor WIDE, else logarithmic, around 0 up
    to the decade of the smallest magnitude only.
    """
    finite = values[np.isfinite(values)]
    magnitudes = np.abs(finite[finite != 0])
    if not len(magnitudes) or magnitudes.max() <= WIDE * magnitudes.min():
        return
    if len(magnitudes) == len(values) and finite.min() > 0:
        axes.set_yscale("log")
    else:
        axes.set_yscale("symlog", linthresh=10.0 ** np.floor(np.log10(magnitudes.min())))
