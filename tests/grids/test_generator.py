import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from genlab.grids.distribution import alias_table
from genlab.grids.generator import (
    AtomicImageGenerator,
    GridDistribution,
    LineGenerator,
    PatternGenerator,
    RectangleGenerator,
)
from genlab.grids.shapes import KINDS, LINES, OBJECT_DTYPE, PATTERNS, RECTANGLES, SHAPES

DEFAULT = GridDistribution()


@pytest.fixture(scope="module")
def draw():
    return AtomicImageGenerator(DEFAULT).draw(20_000, seed=5)


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
    assert draw.grids.dtype == np.uint8
    assert draw.grids.shape == (20_000, 16, 16)
    assert draw.objects.dtype == OBJECT_DTYPE
    assert (painted(draw.objects, 20_000, 16) == draw.grids).all()


def test_the_table_agrees_with_the_shapes_it_names(draw):
    for row in draw.objects[:2000]:
        shape = SHAPES[row["shape"]]
        measured = (shape.kind, shape.height, shape.width, shape.cells)
        assert measured == (row["kind"], row["height"], row["width"], row["cells"])
    assert (np.diff(draw.objects["grid"]) >= 0).all()


def test_objects_keep_one_free_cell_diagonals_too(draw):
    nearest = []
    for index in range(500):
        objects = draw.objects[draw.objects["grid"] == index]
        pairs = [(a, b) for i, a in enumerate(objects) for b in objects[:i]]
        nearest += [distance(a, b) for a, b in pairs]
    assert min(nearest) == 2


def test_the_default_distribution_is_the_one_that_was_fixed(draw):
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
    program = GridDistribution(kinds={"plus": 1.0}, min_objects=1, max_objects=1)
    generator = AtomicImageGenerator(program)
    placed, restarts = generator._place_all(np.random.default_rng(0), 60_000)
    assert restarts == 0
    places = program.placements()
    drawn, number = np.unique(placed, return_counts=True)
    assert len(drawn) == 14 * 14 + 12 * 12
    assert chisquare(number, 60_000 / 2 / places.count[places.shape[drawn]]).pvalue > 0.01


def test_no_grid_stands_twice_and_duplicates_are_counted():
    program = GridDistribution(kinds={"plus": 1.0}, min_objects=1, max_objects=1)
    draw = AtomicImageGenerator(program).draw(2000, seed=0)
    assert len({grid.tobytes() for grid in draw.grids}) == 2000
    drawn = AtomicImageGenerator(program)._block(0, 0).grids[: 2000 + draw.duplicates]
    assert len({grid.tobytes() for grid in drawn}) == 2000
    assert draw.duplicates > 100


def test_more_grids_than_there_are_is_an_error_that_says_so():
    program = GridDistribution(kinds={"plus": 1.0}, min_objects=1, max_objects=1)
    with pytest.raises(ValueError, match="only 3060 different grids found"):
        AtomicImageGenerator(program).draw(3061, seed=0)  # 9 colours, 14 x 14 + 12 x 12 positions


def test_the_same_seed_gives_the_same_bytes_whatever_the_workers():
    generator = AtomicImageGenerator(DEFAULT)
    alone = generator.draw(40_000, seed=3)
    shared = generator.draw(40_000, seed=3, workers=2)
    assert alone.grids.tobytes() == shared.grids.tobytes()
    assert alone.objects.tobytes() == shared.objects.tobytes()
    assert alone[2:] == shared[2:]
    other, _ = generator.generate(1000, seed=4)
    assert (other != alone.grids[:1000]).any()


def test_fewer_grids_are_the_first_of_more():
    generator = AtomicImageGenerator(DEFAULT)
    few, few_objects = generator.generate(50, seed=3)
    many, many_objects = generator.generate(20_000, seed=3)
    assert (few == many[:50]).all()
    assert (few_objects == many_objects[: len(few_objects)]).all()


def test_each_generator_draws_its_own_kinds():
    parts = ((RectangleGenerator, RECTANGLES), (LineGenerator, LINES), (PatternGenerator, PATTERNS))
    for part, kinds in parts:
        drawn = {KINDS[SHAPES[index].kind] for index in np.flatnonzero(part(DEFAULT).weights)}
        assert drawn == set(kinds)


def test_weights_say_how_often_a_kind_is_drawn():
    program = GridDistribution(kinds={"plus": 3.0, "zigzag": 1.0}, min_objects=2, max_objects=2)
    _, objects = AtomicImageGenerator(program).generate(10_000, seed=0)
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
def test_any_program_keeps_its_own_rules(size, least, more, spacing, kinds, seed):
    most = min(least + more, 1 + (size - 8) // 3)  # as many as surely fit
    least = min(least, most)
    program = GridDistribution(size, least, most, dict.fromkeys(kinds, 1.0), spacing)
    grids, objects = AtomicImageGenerator(program).generate(100, seed)
    assert (painted(objects, 100, size) == grids).all()
    count = np.bincount(objects["grid"], minlength=100)
    assert least <= count.min()
    assert count.max() <= most
    assert {KINDS[kind] for kind in objects["kind"]} <= kinds
    for index in range(20):
        mine = objects[objects["grid"] == index]
        assert all(distance(a, b) > spacing for i, a in enumerate(mine) for b in mine[:i])


def test_with_overlap_later_objects_hide_earlier_ones():
    program = GridDistribution(overlap=True, min_objects=6)
    grids, objects = AtomicImageGenerator(program).generate(500, seed=0)
    assert (painted(objects, 500, 16) == grids).all()
    hidden = np.bincount(objects["grid"], objects["cells"]) - (grids > 0).sum(axis=(1, 2))
    assert (hidden > 0).mean() > 0.3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"size": 1}, "size must be 2 to 64, got 1"),
        ({"min_objects": 0}, "got 0 and 6"),
        ({"min_objects": 4, "max_objects": 3}, "got 4 and 3"),
        ({"spacing": -1}, "spacing must be 0 to 15, got -1"),
        ({"kinds": {"blob": 1.0}}, "unknown kinds"),
        ({"kinds": {"plus": -1.0}}, "weights must be >= 0"),
        ({"kinds": {"plus": float("nan")}}, "weights must be >= 0"),
        ({"kinds": {"plus": 0.0}}, "at least one weight"),
    ],
)
def test_a_parameter_out_of_range_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        GridDistribution(**wrong)


def test_a_kind_that_cannot_fit_is_refused():
    with pytest.raises(ValueError, match="no plus fits a canvas of size 2"):
        AtomicImageGenerator(GridDistribution(size=2, kinds={"plus": 1.0}))


def test_objects_that_cannot_all_fit_are_an_error_not_a_hang():
    program = GridDistribution(size=8, kinds={"rectangle_hollow": 1.0}, min_objects=6, spacing=2)
    with pytest.raises(ValueError, match="6 objects with spacing 2 don't fit"):
        AtomicImageGenerator(program).generate(1, seed=0)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30).filter(any))
def test_an_alias_table_draws_each_outcome_with_its_probability(weights):
    wanted = np.array(weights) / sum(weights)
    keep, alias = alias_table(wanted)
    drawn = keep / len(keep)
    np.add.at(drawn, alias, (1 - keep) / len(keep))
    assert drawn == pytest.approx(wanted, abs=1e-12)
