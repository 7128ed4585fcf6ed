"""Training curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from genlab.evaluation.figures.style import figure_file

PANELS: Sequence[tuple[str, Mapping[str, str]]] = (
    (
        "Loss and its reconstruction term, {unit}",
        {"loss": "loss", "reconstruction_loss": "reconstruction"},
    ),
    (
        "KL, and β·KL as it enters the loss, {unit}",
        {"kl_divergence": "KL", "beta_kl": "β·KL"},
    ),
    (
        "Accuracy on validation grids",
        {"pixel_accuracy": "pixels", "exact_grid_accuracy": "grids"},
    ),
    ("PSNR of validation reconstructions, dB", {"psnr": "PSNR"}),
)
"""Panels of the training curves: title, and the logged names with their labels."""
WIDE = 100.0
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""


def draw_training_curves(
    path: str | Path, series: Mapping[str, Sequence[float]], unit: str
) -> None:
    """Draw the loss, the KL divergence and the quality of reconstructions over the epochs.

    series: {name: one value per epoch}, with the names that the trainer logs. A panel is left out
    where one of its series is missing. unit: of loss and KL.
    """
    panels = [panel for panel in PANELS if all(name in series for name in panel[1])]
    with figure_file(path, 2.35 * len(panels)) as figure:
        column = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
        for axes, (title, names) in zip(column, panels, strict=True):
            for style, (name, label) in zip(("-", "--"), names.items(), strict=False):
                axes.plot(range(1, len(series[name]) + 1), series[name], style, label=label)
            axes.set_title(title.format(unit=unit))
            if title.startswith("Accuracy"):
                axes.set_ylim(0, 1.05)
            else:
                axes.set_yscale(_choose_scale(np.concatenate([series[name] for name in names])))
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        column[-1].set_xlabel("epoch")


def _choose_scale(values: npt.NDArray[np.float64]) -> str:
    """Choose the scale of an axis for `values`; the loss of a density may be negative."""
    low = np.nanmin(values)
    high = np.nanmax(values)
    if low > 0:
        return "log" if high > WIDE * low else "linear"
    return "symlog" if high - low > WIDE else "linear"
