"""Figures of images: the pixels they were given, in their order, and no clipped word."""

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
from genlab.evaluation.figures.image_charts import _apart
from genlab.evaluation.figures.typeset import length, lines

pytestmark = pytest.mark.filterwarnings("error")

LONG = "a title that goes on and on, " * 8
HAIRLINE = (216, 221, 226)
BLUE, ORANGE = (43, 108, 163), (217, 122, 30)


def noise(*shape: int) -> np.ndarray:
    """Images of levels 0 to 199, the same each time: none is as bright as paper or hairline."""
    return np.random.default_rng(0).integers(0, 200, shape, dtype=np.uint8)


def flat(count: int, side: int = 28) -> np.ndarray:
    """(count, side, side, 3): image i is of one colour, (10 + i, 0, 255)."""
    images = np.zeros((count, side, side, 3), dtype=np.uint8)
    images[..., 0] = 10 + np.arange(count)[:, None, None]
    images[..., 2] = 255
    return images


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def middles(path: Path, count: int) -> list[tuple[float, float]]:
    """(row, col) of the middle of each flat image, which must form one whole rectangle."""
    page = pixels(path)
    rows, cols = np.nonzero((page[..., 1] == 0) & (page[..., 2] == 255))
    found = page[rows, cols, 0] - 10
    places = []
    for index in range(count):
        y, x = rows[found == index], cols[found == index]
        height, width = np.ptp(y) + 1, np.ptp(x) + 1
        assert len(y) == height * width
        assert height == width > 20
        places.append((float(y.mean()), float(x.mean())))
    return places


def sweep(count: int = 5) -> list[dict[str, Any]]:
    return [
        {
            "beta": 2.0**i, "rate": 300 / 3.0**i, "distortion": 0.002 * 3.0**i,
            "neg_iwae_nats": 1900.0 + (i - 2) ** 2, "frechet": 5.0 + 9 * (i - 2) ** 2,
        }
        for i in range(count)
    ]  # fmt: skip


SERIES = {
    "loss": [2500.0, 2000.0, 1900.0],
    "reconstruction_loss": [2490.0, 1960.0, 1850.0],
    "kl_divergence": [400.0, 90.0, 60.0],
    "beta_kl": [0.0, 40.0, 60.0],
    "psnr": [15.0, 20.0, 22.0],
}
NAMES = [f"class {i}" for i in range(10)]
POINTS = np.random.default_rng(0).standard_normal((300, 2))
LABELS = np.arange(300) % 10

