"""Figures of images: reconstructions, samples, traversals, nearest neighbours.

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

PAIR_COLUMNS, SAMPLE_COLUMNS = 8, 12
LINE = 0.24
"""Inches that a line of text takes."""


class Mosaic(NamedTuple):
    """Images in rows of `columns`, with labels below its columns and beside its rows."""

    images: Images
    columns: int
    title: str = ""
    column_labels: Sequence[str] = ()
    row_labels: Sequence[str] = ()
    caption: str = ""

    @property
    def padding(self) -> int:
        """Pixels between two images."""
        return max(2, int(self.images.shape[2]) // 14)

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width in pixels; few images are not drawn larger than those of a full row."""
        count, height, width, _ = self.images.shape
        rows, columns = -(-count // self.columns), max(self.columns, PAIR_COLUMNS)
        return (
            rows * (height + self.padding) + self.padding,
            columns * (width + self.padding) + self.padding,
        )

    @property
    def height(self) -> float:
        """Inches that the mosaic takes on a page."""
        span = WIDTH - (0.3 + 0.07 * max(map(len, self.row_labels), default=0))
        lines = bool(self.title) + any(self.column_labels) + len(self.caption.splitlines())
        return span * self.shape[0] / self.shape[1] + LINE * lines + 0.1

    def draw(self, axes: Axes) -> None:
        """Draw the mosaic on axes that show nothing else."""
        # torch takes seconds to import, and the charts do without it.
        import torch
        from torchvision.utils import make_grid

        pixels = torch.tensor(np.moveaxis(self.images, -1, 1))
        # A blank last image, outside of the axes' limits: make_grid() does not pad a single one.
        pixels = torch.cat([pixels, torch.full_like(pixels[:1], 255)])
        canvas = make_grid(pixels, nrow=self.columns, padding=self.padding, pad_value=255)
        axes.imshow(canvas.permute(1, 2, 0).numpy())
        axes.set(xlim=(-0.5, self.shape[1] - 0.5), ylim=(self.shape[0] - 0.5, -0.5))
        height, width = (size + self.padding for size in self.images.shape[1:3])
        middles = (np.arange(len(self.column_labels)) + 0.5) * width
        axes.set_xticks(middles, self.column_labels)
        middles = (np.arange(len(self.row_labels)) + 0.5) * height
        axes.set_yticks(middles, self.row_labels)
        axes.tick_params(length=0, labelcolor=MUTED)
        axes.set_anchor("NW")
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.set_title(self.title)
        axes.set_xlabel(self.caption, color=MUTED)


def save_mosaics(path: str | Path, mosaics: Sequence[Mosaic], title: str = "") -> None:
    """Save mosaics one below the other."""
    heights = [mosaic.height for mosaic in mosaics]
    with figure_file(path, max(2.0, sum(heights) + LINE * bool(title))) as figure:
        column = figure.subplots(len(mosaics), 1, squeeze=False, height_ratios=heights)[:, 0]
        for mosaic, axes in zip(mosaics, column, strict=True):
            mosaic.draw(axes)
        if title:
            column[0].set_title(title)


def save_pairs(
    path: str | Path,
    above: Images,
    below: Images,
    names: tuple[str, str],
    notes: Sequence[str],
    title: str,
) -> None:
    """Save images over their counterparts in bands of eight pairs, with a note below each pair."""
    bands = [slice(start, start + PAIR_COLUMNS) for start in range(0, len(above), PAIR_COLUMNS)]
    save_mosaics(
        path,
        [
            Mosaic(
                np.concatenate([above[band], below[band]]),
                columns=len(above[band]),
                column_labels=notes[band],
                row_labels=names,
            )
            for band in bands
        ],
        title,
    )


def image_reconstructions(
    path: str | Path, truth: Images, predicted: Images, title: str, errors: Sequence[str]
) -> None:
    """Test images over their reconstructions, each pair's error below it."""
    save_pairs(path, truth, predicted, ("input", "output"), errors, title)


def neighbours(
    path: str | Path, samples: Images, nearest: Images, distances: npt.ArrayLike, title: str
) -> None:
    """Samples over their nearest training images; distances: (n,) RMSE of levels in [0, 1]."""
    notes = [f"RMSE {distance:.3f}" for distance in np.asarray(distances, dtype=np.float64)]
    save_pairs(path, samples, nearest, ("sample", "nearest"), notes, title)


def image_samplers(
    path: str | Path, samples: Mapping[str, Images], captions: Mapping[str, str]
) -> None:
    """Samples of each sampler under its name and caption."""
    mosaics = [
        Mosaic(images, SAMPLE_COLUMNS, title=f"{name}: {captions[name]}")
        for name, images in samples.items()
    ]
    save_mosaics(path, mosaics)


def image_sheet(
    path: str | Path, images: Images, stats: Mapping[str, Any], title: str, columns: int = 16
) -> None:
    """Images in rows of `columns`, with the numbers of `stats` below them."""
    save_mosaics(path, [Mosaic(images, columns, caption=facts(stats))], title)


def traversals(
    path: str | Path, rows: Images, labels: Sequence[str], values: Sequence[float]
) -> None:
    """What moving along a direction of the latents does.

    rows: (r, steps, height, width, c); labels: r names; values: of the steps.
    """
    steps = [f"{value:.3g}".replace("-", "−") for value in values]
    mosaic = Mosaic(rows.reshape(-1, *rows.shape[2:]), len(steps), "", steps, labels)
    save_mosaics(path, [mosaic], "Decoded along principal directions of the codes")


def interpolations(path: str | Path, rows: Images, title: str) -> None:
    """From one image to another; rows: (r, steps, height, width, c)."""
    steps = rows.shape[1]
    ends = ["from", *[""] * (steps - 2), "to"]
    save_mosaics(path, [Mosaic(rows.reshape(-1, *rows.shape[2:]), steps, "", ends)], title)


def facts(stats: Mapping[str, Any]) -> str:
    """The numbers of `stats` by name, four to a line."""
    numbers = {
        name: value
        for name, value in stats.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    words = [
        f"{name.replace('_', ' ')} {f'{value:,}' if isinstance(value, int) else f'{value:.4g}'}"
        for name, value in numbers.items()
    ]
    return "\n".join(" · ".join(words[start : start + 4]) for start in range(0, len(words), 4))
