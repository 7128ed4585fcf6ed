"""Figures of images: sheets of tiles at whole pixels of the page, and the curves that go with them.

Images are uint8 (n, height, width, c), c 1 or 3. A tile repeats or leaves out whole pixels, so
that none is smoothed into its neighbour; a hairline shows where a white image ends.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from genlab.measure.figures.charts import _curve, _label, _wide_range
from genlab.measure.figures.style import (
    BLUE,
    INK,
    MUTED,
    ORANGE,
    RED,
    RULE,
    SERIES,
    STYLE,
    TEAL,
    WIDTH,
    drawn,
)

Images = npt.NDArray[np.uint8]
Plane = npt.NDArray[np.float64]

DPI = int(STYLE["savefig.dpi"])
DOTS = DPI / 72
"""Pixels of a point of the type size."""
PAGE = int(WIDTH * DPI)
MARGIN, GAP = 12, 8
LARGEST = 168
"""Pixels of a tile where few images share a row: six times 28."""
PAIR_COLUMNS, SAMPLE_COLUMNS = 8, 12
MOST_CLASSES = 12
"""Classes that a reader still tells apart by colour and name."""
CLASS_COLOURS = (*SERIES, INK, "#3f9fd8", "#c9a400", "#8f3f71")
CLASS_MARKERS = "osD^vP*Xph<>"


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
    tab = MARGIN + round(max(_length(name, 10, bold=True) for name in samples)) + 18
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
    _lengths("traversals", {"rows": len(rows), "labels": len(labels)})
    _lengths("traversals", {"steps": rows.shape[1], "values": len(values)})
    head = "value of the latent"
    lines = [line for label in [*labels, head] for line in label.splitlines()]
    column = min(280, math.ceil(max(_length(line, 9) for line in lines)))
    left = MARGIN + column + 28
    page = _Page()
    width = _tile_width(len(values), PAGE - MARGIN - left)
    words = [f"{value:.3g}".replace("-", "−") for value in values]
    every = math.ceil((max(_length(word, 9) for word in words) + GAP) / (width + GAP))
    page.words(head, MARGIN, MARGIN, colour=MUTED)
    for index in range(0, len(words), every):
        page.words(words[index], left + index * (width + GAP) + width / 2, MARGIN, ha="center")
    page.bottom += 2
    for index, (label, row) in enumerate(zip(labels, rows, strict=True)):
        top = page.bottom + (GAP if index else 0)
        middle = top + _height(row.shape[1:], width) / 2
        height = _leading(9) * len(_lines(label, column, 9))
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
        page.words("to", last, page.bottom - _leading(9), ha="center", colour=BLUE)
    for index, row in enumerate(rows):
        top = page.bottom + (GAP + 2 if index else 4)
        ends = dict.fromkeys((0, steps - 1), BLUE)
        _block(page, row, MARGIN, top, steps, PAGE - 2 * MARGIN, ends)
    page.save(path)


def before_after(path: str | Path, before: Images, after: Images, titles: tuple[str, str]) -> None:
    """Images of a failure, left, beside those of its cure, right, each under its title."""
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
        lines = _lines(text, span, size, bold=bold)
        for index, line in enumerate(lines):
            # By baselines, not by boxes: a word without tall letters stands no higher.
            base = y + index * _leading(size) + size * DOTS
            self._words.append((x, base, line, look))
        return self._reach(math.ceil(y) + len(lines) * _leading(size))

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
    _lengths("pairs", {names[0]: len(above), names[1]: len(below), "notes": len(notes)})
    left, columns = MARGIN + _leading(9), _columns(len(above), PAIR_COLUMNS)
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


def _lengths(what: str, counts: Mapping[str, int]) -> None:
    if len(set(counts.values())) > 1:
        raise ValueError(f"{what}: as many of each are needed, got {dict(counts)}")


def _leading(size: int) -> int:
    """Pixels from one line of words to the next."""
    return math.ceil(1.3 * size * DOTS)


def _length(text: str, size: int, *, bold: bool = False) -> float:
    """Pixels of a line of words."""
    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) * DOTS


def _lines(text: str, span: float, size: int, *, bold: bool = False) -> list[str]:
    """Text in lines of at most `span` pixels; a longer word has a line of its own."""
    lines = []
    for paragraph in text.splitlines():
        line = ""
        for word in paragraph.split():
            longer = f"{line} {word}".lstrip()
            if line and _length(longer, size, bold=bold) > span:
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    return lines


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
    _lengths("projection", {"points": len(at), "labels": len(classes)})
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
        axes.set_title("\n".join(_lines(title, PAGE - 4 * MARGIN, 11, bold=True)))


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
    widths = [_length(names[label], 9, bold=True) / DPI for label in present]
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