FIGURES: dict[str, Callable[[Path], Any]] = {
    "image_reconstructions": lambda path: figures.image_reconstructions(
        path, noise(9, 28, 28, 1), noise(9, 28, 28, 1), LONG, ["PSNR 24.1 dB"] * 9
    ),
    "image_samplers": lambda path: figures.image_samplers(
        path, {"prior": noise(5, 32, 32, 3), "gmm": noise(5, 32, 32, 3)}, {"prior": LONG}
    ),
    "traversals": lambda path: figures.traversals(
        path, noise(3, 7, 64, 64, 3), ["latent 3\nKL 2 nats", LONG, ""], np.linspace(-3, 3, 7)
    ),
    "interpolations": lambda path: figures.interpolations(path, noise(2, 9, 28, 28, 1), LONG),
    "neighbours": lambda path: figures.neighbours(
        path, noise(3, 28, 28, 1), noise(3, 28, 28, 1), [0.1, 0.123456, 0.0], LONG
    ),
    "before_after": lambda path: figures.before_after(
        path, noise(7, 28, 28, 1), noise(4, 28, 28, 1), (LONG, "after, for $5 or $6")
    ),
    "projection": lambda path: figures.projection(
        path, POINTS, LABELS, NAMES, LONG, other=2 * POINTS + 1
    ),
    "kl_by_latent": lambda path: figures.kl_by_latent(path, [3.0, 0.5, 1e-3, 1e-9, 0.0]),
    "image_curves": lambda path: figures.image_curves(path, SERIES),
    "rate_distortion": lambda path: figures.rate_distortion(
        path, [*sweep(), {**sweep()[2], "seed": 1}]
    ),
}


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_a_figure_of_images_is_the_same_each_time_and_loses_no_word(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for file, settings in (("first", {}), ("second", {"font.size": 30, "axes.grid": False})):
        with mpl.rc_context(settings):  # the second reader has a matplotlibrc of his own
            FIGURES[name](tmp_path / f"{file}.png")
    assert (tmp_path / "first.png").read_bytes() == (tmp_path / "second.png").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.png", "second.png"]
    page = pixels(tmp_path / "first.png")
    assert page.shape[1] == 1200
    assert 200 < page.shape[0] < 1400
    for edge in (page[:2], page[-2:], page[:, :2], page[:, -2:]):
        assert (edge == 255).all()  # a word that ran off the page would leave ink there
    assert not caplog.records


@pytest.mark.parametrize(("side", "channels"), [(28, 1), (32, 3), (64, 3), (64, 1)])
def test_a_tile_holds_the_pixels_that_it_was_given(
    side: int, channels: int, tmp_path: Path
) -> None:
    images = noise(1, side, side, channels)
    figures.image_samplers(tmp_path / "x.png", {"prior": images}, {})
    page = pixels(tmp_path / "x.png")
    rows, cols = np.nonzero((page == HAIRLINE).all(axis=-1))
    tile = page[rows.min() + 1 : rows.max(), cols.min() + 1 : cols.max()]
    centres = ((np.arange(side) + 0.5) * len(tile) / side).astype(int)
    expected = np.broadcast_to(images[0], (side, side, 3))
    np.testing.assert_array_equal(tile[centres][:, centres], expected)
    # Nothing between them: every pixel of the tile is one of the image, none a mixture.
    colours = {tuple(colour) for colour in expected.reshape(-1, 3).tolist()}
    assert {tuple(colour) for colour in tile.reshape(-1, 3).tolist()} == colours


@pytest.mark.parametrize("count", [1, 8, 9, 17])
def test_each_output_stands_below_its_input(count: int, tmp_path: Path) -> None:
    images = flat(2 * count)
    figures.image_reconstructions(tmp_path / "x.png", images[:count], images[count:], "Pairs")
    places = middles(tmp_path / "x.png", 2 * count)
    for above, below in zip(places[:count], places[count:], strict=True):
        assert above[1] == below[1]
        assert 0 < below[0] - above[0] < 200
    assert places[:count] == sorted(places[:count])  # in reading order
    assert len(set(places)) == 2 * count


def test_each_nearest_image_stands_below_its_sample(tmp_path: Path) -> None:
    images = flat(6)
    figures.neighbours(tmp_path / "x.png", images[:3], images[3:], [0.1, 0.2, 0.3], "Pairs")
    places = middles(tmp_path / "x.png", 6)
    assert [col for _, col in places[:3]] == [col for _, col in places[3:]]
    assert max(row for row, _ in places[:3]) < min(row for row, _ in places[3:])


def test_an_error_stands_below_its_own_pair(tmp_path: Path) -> None:
    images = noise(4, 28, 28, 1)
    for name, errors in (("bare", ["", "", "", ""]), ("one", ["", "", "PSNR 9.9", ""])):
        figures.image_reconstructions(tmp_path / f"{name}.png", images, images, "Test", errors)
    bare, one = pixels(tmp_path / "bare.png"), pixels(tmp_path / "one.png")
    assert len(one) > len(bare)  # room is made for it
    words = one[len(bare) - 12 :]
    _, cols = np.nonzero((words < 200).all(axis=-1))
    third = 36 + 2 * (168 + 8)
    assert len(cols) > 50
    assert third <= cols.min() < cols.max() <= third + 168


def test_samplers_stand_in_blocks_one_below_the_other(tmp_path: Path) -> None:
    images = flat(39)
    figures.image_samplers(
        tmp_path / "x.png",
        {"normal": images[:13], "gmm": images[13:26], "prior": images[26:]},
        {"gmm": "Fréchet 2.31"},
    )
    places = middles(tmp_path / "x.png", 39)
    assert places == sorted(places)
    assert [col for _, col in places[:13]] == [col for _, col in places[26:]]


def test_a_row_of_a_traversal_is_a_row_and_its_values_stand_above(tmp_path: Path) -> None:
    images = flat(15)
    figures.traversals(
        tmp_path / "x.png", images.reshape(3, 5, 28, 28, 3), ["a", "a", "a"], [-2, -1, 0, 1, 2]
    )
    page = pixels(tmp_path / "x.png")
    places = np.array(middles(tmp_path / "x.png", 15)).reshape(3, 5, 2)
    assert (np.ptp(places[..., 0], axis=1) == 0).all()
    assert (np.ptp(places[..., 1], axis=0) == 0).all()
    gaps = np.diff(places[:, 0, 0])
    assert gaps[0] == gaps[1]
    top = int(places[0, 0, 0]) - 84
    for col in places[0, :, 1]:
        assert (page[:top, int(col) - 20 : int(col) + 20] < 128).any()


def test_only_the_two_ends_of_an_interpolation_are_framed(tmp_path: Path) -> None:
    images = flat(10)
    figures.interpolations(tmp_path / "x.png", images.reshape(2, 5, 28, 28, 3), "Between two")
    page = pixels(tmp_path / "x.png")
    for index, place in enumerate(middles(tmp_path / "x.png", 10)):
        row, col = (int(middle) for middle in place)
        left = np.nonzero((page[row, :col] != (10 + index, 0, 255)).any(axis=-1))[0].max()
        framed = tuple(page[row, left - 1].tolist()) == BLUE
        assert framed == (index % 5 in (0, 4))


def test_before_stands_left_and_after_right_in_tiles_of_one_size(tmp_path: Path) -> None:
    images = flat(12)
    figures.before_after(tmp_path / "x.png", images[:7], images[7:], ("Before", "After"))
    places = middles(tmp_path / "x.png", 12)
    assert max(col for _, col in places[:7]) < 600 < min(col for _, col in places[7:])
    assert [row for row, _ in places[:5]] == [row for row, _ in places[7:]]


def test_the_density_takes_the_place_of_many_classes(tmp_path: Path) -> None:
    labels = np.arange(300) % 40
    many = [f"class {i}" for i in range(40)]
    figures.projection(tmp_path / "many.png", POINTS, labels, many, "Many")
    figures.projection(tmp_path / "again.png", POINTS, labels[::-1], many, "Many")
    figures.projection(tmp_path / "few.png", POINTS, labels % 10, NAMES, "Many")
    assert (tmp_path / "many.png").read_bytes() == (tmp_path / "again.png").read_bytes()
    assert (tmp_path / "many.png").read_bytes() != (tmp_path / "few.png").read_bytes()


def test_names_of_classes_do_not_lie_on_each_other() -> None:
    corners = np.random.default_rng(0).standard_normal((12, 2)) * [0.5, 0.1]
    sizes = np.tile([0.9, 0.2], (12, 1))
    apart = _apart(corners, sizes)
    for i in range(12):
        for j in range(i):
            assert (np.abs(apart[i] - apart[j]) > sizes[i] - 1e-5).any()
    np.testing.assert_allclose(apart[:, 0], corners[:, 0], atol=1e-12)


def test_lines_keep_every_word_within_the_span() -> None:
    text = "precision 0.71, recall 0.55 \nWWWWWW iiiiiiiiii " * 5
    broken = lines(text, 300, 9)
    assert " ".join(broken).split() == text.split()
    assert max(length(line, 9) for line in broken) <= 300
    assert len(broken) < 15  # and fills them
    assert lines("unbreakable" * 9, 300, 9) == ["unbreakable" * 9]


@pytest.mark.parametrize(
    ("series", "panels"),
    [
        (SERIES, 3),
        ({"psnr": [20.0]}, 1),
        ({"loss": [9.0, math.nan, math.inf], "kl_divergence": [], "psnr": [math.nan, 1.0]}, 2),
    ],
)
def test_a_panel_without_its_series_is_left_out(
    series: dict[str, list[float]], panels: int, tmp_path: Path
) -> None:
    figures.image_curves(tmp_path / "x.png", series)
    assert len(pixels(tmp_path / "x.png")) == pytest.approx(2.35 * 150 * panels, abs=2)


def test_a_sweep_without_frechet_distances_has_two_panels(tmp_path: Path) -> None:
    bare = [{**point, "frechet": None} for point in sweep()]
    figures.rate_distortion(tmp_path / "x.png", bare)
    page = pixels(tmp_path / "x.png")
    assert len(page) == pytest.approx((2 * 2.3 + 0.5) * 150, abs=2)
    assert not (page == ORANGE).all(axis=-1).any()  # the colour of other seeds


def test_other_seeds_are_marked_otherwise_and_a_collapsed_run_is_drawn(tmp_path: Path) -> None:
    points = [{"beta": 20.0, "rate": 0.0, "distortion": 0.1}, *sweep()]
    points += [{**sweep()[2], "seed": seed} for seed in (1, 2)]
    bare = [
        {key: p[key] for key in p if key in ("beta", "rate", "distortion", "seed")} for p in points
    ]
    figures.rate_distortion(tmp_path / "x.png", bare)
    page = pixels(tmp_path / "x.png")
    assert (page == ORANGE).all(axis=-1).sum() > 60
    figures.rate_distortion(tmp_path / "alone.png", bare[-1:])


@pytest.mark.parametrize("values", [[0.5], [0.0, 0.0], [9.0, 1e-12]])
def test_any_spread_of_kl_is_drawn(values: list[float], tmp_path: Path) -> None:
    figures.kl_by_latent(tmp_path / "x.png", values)
    assert pixels(tmp_path / "x.png").shape == (450, 1200, 3)


def test_one_point_is_drawn(tmp_path: Path) -> None:
    figures.projection(tmp_path / "x.png", [[1.0, 2.0]], [0], ["only"], "One")
    assert pixels(tmp_path / "x.png").shape[1] == 1200


ONE = noise(1, 28, 28, 1)
REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no pair": (lambda p: figures.image_reconstructions(p, ONE[:0], ONE[:0], ""), "no image"),
    "an output short": (
        lambda p: figures.image_reconstructions(p, noise(2, 28, 28, 1), ONE, ""),
        "as many",
    ),
    "an error short": (lambda p: figures.image_reconstructions(p, ONE, ONE, "", []), "as many"),
    "floats": (lambda p: figures.image_reconstructions(p, ONE / 255, ONE, ""), "uint8"),
    "four channels": (
        lambda p: figures.image_samplers(p, {"prior": noise(1, 28, 28, 4)}, {}),
        "1 or 3",
    ),
    "no sampler": (lambda p: figures.image_samplers(p, {}, {}), "no sampler"),
    "an empty sampler": (lambda p: figures.image_samplers(p, {"gmm": ONE[:0]}, {}), "gmm: no"),
    "uneven samplers": (
        lambda p: figures.image_samplers(p, {"a": ONE, "b": noise(2, 28, 28, 1)}, {}),
        "same number",
    ),
    "no traversal": (
        lambda p: figures.traversals(p, noise(0, 3, 28, 28, 1), [], [1, 2, 3]),
        "empty",
    ),
    "a label short": (
        lambda p: figures.traversals(p, noise(2, 3, 28, 28, 1), ["a"], [1, 2, 3]),
        "as many",
    ),
    "a value short": (
        lambda p: figures.traversals(p, noise(1, 3, 28, 28, 1), ["a"], [1, 2]),
        "as many",
    ),
    "flat strips": (lambda p: figures.interpolations(p, noise(3, 28, 28, 1), ""), "steps"),
    "no step": (lambda p: figures.interpolations(p, noise(3, 0, 28, 28, 1), ""), "empty"),
    "no neighbour": (lambda p: figures.neighbours(p, ONE[:0], ONE[:0], [], ""), "no image"),
    "a distance short": (lambda p: figures.neighbours(p, ONE, ONE, [], ""), "as many"),
    "nothing before": (lambda p: figures.before_after(p, ONE[:0], ONE, ("", "")), "no image"),
    "no point": (lambda p: figures.projection(p, np.zeros((0, 2)), [], NAMES, ""), r"\(n, 2\)"),
    "points in space": (
        lambda p: figures.projection(p, np.zeros((3, 3)), [0] * 3, NAMES, ""),
        "n, 2",
    ),
    "a point nowhere": (lambda p: figures.projection(p, [[0, math.nan]], [0], NAMES, ""), "finite"),
    "a nameless label": (lambda p: figures.projection(p, [[0, 0]], [10], NAMES, ""), "10 names"),
    "no latent": (lambda p: figures.kl_by_latent(p, []), "at least one"),
    "a KL of NaN": (lambda p: figures.kl_by_latent(p, [1.0, math.nan]), "finite"),
    "no curve": (lambda p: figures.image_curves(p, {"speed": [1.0], "loss": []}), "no curve"),
    "no run": (lambda p: figures.rate_distortion(p, []), "no point"),
    "no rate": (
        lambda p: figures.rate_distortion(p, [{"beta": 1, "rate": None, "distortion": 1.0}]),
        "no point",
    ),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_cannot_be_drawn_is_refused_in_a_sentence_and_leaves_no_file(
    case: str, tmp_path: Path
) -> None:
    draw, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        draw(tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []
