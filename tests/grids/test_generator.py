import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from genlab.core.errors import GenlabError
from genlab.grids.distribution import (
    GridDistribution,
    LineGenerator,
    PatternGenerator,
    RectangleGenerator,
)
from genlab.grids.generator import AtomicImageGenerator, take_objects
from genlab.grids.shapes import KINDS, LINES, OBJECT_DTYPE, PATTERNS, RECTANGLES, SHAPES

DEFAULT = GridDistribution()
ONE_PLUS = GridDistribution(kinds={"plus": 1.0}, max_objects=1)
PLUS_GRIDS = 9 * (14 * 14 + 12 * 12)  # colours times positions of both sizes


@pytest.fixture(scope="module")
def draw():
    return AtomicImageGenerator(DEFAULT).generate(20_000, seed=5)


def painted(objects, count, size):
    """The grids that a table of objects describes, painted one object after another."""
    grids = np.zeros((count, size, size), dtype=np.uint8)
    for row in objects:
        box = grids[row["grid"], row["row"] :, row["col"] :][: row["height"], : row["width"]]
        box[SHAPES[row["shape"]].mask] = row["colour"]
    return grids


def cells_of(row):
    return np.argwhere(SHAPES[row["shape"]].mask) + np.array([row["row"], row["col"]])


def distance(one, other):
    """Chebyshev distance of the nearest two cells of two objects."""
    return np.abs(cells_of(one)[:, None] - cells_of(other)[None]).max(axis=2).min()


def test_the_table_describes_every_cell_of_the_grids(draw):
    assert (draw.grids.dtype, draw.grids.shape) == (np.uint8, (20_000, 16, 16))
    assert draw.objects.dtype == OBJECT_DTYPE
    assert (np.diff(draw.objects["grid"]) >= 0).all()
    assert (painted(draw.objects, 20_000, 16) == draw.grids).all()
    for row in draw.objects[:2000]:
        shape = SHAPES[row["shape"]]
        measured = (shape.kind, shape.height, shape.width, shape.cells)
        assert measured == (row["kind"], row["height"], row["width"], row["cells"])


def test_the_default_distribution_is_the_specified_one(draw):
    assert abs((draw.grids == 0).mean() - 0.90) < 0.007
    count = np.bincount(np.bincount(draw.objects["grid"]), minlength=7) / 20_000
    assert count[0] == 0
    assert np.abs(count[1:] - 1 / 6).max() < 0.015  # grids of one object repeat, and are dropped
    kinds = np.bincount(draw.objects["kind"], minlength=11) / len(draw.objects)
    assert np.abs(kinds - 1 / 11).max() < 0.012  # large shapes find a place less often
    colours = np.bincount(draw.objects["colour"]) / len(draw.objects)
    assert colours[0] == 0
    assert np.abs(colours[1:] - 1 / 9).max() < 0.006
    assert set(draw.objects["shape"]) == set(range(len(SHAPES)))


def test_single_objects_are_uniform_over_all_positions():
    generator = AtomicImageGenerator(ONE_PLUS)
    placed = generator.draw_placements(np.random.default_rng(0), 1, 60_000)
    places = generator.placements
    drawn, number = np.unique(placed, return_counts=True)
    assert len(drawn) == PLUS_GRIDS / 9
    count = places.count[places.objects["shape"][drawn]]
    assert chisquare(number, 60_000 / 2 / count).pvalue > 0.01


def test_no_grid_occurs_twice_and_duplicates_are_counted():
    draw = AtomicImageGenerator(ONE_PLUS).generate(2000, seed=0)
    assert len({grid.tobytes() for grid in draw.grids}) == 2000
    # Coupon collector: 3060 (ln 3060 - ln 1060) draws are expected until 2000 are found.
    drawn = 2000 + draw.duplicates
    assert drawn == pytest.approx(PLUS_GRIDS * np.log(PLUS_GRIDS / (PLUS_GRIDS - 2000)), rel=0.1)


def test_all_grids_of_a_small_distribution_are_found_and_no_more():
    generator = AtomicImageGenerator(ONE_PLUS)
    assert len(generator.generate(PLUS_GRIDS, seed=0).grids) == PLUS_GRIDS
    with pytest.raises(GenlabError, match=f"only {PLUS_GRIDS} "):
        generator.generate(PLUS_GRIDS + 1, seed=0)


def test_the_same_seed_gives_the_same_bytes():
    generator = AtomicImageGenerator(DEFAULT)
    first, second, other = (generator.generate(1000, seed) for seed in (3, 3, 4))
    assert first.grids.tobytes() == second.grids.tobytes()
    assert first.objects.tobytes() == second.objects.tobytes()
    assert (other.grids != first.grids).any()


def test_each_generator_draws_its_own_kinds():
    parts = ((RectangleGenerator, RECTANGLES), (LineGenerator, LINES), (PatternGenerator, PATTERNS))
    for part, kinds in parts:
        drawn = {KINDS[SHAPES[index].kind] for index in np.flatnonzero(part(DEFAULT).weights)}
        assert drawn == set(kinds)


def test_a_kind_is_drawn_in_proportion_to_its_weight():
    distribution = GridDistribution(
        kinds={"plus": 3.0, "zigzag": 1.0}, min_objects=2, max_objects=2
    )
    _, objects, _ = AtomicImageGenerator(distribution).generate(10_000, seed=0)
    share = (objects["kind"] == KINDS.index("plus")).mean()
    assert share == pytest.approx(0.75, abs=0.02)
    assert set(objects["kind"]) == {KINDS.index("plus"), KINDS.index("zigzag")}


@settings(max_examples=12, deadline=None)
@given(
    size=st.integers(8, 20),
    least=st.integers(1, 3),
    more=st.integers(0, 2),
    spacing=st.integers(0, 2),
    kinds=st.sets(st.sampled_from(KINDS), min_size=1),
    seed=st.integers(0, 2**31 - 1),
)
def test_every_grid_satisfies_its_distribution(size, least, more, spacing, kinds, seed):
    most = min(least + more, 1 + (size - 8) // 3)  # as many as surely fit
    least = min(least, most)
    distribution = GridDistribution(size, least, most, dict.fromkeys(kinds, 1.0), spacing)
    grids, objects, _ = AtomicImageGenerator(distribution).generate(100, seed)
    assert (painted(objects, 100, size) == grids).all()
    count = np.bincount(objects["grid"], minlength=100)
    assert least <= count.min() <= count.max() <= most
    assert {KINDS[kind] for kind in objects["kind"]} <= kinds
    for index in range(20):
        mine = objects[objects["grid"] == index]
        assert all(distance(a, b) > spacing for i, a in enumerate(mine) for b in mine[:i])


def test_objects_that_cannot_all_fit_are_an_error_not_a_hang():
    crowded = GridDistribution(size=8, kinds={"rectangle_hollow": 1.0}, min_objects=6, spacing=2)
    with pytest.raises(GenlabError, match="6 objects"):
        AtomicImageGenerator(crowded).generate(1, seed=0)


def test_objects_are_taken_with_their_grids(draw):
    chosen = np.random.default_rng(0).permutation(20_000)[:120]
    taken = take_objects(draw.objects, chosen, 20_000)
    assert (painted(taken, 120, 16) == draw.grids[chosen]).all()
    assert (np.diff(taken["grid"]) >= 0).all()
