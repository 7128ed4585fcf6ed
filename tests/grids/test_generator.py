import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import AtomicImageGenerator
from genlab.grids.shapes import KINDS, OBJECT_DTYPE, SHAPES

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


def distance(first, second):
    """Chebyshev distance of the nearest two cells of two objects."""
    return np.abs(cells_of(first)[:, None] - cells_of(second)[None]).max(axis=2).min()


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


@pytest.mark.parametrize(("count", "size"), [(1, 8), (257, 12), (1000, 16)])
def test_as_many_grids_as_asked_for_have_the_size_and_the_ten_classes(count, size):
    draw = AtomicImageGenerator(GridDistribution(size=size, max_objects=4)).generate(count, seed=2)
    assert draw.grids.shape == (count, size, size)
    assert draw.grids.dtype == np.uint8
    classes = np.unique(draw.grids)
    assert set(classes) <= set(range(10))
    assert count < 257 or len(classes) == 10
    assert set(draw.objects["grid"]) == set(range(count))
    painted_classes = {0, *draw.objects["colour"]}
    assert painted_classes == set(classes)


def test_no_grid_occurs_twice_and_duplicates_are_counted():
    generator = AtomicImageGenerator(ONE_PLUS)
    draw = generator.generate(2000, seed=0)
    assert len({grid.tobytes() for grid in draw.grids}) == 2000
    # Coupon collector: 3060 (ln 3060 - ln 1060) draws are expected until 2000 are found.
    drawn = 2000 + draw.duplicates
    assert drawn == pytest.approx(PLUS_GRIDS * np.log(PLUS_GRIDS / (PLUS_GRIDS - 2000)), rel=0.1)
    assert len(np.unique(generator.generate(PLUS_GRIDS, seed=0).grids, axis=0)) == PLUS_GRIDS
    with refused(PLUS_GRIDS, PLUS_GRIDS + 1, key="grids"):
        generator.generate(PLUS_GRIDS + 1, seed=0)


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
    assert (grids.dtype, objects.dtype) == (np.uint8, OBJECT_DTYPE)
    assert (painted(objects, 100, size) == grids).all()
    assert (np.diff(objects["grid"]) >= 0).all()
    for row in objects:
        shape = SHAPES[row["shape"]]
        measured = (shape.kind, shape.height, shape.width, shape.cells)
        assert measured == (row["kind"], row["height"], row["width"], row["cells"])
    count = np.bincount(objects["grid"], minlength=100)
    assert least <= count.min() <= count.max() <= most
    assert {KINDS[kind] for kind in objects["kind"]} <= kinds
    for index in range(20):
        in_grid = objects[objects["grid"] == index]
        assert all(distance(a, b) > spacing for i, a in enumerate(in_grid) for b in in_grid[:i])


def test_objects_that_cannot_all_fit_are_an_error_not_a_hang():
    crowded = GridDistribution(size=8, kinds={"rectangle_hollow": 1.0}, min_objects=6, spacing=2)
    with refused(6, key="grids"):
        AtomicImageGenerator(crowded).generate(1, seed=0)
