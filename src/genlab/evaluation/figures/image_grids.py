"""Figures of images: reconstructions, samples, interpolations.

Images are uint8 arrays of shape (n, height, width, channels) with 1 or 3 channels.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from genlab.evaluation.figures.style import MUTED, WIDTH, figure_file

Images = npt.NDArray[np.uint8]

PAIR_COLUMNS = 8
SAMPLE_COLUMNS = 12
SHEET_COLUMNS = 16
LINE = 0.24
"""Height of a line of text in inches."""


class Mosaic(NamedTuple):
    """Images in rows of `columns`, with labels below the columns and beside the rows."""

    images: Images
    columns: int
    title: str = ""
    column_labels: Sequence[str] = ()
    row_labels: Sequence[str] = ()

    @property
    def pitch(self) -> tuple[int, int]:
        """Distance in pixels from one image to the next, vertically and horizontally."""
        height, width = self.images.shape[1:3]
        gap = max(2, width // 14)
        return height + gap, width + gap

    @property
    def canvas(self) -> Images:
        """All images in one, (height, width, c), as wide as PAIR_COLUMNS images or more."""
        down, across = self.pitch
        count, height, width, channels = self.images.shape
        gaps = ((0, -count % self.columns), (0, down - height), (0, across - width), (0, 0))
        padded = np.pad(self.images, gaps, constant_values=255)
        rows = padded.reshape(-1, self.columns, down, across, channels).swapaxes(1, 2)
        page = rows.reshape(-1, self.columns * across, channels)
        margin = max(0, PAIR_COLUMNS - self.columns) * across
        return np.pad(page, ((0, 0), (0, margin), (0, 0)), constant_values=255)

    @property
    def height(self) -> float:
        """Height of the mosaic on a page, in inches."""
        label_lines = (line for label in self.row_labels for line in label.splitlines())
        label_width = 0.3 + 0.07 * max(map(len, label_lines), default=0)
        height, width = self.canvas.shape[:2]
        text_lines = len(self.title.splitlines()) + any(self.column_labels)
        return float((WIDTH - label_width) * height / width + LINE * text_lines + 0.1)

    def draw(self, axes: Axes) -> None:
        """Draw the mosaic on axes that show nothing else."""
        axes.imshow(self.canvas, cmap="gray", vmin=0, vmax=255)
        down, across = self.pitch
        axes.set_xticks((np.arange(len(self.column_labels)) + 0.5) * across, self.column_labels)
        axes.set_yticks((np.arange(len(self.row_labels)) + 0.5) * down, self.row_labels)
        axes.tick_params(length=0, labelcolor=MUTED)
        axes.set_anchor("NW")
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.set_title(self.title)


def save_mosaics(path: str | Path, mosaics: Sequence[Mosaic]) -> None:
    """Save mosaics below one another."""
    heights = [mosaic.height for mosaic in mosaics]
    with figure_file(path, max(2.0, sum(heights))) as figure:
        column = figure.subplots(len(mosaics), 1, squeeze=False, height_ratios=heights)[:, 0]
        for mosaic, axes in zip(mosaics, column, strict=True):
            mosaic.draw(axes)


def make_bands(title: str, rows: Mapping[str, Images], notes: Sequence[str]) -> list[Mosaic]:
    """Arrange several pictures per item below one another, in bands of eight items.

    rows: {row label: (n, h, w, c)}. notes: text below each item.
    """
    bands = (slice(i, i + PAIR_COLUMNS) for i in range(0, len(notes), PAIR_COLUMNS))
    return [
        Mosaic(
            np.concatenate([images[band] for images in rows.values()]),
            columns=len(notes[band]),
            title="" if band.start else title,
            column_labels=notes[band],
            row_labels=list(rows),
        )
        for band in bands
    ]


def draw_image_pairs(
    path: str | Path, inputs: Images, outputs: Images, notes: Sequence[str], title: str
) -> None:
    """Draw inputs above their outputs in bands of eight pairs, with a note below each pair."""
    save_mosaics(path, make_bands(title, {"input": inputs, "output": outputs}, notes))


def draw_image_samplers(path: str | Path, samples: Mapping[str, Images]) -> None:
    """Draw the samples of each sampler. samples: {title: images}."""
    save_mosaics(path, [Mosaic(images, SAMPLE_COLUMNS, title) for title, images in samples.items()])


def draw_image_sheet(
    path: str | Path, images: Images, stats: Mapping[str, Any], title: str
) -> None:
    """Draw images of a dataset below the numbers of `stats`."""
    save_mosaics(path, [Mosaic(images, SHEET_COLUMNS, title=f"{title}\n{format_stats(stats)}")])


def draw_image_walks(
    path: str | Path, rows: Images, title: str, column_labels: Sequence[str]
) -> None:
    """Draw interpolations as rows. rows: (r, steps, height, width, c)."""
    images = rows.reshape(-1, *rows.shape[2:])
    save_mosaics(path, [Mosaic(images, rows.shape[1], title, column_labels)])


def format_stats(stats: Mapping[str, Any]) -> str:
    """Format the numbers of `stats` with their names, four per line."""
    entries = []
    for name, value in stats.items():
        if isinstance(value, int):
            entries.append(f"{name.replace('_', ' ')} {value:,}")
        elif isinstance(value, float):
            entries.append(f"{name.replace('_', ' ')} {value:.4g}")
    lines = (entries[start : start + 4] for start in range(0, len(entries), 4))
    return "\n".join(" · ".join(line) for line in lines)
