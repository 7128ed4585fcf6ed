"""Figures: PNGs of the README's width, the same bytes each time, images in their places."""

import logging
import math
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import matplotlib as mpl
import matplotlib.style as mpl_style
import numpy as np
import pytest
import tiny
from matplotlib.figure import Figure
from PIL import Image

from genlab.evaluation import figures
from genlab.evaluation.figures import boards, curves
from genlab.evaluation.figures.boards import INVALID
from genlab.evaluation.figures.style import STYLE_FILE
from genlab.grids.shapes import KINDS
from genlab.vae.training.trainer import Trainer

# A file that an earlier test left open may be noticed here.
pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

RNG = np.random.default_rng(0)
GRIDS = np.where(RNG.random((16, 16, 16)) < 0.9, 0, RNG.integers(0, 10, (16, 16, 16)))
GRIDS = GRIDS.astype(np.uint8)
SHARES = {str(colour): 0.1 for colour in range(10)}
HISTOGRAM = {"true": SHARES, "predicted": {**SHARES, "1": 0.0, "2": 0.2}}
SERIES = {
    "loss": [2500.0, 2000.0, 1900.0],
    "reconstruction_loss": [2490.0, 1960.0, 1850.0],
    "kl_divergence": [400.0, 90.0, 0.0],
    "beta_kl": [0.0, 40.0, 60.0],
    "kl_loss": [10.0, 40.0, 50.0],
    "psnr": [15.0, 20.0, 22.0],
}


def flat(count: int, side: int = 28) -> np.ndarray:
    """(count, side, side, 3): image i is of one colour, (10 + i, 0, 255)."""
    images = np.zeros((count, side, side, 3), dtype=np.uint8)
    images[..., 0] = 10 + np.arange(count)[:, None, None]
    images[..., 2] = 255
    return images


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def find_centres(path: Path, count: int) -> np.ndarray:
    """Centre (row, column) of each flat image, which must form one square."""
    page = pixels(path)
    rows, cols = np.nonzero((page[..., 1] == 0) & (page[..., 2] == 255))
    indices = page[rows, cols, 0] - 10
    centres = []
    for index in range(count):
        y = rows[indices == index]
        x = cols[indices == index]
        assert len(y) == (np.ptp(y) + 1) * (np.ptp(x) + 1)
        assert abs(np.ptp(y) - np.ptp(x)) <= 1
        assert np.ptp(y) > 20
        centres.append((y.mean(), x.mean()))
    return np.array(centres)


FIGURES: dict[str, Callable[[Path], Any]] = {
    "draw_data_sheet": lambda path: figures.draw_data_sheet(
        path,
        GRIDS,
        {"grids": 1000, "object_count": {"1": 0.5, "2": 0.5}, "kinds": dict.fromkeys(KINDS, 0.1)},
    ),
    "draw_colour_histograms": lambda path: figures.draw_colour_histograms(
        path, {"Test grids": HISTOGRAM, "ARC-AGI grids": HISTOGRAM}
    ),
    "draw_reconstructions": lambda path: figures.draw_reconstructions(path, GRIDS, GRIDS, "Test"),
    "draw_grid_board": lambda path: figures.draw_grid_board(path, GRIDS, "Grids"),
    "draw_samples": lambda path: figures.draw_samples(path, GRIDS, np.arange(16) % 2 == 0, "Prior"),
    "draw_training_curves": lambda path: figures.draw_training_curves(path, SERIES, "nats"),
    "draw_image_sheet": lambda path: figures.draw_image_sheet(
        path, flat(20), {"train": 54_000, "mean grey": 0.286}, "Images"
    ),
    "draw_image_pairs": lambda path: figures.draw_image_pairs(
        path, flat(9), flat(9), ["1 dB"] * 9, "Pairs"
    ),
    "draw_image_samplers": lambda path: figures.draw_image_samplers(
        path, {"prior: recall 0.7": flat(24), "gmm: recall 0.2": flat(24)}
    ),
    "draw_image_walks": lambda path: figures.draw_image_walks(
        path, flat(18).reshape(2, 9, 28, 28, 3), "Walks", ["step"] * 9
    ),
}


