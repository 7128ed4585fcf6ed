"""Figures of grids: data sheet, reconstructions, samples."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from scipy import ndimage

from genlab.evaluation.figures.image_grids import (
    Images,
    Mosaic,
    draw_image_pairs,
    format_stats,
    save_mosaics,
)
from genlab.evaluation.figures.style import BLUE, INK, figure_file
from genlab.grids.palette import ARC_PALETTE, BLACK, COLOUR_NAMES, to_rgb
from genlab.grids.parser import Flags
from genlab.grids.shapes import Grids

Floats = npt.NDArray[np.float64]

PAIRS = 16
"""Number of grids in a figure of reconstructions."""
CELL = 8
"""Side of a cell in pixels."""
CELL_LINE = 74
"""Grey level of the lines between cells."""
VALID = (42, 140, 130)
INVALID = (194, 47, 61)
CHART_HEIGHT = 2.3
"""Height of a row of bar charts in inches."""


def draw_data_sheet(path: str | Path, grids: Grids, stats: Mapping[str, Any]) -> None:
    """Draw sample grids above bar charts of the distributions that they come from.

    stats: an entry that maps labels to fractions becomes a bar chart; numbers are in the title.
    """
    distributions = {name: value for name, value in stats.items() if isinstance(value, Mapping)}
    board = Mosaic(paint_grids(grids), columns=8, title=format_stats(stats))
    chart_rows = -(-len(distributions) // 2)
    heights = [board.height, *[CHART_HEIGHT] * chart_rows]
    with figure_file(path, board.height + CHART_HEIGHT * chart_rows) as figure:
        layout = figure.add_gridspec(1 + chart_rows, 2, height_ratios=heights)
        board.draw(figure.add_subplot(layout[0, :]))
        for index, (name, shares) in enumerate(distributions.items()):
            _draw_bars(figure.add_subplot(layout[1 + index // 2, index % 2]), name, shares)


def draw_reconstructions(
    path: str | Path, truth: Grids, predicted: Grids, title: str, margins: Floats | None = None
) -> None:
    """Draw PAIRS of the grids above their reconstructions; the title counts all that are not exact.

    Wrong cells are framed in white and counted below. margins: (n,), the smallest difference over
    the cells between the log probability of the right colour and that of the likeliest other one,
    in nats; with them the grids of the smallest margins are drawn, which wrong ones come before.
    Without them, those of the most wrong cells.
    """
    n = len(truth)
    wrong_cells = (truth != predicted).sum(axis=(1, 2))
    title += f": {np.count_nonzero(wrong_cells):,} of {n:,} are not exact"
    if margins is None:
        rows = np.argsort(-wrong_cells, kind="stable")[:PAIRS]
        notes = [f"{count} wrong" if count else "exact" for count in wrong_cells[rows]]
        title += "\nthose of the most wrong cells"
    else:
        rows = np.argsort(margins, kind="stable")[:PAIRS]
        notes = [
            f"{wrong_cells[row]} wrong" if wrong_cells[row] else f"{margins[row]:.2g} nats"
            for row in rows
        ]
        title += "\nthose of the smallest margins between the right colour and the next"
    outputs = paint_grids(predicted[rows], truth[rows] != predicted[rows])
    draw_image_pairs(path, paint_grids(truth[rows]), outputs, notes, title)


def draw_samples(path: str | Path, grids: Grids, valid: Flags, title: str) -> None:
    """Draw sampled grids; invalid ones have a thick red frame, valid ones a thin green one."""
    tiles = paint_grids(grids)
    for tile, is_valid in zip(tiles, valid, strict=True):
        thickness = 2 if is_valid else 6
        colour = VALID if is_valid else INVALID
        frame = np.ones(tile.shape[:2], dtype=bool)
        frame[thickness:-thickness, thickness:-thickness] = False
        tile[frame] = colour
    title += f": {int(np.sum(valid))} of these {len(grids)} are valid (thin green frames)"
    save_mosaics(path, [Mosaic(tiles, columns=8, title=title)])


def draw_colour_histograms(path: str | Path, histograms: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw the shares of the colours in grids beside those in their reconstructions.

    histograms: {title: {"true": shares by colour, "predicted": shares by colour}}, a panel each.
    Black, which most cells are, has its shares in the title.
    """
    black = str(BLACK)
    with figure_file(path, CHART_HEIGHT * len(histograms)) as figure:
        column = figure.subplots(len(histograms), 1, squeeze=False, sharex=True)[:, 0]
        for axes, (title, histogram) in zip(column, histograms.items(), strict=True):
            true = histogram["true"]
            predicted = histogram["predicted"]
            colours = [colour for colour in true if colour != black]
            positions = np.arange(len(colours))
            fill = [np.divide(ARC_PALETTE[int(colour)], 255) for colour in colours]
            outline = {"edgecolor": INK, "linewidth": 0.6}
            heights = [[shares[colour] for colour in colours] for shares in (true, predicted)]
            axes.bar(positions - 0.2, heights[0], 0.4, color=fill, label="true", **outline)
            axes.bar(
                positions + 0.2,
                heights[1],
                0.4,
                color=fill,
                hatch="////",
                label="predicted",
                **outline,
            )
            axes.set_xticks(positions, [COLOUR_NAMES[int(colour)] for colour in colours])
            axes.tick_params(labelbottom=True)
            axes.grid(axis="x", visible=False)
            axes.set_ylabel("share of cells")
            black_shares = (
                f"{100 * true[black]:.2f} % true, {100 * predicted[black]:.2f} % predicted"
            )
            axes.set_title(f"{title}; black {black_shares}")
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_grid_board(path: str | Path, grids: Grids, title: str) -> None:
    """Draw grids without frames."""
    save_mosaics(path, [Mosaic(paint_grids(grids), columns=8, title=title)])


def paint_grids(grids: Grids, wrong: Flags | None = None) -> Images:
    """Paint grids (n, h, w) as RGB images of CELL pixels per cell; `wrong` cells are framed."""
    tiles = to_rgb(grids).repeat(CELL, axis=1).repeat(CELL, axis=2)
    tiles[:, CELL - 1 : -1 : CELL] = tiles[:, :, CELL - 1 : -1 : CELL] = CELL_LINE
    if wrong is not None:
        marked = wrong.repeat(CELL, axis=1).repeat(CELL, axis=2)
        inside = ndimage.binary_erosion(marked, np.ones((1, 3, 3), dtype=bool), iterations=2)
        tiles[marked & ~inside] = 255  # white is no colour of the palette
    return tiles


def _draw_bars(axes: Axes, name: str, shares: Mapping[str, float]) -> None:
    """Draw bars of fractions; those of colours are in these colours."""
    fill: Any = BLUE
    if name.endswith("colours"):
        fill = [np.divide(ARC_PALETTE[int(colour)], 255) for colour in shares]
    labels = [str(label).replace("_", " ") for label in shares]
    positions = range(len(labels))
    axes.bar(positions, list(shares.values()), color=fill, edgecolor=INK, linewidth=0.5)
    axes.set_xticks(positions, labels)
    axes.tick_params(axis="x", labelsize=8, rotation=90 if len(labels) > 10 else 0)
    axes.grid(axis="x", visible=False)
    axes.set_title(f"{name}: share")
