"""Figures: PNGs of the README's width, the same bytes each time, images in their places."""

import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from genlab.evaluation import figures
from genlab.evaluation.figures.boards import INVALID
from genlab.grids.shapes import KINDS

# A file that an earlier test left open may be noticed here.
pytestmark = pytest.mark.filterwarnings("error", "ignore::ResourceWarning")

RNG = np.random.default_rng(0)
GRIDS = np.where(RNG.random((16, 16, 16)) < 0.9, 0, RNG.integers(0, 10, (16, 16, 16)))
GRIDS = GRIDS.astype(np.uint8)
SERIES = {
    "loss": [2500.0, 2000.0, 1900.0],
    "reconstruction_loss": [2490.0, 1960.0, 1850.0],
    "kl_divergence": [400.0, 90.0, 0.0],
    "beta_kl": [0.0, 40.0, 60.0],
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


def test_invalid_samples_have_a_red_frame(tmp_path: Path) -> None:
    red = []
    for valid in (True, False):
        figures.draw_samples(tmp_path / "x.png", GRIDS, np.full(16, valid), "Prior")
        red.append((np.abs(pixels(tmp_path / "x.png").astype(int) - INVALID) < 8).all(-1).sum())
    assert red[0] == 0
    assert red[1] > 16 * 500


@pytest.mark.parametrize(
    ("series", "panels"),
    [
        (SERIES, 3),
        ({"psnr": [20.0]}, 1),
        ({"loss": [9.0, math.nan], "reconstruction_loss": [-1.0, math.inf], "psnr": [1.0, 2.0]}, 2),
    ],
)
def test_a_panel_without_its_series_is_left_out(
    series: dict[str, list[float]], panels: int, tmp_path: Path
) -> None:
    figures.draw_training_curves(tmp_path / "x.png", series, "nats")
    assert len(pixels(tmp_path / "x.png")) == pytest.approx(2.35 * 150 * panels, abs=2)
