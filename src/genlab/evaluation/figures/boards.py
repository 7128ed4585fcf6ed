"""Figures that show grids: each grid is a tile of a board, a cell is one unit of the axes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Rectangle

from genlab.evaluation.figures.style import BLUE, INK, MUTED, RED, TEAL, WIDTH, drawn
from genlab.grids.palette import ARC_PALETTE, to_rgb

Grids = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Place = tuple[int, int]

GAP = 2
"""Cells between two tiles."""
BAND = 2.1
"""Inches of a band of pairs: two tiles, the line below them, the space to the next."""


def data_sheet(path: str | Path, grids: Grids, stats: Mapping[str, Any]) -> None:
    """Sample grids (64 fit well) over the data's distributions.

    stats: every entry that maps labels to numbers becomes a bar chart under its own name; numbers
    stand in the title. Colour numbers as labels are painted in their colour.
    """
    distributions = {name: value for name, value in stats.items() if isinstance(value, Mapping)}
    columns = min(8, len(grids))
    rows = -(-len(grids) // columns)
    charts = -(-len(distributions) // 2)
    board = WIDTH * rows / columns
    with drawn(path, board + 1.9 * charts + 0.3) as figure:
        grid = figure.add_gridspec(1 + charts, 2, height_ratios=[board, *[1.9] * charts])
        axes = figure.add_subplot(grid[0, :])
        _board(axes, grids, _places(len(grids), columns, grids.shape[1:]))
        axes.set_title(_facts(stats))
        for index, (name, shares) in enumerate(distributions.items()):
            _bars(figure.add_subplot(grid[1 + index // 2, index % 2]), name, shares)


def reconstructions(path: str | Path, truth: Grids, predicted: Grids, title: str) -> None:
    """Each input over its output, wrong cells outlined in white; 16 pairs fill the width twice."""
    rows, _ = _pair_layout(len(truth))
    with drawn(path, BAND * rows + 0.35) as figure:
        _pairs(figure.add_subplot(), truth, predicted, title)


def samples(path: str | Path, grids: Grids, legal: Flags, title: str) -> None:
    """Sampled grids; illegal ones have a thick red frame and a cross, legal ones a thin frame."""
    columns = min(8, len(grids))
    rows = -(-len(grids) // columns)
    with drawn(path, WIDTH * rows / columns + 0.5) as figure:
        axes = figure.add_subplot()
        places = _places(len(grids), columns, grids.shape[1:], gap=GAP + 1)
        _board(axes, grids, places)
        height, width = grids.shape[1:]
        for (row, col), is_legal in zip(places, legal, strict=True):
            colour, weight = (TEAL, 1.2) if is_legal else (RED, 3.0)
            corner = (col - 0.5, row - 0.5)
            axes.add_patch(Rectangle(corner, width, height, fill=False, ec=colour, lw=weight))
            if not is_legal:
                _cross(axes, row, col + width - 1)
        axes.set_title(title)
        shown = f"{int(np.sum(legal))} of these {len(grids)} are wholly legal; "
        axes.set_xlabel(shown + "a red frame with a cross marks the others", color=MUTED)


def image_sheet(
    path: str | Path, images: Grids, stats: Mapping[str, Any], title: str, columns: int = 16
) -> None:
    """Images, uint8 (n, height, width, 1 or 3), in rows of `columns`; numbers of stats below them.

    A small image is drawn in its own pixels, none smoothed into its neighbour.
    """
    columns = min(columns, len(images))
    count, height, width, _ = images.shape
    places = _places(count, columns, (height, width))
    bottom = max(row for row, _ in places) + height
    right = max(col for _, col in places) + width
    canvas = np.full((bottom, right, 3), 255, dtype=np.uint8)
    for (row, col), image in zip(places, images, strict=True):
        canvas[row : row + height, col : col + width] = np.broadcast_to(image, (height, width, 3))
    facts = _facts(stats)
    words = 0.45 + 0.2 * len(facts.splitlines())
    with drawn(path, max(2.0, WIDTH * bottom / right + words)) as figure:
        axes = figure.add_subplot()
        axes.imshow(canvas, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.set_title(title)
        axes.set_xlabel(facts, color=MUTED)


def _facts(stats: Mapping[str, Any]) -> str:
    numbers = {
        name: value
        for name, value in stats.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    facts = [f"{_words(name)} {_short(value)}" for name, value in numbers.items()]
    lines = [" · ".join(facts[start : start + 4]) for start in range(0, len(facts), 4)]
    return "\n".join(lines)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _short(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _bars(axes: Axes, name: str, shares: Mapping[str, float]) -> None:
    """Bars of shares: upright where the labels are short, lying where they are words."""
    labels, values = [str(label) for label in shares], [float(v) for v in shares.values()]
    coloured = "colour" in name.lower() and all(
        label.isdigit() and int(label) < 10 for label in labels
    )
    fill: Any = [np.divide(ARC_PALETTE[int(c)], 255) for c in labels] if coloured else BLUE
    edge = INK if coloured else "none"
    if max(map(len, labels), default=0) <= 3:
        axes.bar(range(len(labels)), values, color=fill, edgecolor=edge, linewidth=0.5)
        step = -(-len(labels) // 14)
        axes.set_xticks(range(0, len(labels), step), labels[::step])
        axes.grid(axis="x", visible=False)
    else:
        axes.barh(range(len(labels)), values, color=fill, edgecolor=edge, linewidth=0.5)
        axes.set_yticks(range(len(labels)), [_words(label) for label in labels], fontsize=8)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
    axes.set_title(f"{_words(name)}: share")


def _places(count: int, columns: int, shape: tuple[int, ...], gap: int = GAP) -> list[Place]:
    """Top left cells of `count` tiles in rows of `columns`."""
    height, width = shape
    return [
        ((index // columns) * (height + gap), (index % columns) * (width + gap))
        for index in range(count)
    ]


def _board(axes: Axes, grids: Grids, places: Sequence[Place]) -> None:
    """Paint the tiles with thin lines between their cells; the axes show nothing else."""
    height, width = grids.shape[1:]
    bottom = max(row for row, _ in places) + height
    right = max(col for _, col in places) + width
    canvas = np.full((bottom, right, 3), 255, dtype=np.uint8)
    lines: list[list[tuple[float, float]]] = []
    for (row, col), rgb in zip(places, to_rgb(grids), strict=True):
        canvas[row : row + height, col : col + width] = rgb
        top, left = row - 0.5, col - 0.5
        lines += [[(left, top + i), (left + width, top + i)] for i in range(1, height)]
        lines += [[(left + i, top), (left + i, top + height)] for i in range(1, width)]
    axes.imshow(canvas, interpolation="nearest")
    axes.add_collection(LineCollection(lines, colors="#4a4a4a", linewidths=0.25))
    axes.set(xticks=[], yticks=[], xlim=(-1, right), ylim=(bottom, -1))
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _cross(axes: Axes, row: int, col: int) -> None:
    """A cross in a red disc at the tile's upper right corner."""
    axes.plot(col, row, "o", ms=8.5, mfc=RED, mec="white", mew=0.8)
    axes.plot(col, row, "x", ms=4, mec="white", mew=1.5)


