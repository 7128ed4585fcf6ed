"""Figures: whole PNGs of README width, the same bytes each time, and marks where the errors are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import test_pictures
from PIL import Image

from genlab.core.errors import GenlabError
from genlab.evaluation import figures
from genlab.evaluation.figures.charts import _percent
from genlab.grids.shapes import KINDS


def _grids(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    grids = rng.integers(0, 10, (n, 16, 16), dtype=np.uint8)
    grids[rng.random(grids.shape) < 0.9] = 0
    return grids


GRIDS = _grids(16)
IMAGES = np.random.default_rng(0).integers(0, 256, (20, 28, 28, 1), dtype=np.uint8)
SHARES = {str(colour): 0.91 if colour == 0 else 0.01 for colour in range(10)}
POINT = (0.99, 0.98, 0.995)
FIGURES: dict[str, Callable[[Path], Any]] = {
    "data_sheet": lambda path: figures.data_sheet(
        path,
        GRIDS,
        {"grids": 1000, "object_count": {"1": 0.5, "2": 0.5}, "kinds": dict.fromkeys(KINDS, 0.1)},
    ),
    "image_sheet": lambda path: figures.image_sheet(
        path, IMAGES, {"train": 54_000, "mean grey": 0.286}, "Images"
    ),
    "reconstructions": lambda path: figures.reconstructions(path, GRIDS, GRIDS, "Test"),
    "samples": lambda path: figures.samples(path, GRIDS, np.arange(16) % 2 == 0, "Prior"),
    "colour_histogram": lambda path: figures.colour_histogram(path, SHARES, SHARES),
    "training_curves": lambda path: figures.training_curves(
        path, {"loss": [9.0, 5.0], "kl_divergence": [1.0, 2000.0], "beta_kl": [0.0, 0.0]}
    ),
    "loss_over_baselines": lambda path: figures.loss_over_baselines(
        path, {"run": [9.0, 1.0], "base": [9.0, 8.0]}
    ),
    "colour_confusion": lambda path: figures.colour_confusion(path, np.eye(10) * 7),
    "accuracy_by_group": lambda path: figures.accuracy_by_group(
        path, dict.fromkeys(KINDS, POINT), dict.fromkeys(range(1, 7), POINT)
    ),
    "capacity_curve": lambda path: figures.capacity_curve(
        path, [(8, 0.0, 0.0, 0.01), (64, 0.9, 0.88, 0.92), (256, 1.0, 0.999, 1.0)], 37.0
    ),
    "beta_skill": lambda path: figures.beta_skill(
        path, [(0, 1.0, 0.99, 1.0), (1, 0.85, 0.8, 0.9), (4, -0.2, -0.3, -0.1)]
    ),
}


def test_every_figure_is_tested() -> None:
    assert set(FIGURES) | set(test_pictures.FIGURES) == set(figures.__all__)


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_a_figure_is_a_png_of_the_common_width_with_the_same_bytes_each_time(
    name: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.png", tmp_path / "second.png"
    FIGURES[name](first)
    with mpl.rc_context({"font.size": 30, "figure.facecolor": "red"}):  # a reader's matplotlibrc
        FIGURES[name](second)
    assert first.read_bytes() == second.read_bytes()
    with Image.open(first) as image:
        assert image.width == 1200
        assert image.height >= 300
        assert set(image.info) <= {"dpi"}  # no version, no date
        assert len(image.convert("RGB").getcolors(1 << 20)) > 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.png", "second.png"]


def test_reconstructions_show_a_wrong_cell(tmp_path: Path) -> None:
    predicted = GRIDS.copy()
    predicted[0, 8, 8] = (predicted[0, 8, 8] + 1) % 10
    figures.reconstructions(tmp_path / "exact.png", GRIDS, GRIDS, "Test")
    figures.reconstructions(tmp_path / "wrong.png", GRIDS, predicted, "Test")
    exact, wrong = (
        np.asarray(Image.open(tmp_path / f"{name}.png")).astype(int) for name in ("exact", "wrong")
    )
    rows, cols = np.nonzero(np.abs(exact - wrong).max(axis=-1))
    assert len(rows) > 50  # the cell, its outline and the words below it
    assert cols.max() < 1200 / 8 + 60  # and no other pair
    outline = (wrong[rows, cols, :3] == 255).all(axis=-1) & (rows < rows.min() + 20)
    assert outline.sum() > 20  # the words stand further down


def test_a_sheet_shows_grey_images_grey_and_colours_in_their_place(tmp_path: Path) -> None:
    coloured = np.zeros((2, 32, 32, 3), dtype=np.uint8)
    coloured[0, ..., 0] = coloured[1, ..., 2] = 250
    figures.image_sheet(tmp_path / "colour.png", coloured, {}, "Two", columns=2)
    figures.image_sheet(tmp_path / "grey.png", coloured[..., :1], {}, "Two", columns=2)
    colour, grey = (
        np.asarray(Image.open(tmp_path / f"{name}.png").convert("RGB"))
        for name in ("colour", "grey")
    )
    middle = colour.shape[0] // 2
    assert tuple(colour[middle, 300]) == (250, 0, 0)
    assert tuple(colour[middle, 900]) == (0, 0, 250)
    assert tuple(grey[middle, 300]) == (250, 250, 250)
    assert tuple(grey[middle, 900]) == (0, 0, 0)


def test_legal_and_illegal_samples_look_different(tmp_path: Path) -> None:
    for name, legal in (("legal", True), ("illegal", False)):
        figures.samples(tmp_path / f"{name}.png", GRIDS, np.full(16, legal), "Prior")
    red = [
        (np.asarray(Image.open(tmp_path / f"{name}.png"))[..., :3] == (194, 47, 61)).all(-1).sum()
        for name in ("legal", "illegal")
    ]
    assert red[0] == 0
    assert red[1] > 16 * 500


def test_a_percentage_never_rounds_an_error_away() -> None:
    assert _percent(99.9996) == ">99.9"
    assert _percent(0.004) == "<0.1"
    assert _percent(100.0) == "100"
    assert _percent(42.25) == "42.2"


def test_curves_without_a_known_name_are_refused_and_leave_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no curve"):
        figures.training_curves(tmp_path / "x.png", {"speed": [1.0]})
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((OSError, GenlabError), match="file"):
        figures.colour_histogram(tmp_path / "file" / "x.png", SHARES, SHARES)
