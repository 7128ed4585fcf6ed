"""Figures of images: sheets of tiles at whole pixels of the page, one a figure.

Images are uint8 (n, height, width, c), c 1 or 3. A tile repeats or leaves out whole pixels, so
that none is smoothed into its neighbour; a hairline shows where a white image ends.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.evaluation.figures.style import BLUE, INK, MUTED, RED, RULE, TEAL, drawn
from genlab.evaluation.figures.typeset import (
    DOTS,
    DPI,
    GAP,
    MARGIN,
    PAGE,
    leading,
    length,
    lines,
    same_lengths,
)

Images = npt.NDArray[np.uint8]

LARGEST = 168
"""Pixels of a tile where few images share a row: six times 28."""

PAIR_COLUMNS, SAMPLE_COLUMNS = 8, 12


def image_reconstructions(
    path: str | Path,
    truth: Images,
    predicted: Images,
    title: str,
    errors: Sequence[str] | None = None,
) -> None:
    """Each input over its output, in bands of up to eight pairs, and below them their errors."""
    page = _Page(title)
    notes = [""] * len(truth) if errors is None else errors
    _pairs(page, truth, predicted, ("input", "output"), notes)
    page.save(path)


def neighbours(
    path: str | Path, samples: Images, nearest: Images, distances: npt.ArrayLike, title: str
) -> None:
    """Each sample over its nearest training image; distances (n,): their RMSE, [0, 1] units."""
    notes = [f"RMSE {distance:.3f}" for distance in np.asarray(distances, dtype=np.float64)]
    page = _Page(title)
    _pairs(page, samples, nearest, ("sample", "nearest"), notes)
    page.save(path)


def image_samplers(
    path: str | Path, samples: Mapping[str, Images], captions: Mapping[str, str]
) -> None:
    """A block of images a sampler, its name and caption above; as many images for each.

    captions: {sampler: what is to be said of it}; a sampler without one shows its name alone.
    """
    if not samples:
        raise ValueError("no sampler to draw")
    counts = {name: len(_images(images, name)) for name, images in samples.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"samplers must show the same number of images, got {counts}")
    # Captions start in one column, right of the longest name.
    tab = MARGIN + round(max(length(name, 10, bold=True) for name in samples)) + 18
    page = _Page()
    for name, images in samples.items():
        top = page.bottom + (6 if page.bottom > MARGIN else 0)
        end = page.words(name, MARGIN, top, size=10, bold=True)
        caption, span = captions.get(name, ""), PAGE - MARGIN - tab
        end = max(end, page.words(caption, tab, top + 2, span=span, colour=MUTED))
        columns = _columns(len(images), SAMPLE_COLUMNS)
        _block(page, images, MARGIN, end + 2, columns, PAGE - 2 * MARGIN)
    page.save(path)


def traversals(
    path: str | Path, rows: Images, labels: Sequence[str], values: Sequence[float]
) -> None:
    """What one latent does: a row each, the latent's value above its column.

    rows: (r, steps, height, width, c); labels: r names; values: of the steps, in the latent's own
    units.
    """
    _strips(rows, "traversals")
    same_lengths("traversals", {"rows": len(rows), "labels": len(labels)})
    same_lengths("traversals", {"steps": rows.shape[1], "values": len(values)})
    head = "value of the latent"
    asked = [line for label in [*labels, head] for line in label.splitlines()]
    column = min(280, math.ceil(max(length(line, 9) for line in asked)))
    left = MARGIN + column + 28
    page = _Page()
    width = _tile_width(len(values), PAGE - MARGIN - left)
    words = [f"{value:.3g}".replace("-", "−") for value in values]
    every = math.ceil((max(length(word, 9) for word in words) + GAP) / (width + GAP))
    page.words(head, MARGIN, MARGIN, colour=MUTED)
    for index in range(0, len(words), every):
        page.words(words[index], left + index * (width + GAP) + width / 2, MARGIN, ha="center")
    page.bottom += 2
    for index, (label, row) in enumerate(zip(labels, rows, strict=True)):
        top = page.bottom + (GAP if index else 0)
        middle = top + _height(row.shape[1:], width) / 2
        height = leading(9) * len(lines(label, column, 9))
        page.words(label, MARGIN, max(top, middle - height / 2), span=column)
        _block(page, row, left, top, len(row), PAGE - MARGIN - left)
    page.save(path)


def interpolations(path: str | Path, rows: Images, title: str) -> None:
    """From one image to another, a row each, the two ends framed.

    rows: (r, steps, height, width, c).
    """
    _strips(rows, "interpolations")
    page, steps = _Page(title), rows.shape[1]
    width = _tile_width(steps, PAGE - 2 * MARGIN)
    page.words("from", MARGIN + width / 2, page.bottom, ha="center", colour=BLUE)
    if steps > 1:
        last = MARGIN + (steps - 1) * (width + GAP) + width / 2
        page.words("to", last, page.bottom - leading(9), ha="center", colour=BLUE)
    for index, row in enumerate(rows):
        top = page.bottom + (GAP + 2 if index else 4)
        ends = dict.fromkeys((0, steps - 1), BLUE)
        _block(page, row, MARGIN, top, steps, PAGE - 2 * MARGIN, ends)
    page.save(path)


def before_after(path: str | Path, before: Images, after: Images, titles: tuple[str, str]) -> None:
    """Images of a failure, left, beside those of its fix, right, each under its title."""
    page, middle = _Page(), 14
    span = (PAGE - 2 * MARGIN) // 2 - middle
    halves = [(before, MARGIN, RED), (after, PAGE - MARGIN - span, TEAL)]
    end = MARGIN
    for (_, left, colour), title in zip(halves, titles, strict=True):
        written = page.words(title, left, MARGIN, size=10, bold=True, span=span, colour=colour)
        end = max(end, written)
    most = max(len(_images(images, "before_after")) for images, _, _ in halves)
    for images, left, _ in halves:
        _block(page, images, left, end + 4, min(6, math.ceil(math.sqrt(most))), span)
    page.save(path)


class _Page:
    """Tiles and words at places of the page in pixels; what is put down last makes it taller."""

    def __init__(self, title: str = "") -> None:
        self.bottom: int = MARGIN
        self._tiles: list[tuple[int, int, Images, str, int]] = []
        self._words: list[tuple[float, float, str, dict[str, Any]]] = []
        if title:
            span = PAGE - 2 * MARGIN
            self.bottom = self.words(title, MARGIN, MARGIN, size=11, bold=True, span=span) + 4

    def words(
        self,
        text: str,
        x: float,
        y: float,
        *,
        size: int = 9,
        span: float = PAGE,
        bold: bool = False,
        colour: str = INK,
        **style: Any,
    ) -> int:
        """Write text from its top at y, broken into lines of `span` pixels; returns its end."""
        look = {"fontsize": size, "color": colour, "weight": "bold" if bold else "normal", **style}
        broken = lines(text, span, size, bold=bold)
        for index, line in enumerate(broken):
            # By baselines, not by boxes: a word without tall letters stands no higher.
            base = y + index * leading(size) + size * DOTS
            self._words.append((x, base, line, look))
        return self._reach(math.ceil(y) + len(broken) * leading(size))

    def upright(self, text: str, x: int, middle: float) -> None:
        """A word that runs upwards, its right edge at x."""
        style = {"fontsize": 9, "color": MUTED, "rotation": 90, "ha": "right", "va": "center"}
        self._words.append((x, middle, text, style))

    def tile(
        self, image: Images, x: int, y: int, width: int, frame: str = RULE, weight: int = 1
    ) -> int:
        """Put an image down, `width` pixels wide, and a frame around it; returns its end."""
        height = _height(image.shape, width)
        self._tiles.append((x, y, _scaled(image, height, width), frame, weight))
        return self._reach(y + height)

    def save(self, path: str | Path) -> None:
        """Draw everything on white."""
        height = self.bottom + MARGIN
        canvas = np.full((height, PAGE, 3), 255, dtype=np.uint8)
        for x, y, tile, frame, weight in self._tiles:
            rows, cols = tile.shape[:2]
            edge = (slice(y - weight, y + rows + weight), slice(x - weight, x + cols + weight))
            canvas[edge] = np.array([int(frame[i : i + 2], 16) for i in (1, 3, 5)], dtype=np.uint8)
            canvas[y : y + rows, x : x + cols] = tile
        # The backend cuts fractions of pixels off: a hair more keeps each row where it is.
        with drawn(path, math.nextafter(height / DPI, math.inf)) as figure:
            figure.set_layout_engine("none")  # everything has its place already
            axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
            axes.set(xlim=(0, PAGE), ylim=(height, 0))
            axes.set_axis_off()
            extent = (0.0, float(PAGE), float(height), 0.0)
            axes.imshow(canvas, extent=extent, aspect="auto", interpolation="nearest")
            for left, top, text, style in self._words:
                axes.text(left, top, text, parse_math=False, **style)

    def _reach(self, y: int) -> int:
        self.bottom = max(self.bottom, y)
        return y


def _pairs(
    page: _Page, above: Images, below: Images, names: tuple[str, str], notes: Sequence[str]
) -> None:
    """Bands of pairs, one image over the other, a note under each pair."""
    for images, name in ((above, names[0]), (below, names[1])):
        _images(images, name)
    same_lengths("pairs", {names[0]: len(above), names[1]: len(below), "notes": len(notes)})
    left, columns = MARGIN + leading(9), _columns(len(above), PAIR_COLUMNS)
    width = _tile_width(columns, PAGE - MARGIN - left)
    for start in range(0, len(above), columns):
        top = page.bottom + (10 if start else 0)
        for images, name in ((above, names[0]), (below, names[1])):
            band = images[start : start + columns]
            end = _block(page, band, left, top, columns, PAGE - MARGIN - left)
            page.upright(name, left - 4, (top + end) / 2)
            top = end + 4
        for index, note in enumerate(notes[start : start + columns]):
            centre = left + index * (width + GAP) + width / 2
            if note:
                page.words(note, centre, top - 2, size=8, span=width, colour=MUTED, ha="center")


def _block(
    page: _Page,
    images: Images,
    left: int,
    top: int,
    columns: int,
    span: int,
    framed: Mapping[int, str] | None = None,
) -> int:
    """Tiles in rows of `columns` that share `span` pixels; returns the end of the last row."""
    width = _tile_width(columns, span)
    height = _height(images.shape[1:], width)
    end = top
    for index, image in enumerate(images):
        row, col = divmod(index, columns)
        place = (left + col * (width + GAP), top + row * (height + GAP))
        colour = (framed or {}).get(index)
        end = page.tile(image, *place, width, colour or RULE, 4 if colour else 1)
    return end


def _columns(count: int, most: int) -> int:
    """Columns that fill their rows evenly: 9 images stand in 5 and 4, not in 8 and 1."""
    return -(-count // -(-count // most))


def _tile_width(columns: int, span: int) -> int:
    return max(8, min(LARGEST, (span - GAP * (columns - 1)) // columns))


def _height(shape: tuple[int, ...], width: int) -> int:
    return max(1, round(width * shape[0] / shape[1]))


def _scaled(image: Images, height: int, width: int) -> Images:
    """(height, width, 3): the image's own pixels, each repeated or left out."""
    rows = (np.arange(height) + 0.5) * image.shape[0] / height
    cols = (np.arange(width) + 0.5) * image.shape[1] / width
    tile = image[rows.astype(int)][:, cols.astype(int)]
    return np.broadcast_to(tile, (height, width, 3))


def _images(images: Images, what: str) -> Images:
    if not len(images):
        raise ValueError(f"{what}: no image to draw")
    if images.ndim != 4 or images.dtype != np.uint8 or images.shape[-1] not in (1, 3):
        found = f"{images.dtype} {images.shape}"
        raise ValueError(f"{what}: images must be uint8 (n, height, width, 1 or 3), got {found}")
    return images


def _strips(rows: Images, what: str) -> None:
    if rows.ndim != 5 or not rows.size:
        shape = "(rows, steps, height, width, c)"
        raise ValueError(f"{what} needs images of shape {shape}, none empty, got {rows.shape}")
    _images(rows[0], what)