def _pair_layout(count: int) -> tuple[int, int]:
    """(bands, pairs a band) for `count` pairs."""
    columns = min(8, max(1, count))
    return -(-count // columns), columns


def _pairs(axes: Axes, truth: Grids, predicted: Grids, title: str) -> None:
    """Bands of inputs over outputs, wrong cells outlined, the number of them below."""
    height, width = truth.shape[1:]
    _, columns = _pair_layout(len(truth))
    band = 2 * height + 1 + 5
    tops = [
        ((index // columns) * band, (index % columns) * (width + GAP))
        for index in range(len(truth))
    ]
    below = [(row + height + 1, col) for row, col in tops]
    _board(axes, np.concatenate([truth, predicted]), tops + below)
    wrong = truth != predicted
    for (row, col), flags in zip(below, wrong, strict=True):
        _outline(axes, row, col, flags)
        count = int(flags.sum())
        text, colour = (f"{count} wrong", RED) if count else ("exact", TEAL)
        centre = col + width / 2 - 0.5
        axes.text(centre, row + height + 0.4, text, ha="center", va="top", fontsize=9, color=colour)
    for row in sorted({row for row, _ in tops}):
        for offset, text in ((0, "input"), (height + 1, "output")):
            axes.text(
                -1.5, row + offset + height / 2, text, rotation=90, ha="right", va="center",
                fontsize=9, color=MUTED,
            )  # fmt: skip
    axes.set_ylim(max(row for row, _ in below) + height + 3.5, -1)
    axes.set_title(title)


def _outline(axes: Axes, row: int, col: int, flags: Flags) -> None:
    """A white line with a black core around each patch of flagged cells.

    White is no colour of the palette, and the core shows on light neighbours.
    """
    framed = np.pad(flags, 1)
    lines: list[list[tuple[float, float]]] = []
    for r, c in np.argwhere(framed[1:, :] != framed[:-1, :]):
        y = row + r - 0.5
        lines.append([(col + c - 1.5, y), (col + c - 0.5, y)])
    for r, c in np.argwhere(framed[:, 1:] != framed[:, :-1]):
        x = col + c - 0.5
        lines.append([(x, row + r - 1.5), (x, row + r - 0.5)])
    for colour, width in (("white", 2.4), ("black", 0.7)):
        axes.add_collection(
            LineCollection(lines, colors=colour, linewidths=width, capstyle="projecting", zorder=3)
        )