@pytest.mark.parametrize("name", figures.__all__)
def test_a_figure_is_a_png_of_the_common_width_with_the_same_bytes_each_time(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first = tmp_path / "first.png"
    second = tmp_path / "second.png"
    FIGURES[name](first)
    with mpl.rc_context({"font.size": 30, "figure.facecolor": "red"}):  # a user's matplotlibrc
        FIGURES[name](second)
    assert first.read_bytes() == second.read_bytes()
    with Image.open(first) as image:
        assert image.width == 1200
        assert 300 <= image.height <= 2500
        assert set(image.info) == {"dpi"}  # no version, date, command or params
    page = pixels(first)
    for edge in (page[0], page[-1], page[:, 0], page[:, -1]):
        assert (edge == 255).all()  # a clipped word would leave ink there
    assert not caplog.records


@pytest.mark.parametrize("count", [1, 8, 9])
def test_each_output_stands_below_its_input(count: int, tmp_path: Path) -> None:
    images = flat(2 * count)
    path = tmp_path / "x.png"
    figures.draw_image_pairs(path, images[:count], images[count:], ["1 dB"] * count, "Pairs")
    centres = find_centres(path, 2 * count)
    down = centres[count:] - centres[:count]
    assert (np.abs(down[:, 1]) <= 1).all()
    assert ((down[:, 0] > 0) & (down[:, 0] < 200)).all()


def test_the_rows_and_columns_of_a_walk_are_rows_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    rows = flat(16).reshape(2, 8, 28, 28, 3)
    figures.draw_image_walks(path, rows, "Walks", ["step"] * 8)
    centres = find_centres(path, 16).reshape(2, 8, 2)
    assert (np.ptp(centres[..., 0], axis=1) <= 1).all()
    assert (np.ptp(centres[..., 1], axis=0) <= 1).all()


def test_reconstructions_frame_a_wrong_cell_and_count_it(tmp_path: Path) -> None:
    predicted = GRIDS.copy()
    pages = []
    for _ in range(2):
        figures.draw_reconstructions(tmp_path / "x.png", GRIDS, predicted, "Test")
        pages.append(pixels(tmp_path / "x.png"))
        predicted[0, 8, 8] = (predicted[0, 8, 8] + 1) % 10
    _, cols = np.nonzero((pages[0] != pages[1]).any(axis=-1))
    assert len(cols) > 50
    assert cols.max() < 1200 / 8 + 60  # no other pair differs


def test_reconstructions_of_the_smallest_margins_are_drawn_and_all_wrong_ones_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = np.tile(GRIDS, (5, 1, 1))
    predicted = truth.copy()
    predicted[[2, 70], 0, :2] = 10 - truth[[2, 70], 0, :2] // 2
    margins = np.arange(80, 0, -1.0)
    margins[[2, 70]] = (-0.5, -2.0)
    draw = Mock()
    monkeypatch.setattr(boards, "draw_image_pairs", draw)
    figures.draw_reconstructions(tmp_path / "x.png", truth, predicted, "Test grids", margins)
    _, inputs, outputs, notes, title = draw.call_args.args
    assert title.startswith("Test grids: 2 of 80 are not exact\n")
    assert notes == ["2 wrong", "2 wrong", *(f"{n} nats" for n in range(1, 16) if n != 10)]
    rows = [70, 2, *(row for row in range(79, 64, -1) if row != 70)]
    np.testing.assert_array_equal(inputs, boards.paint_grids(truth[rows]))
    assert (inputs != outputs).any(axis=(1, 2, 3)).tolist() == [True] * 2 + [False] * 14
    predicted[79, 0, :3] = 10 - truth[79, 0, :3] // 2
    figures.draw_reconstructions(tmp_path / "x.png", truth, predicted, "ARC-AGI")
    assert draw.call_args.args[3] == ["3 wrong", "2 wrong", "2 wrong", *["exact"] * 13]


def test_each_colour_has_a_bar_of_its_true_and_one_of_its_predicted_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Figure()
    monkeypatch.setattr(boards, "figure_file", lambda *_: nullcontext(page))
    boards.draw_colour_histograms(tmp_path / "x.png", {"Test grids": HISTOGRAM})
    [axes] = page.axes
    true, predicted = ([bar.get_height() for bar in bars] for bars in axes.containers)
    assert true == [0.1] * 9  # without black
    assert predicted == [0.0, 0.2, *[0.1] * 7]
    assert axes.get_title().endswith("black 10.00 % true, 10.00 % predicted")


def test_the_line_of_an_interval_ends_where_the_interval_ends() -> None:
    with mpl_style.context(STYLE_FILE, after_reset=True):
        [line] = Figure().subplots().plot([0.4, 0.6], [1, 1], linewidth=5)
    assert line.get_solid_capstyle() == "butt"  # a projecting cap adds half of the width


def test_invalid_samples_have_a_red_frame(tmp_path: Path) -> None:
    red = []
    for valid in (True, False):
        figures.draw_samples(tmp_path / "x.png", GRIDS, np.full(16, valid), "Prior")
        red.append((np.abs(pixels(tmp_path / "x.png").astype(int) - INVALID) < 8).all(-1).sum())
    assert red[0] == 0
    assert red[1] > 16 * 500


@pytest.mark.parametrize(
    ("changes", "panels"),
    [
        ({}, 3),
        ({"loss": [9.0, math.nan, -3.0], "reconstruction_loss": [-1.0, math.inf, 1e9]}, 3),
        ({"exact_grid_accuracy": [0.5] * 3}, 3),
        ({"exact_grid_accuracy": [0.5] * 3, "pixel_accuracy": [0.9] * 3}, 4),
    ],
)
def test_a_panel_of_quality_without_its_series_is_left_out(
    changes: dict[str, list[float]], panels: int, tmp_path: Path
) -> None:
    figures.draw_training_curves(tmp_path / "x.png", {**SERIES, **changes}, "nats")
    assert len(pixels(tmp_path / "x.png")) == pytest.approx(2.35 * 150 * panels, abs=2)


def train(folder: Path, **training: Any) -> Trainer:
    """A short run of a tiny model of images, of grids where it has a focal loss."""
    if "focal_gamma" in training:
        items = tiny.grids(60)
        params = tiny.params(**training)
        trainer = Trainer(params, tiny.task(items, **training), items, folder)
    else:
        items = tiny.images(24)
        params = tiny.image_params(**training)
        trainer = Trainer(params, tiny.image_task(items, **training), items, folder)
    trainer.run(tiny.nothing)
    return trainer


@pytest.mark.parametrize(
    ("training", "labels"),
    [
        (
            {"causal_channels": 4, "free_bits": 9.0},
            ["reconstruction", "auxiliary term", "β·max(KL, free nats)"],
        ),
        ({"beta_max": 0.5, "focal_gamma": 2.0}, ["focal loss", "β·KL"]),
        ({"prior": "standard"}, ["reconstruction", "β·KL"]),
    ],
)
def test_the_drawn_terms_of_a_training_add_up_to_its_drawn_loss(
    training: dict[str, Any], labels: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = train(tmp_path, **training).progress.history
    page = Figure()
    monkeypatch.setattr(curves, "figure_file", lambda *_: nullcontext(page))
    series = {name: [row[name] for row in rows] for name in rows[0]}
    marks = curves.mark_epochs({"delay": 0, "joint": 1}, 2, len(rows))
    curves.draw_training_curves(tmp_path / "x.png", series, "nats", marks)
    loss, *terms = page.axes[0].lines[: 1 + len(labels)]
    assert [line.get_label() for line in terms] == labels
    assert loss.get_ydata() == pytest.approx(sum(np.array(line.get_ydata()) for line in terms))
    events = {line.get_label(): line.get_xdata() for line in page.axes[0].lines[1 + len(labels) :]}
    assert events == {"autoencoder frozen": [1.5, 1.5], "best epoch": [2, 2]}


def test_equal_divergences_are_one_line_and_phases_that_did_not_occur_have_no_mark() -> None:
    equal = {**SERIES, "beta_kl": SERIES["kl_divergence"], "kl_loss": SERIES["kl_divergence"]}
    assert curves.list_divergences(equal) == {"kl_divergence": "KL = β·KL"}
    assert list(curves.list_divergences(SERIES)) == ["kl_divergence", "kl_loss"]
    assert curves.mark_epochs({"delay": 3, "joint": 9}, 7, 9) == {
        "joint phase begins": 3.5,
        "best epoch": 7,
    }
