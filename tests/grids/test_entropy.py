"""The bound is checked against an enumeration that shares no code with it."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from genlab.grids import entropy
from genlab.grids.entropy import compressor_nats, grid_nats, program_entropy
from genlab.grids.generator import AtomicImageGenerator, GridDistribution
from genlab.grids.shapes import KINDS, OBJECT_DTYPE, SHAPES


def enumeration(program, draws):
    """Every set of placements with its chance to be an attempt's end (colours left out), and Z_n.

    Plain Python over ordered sequences: {n: {frozenset of (shape, row, col): chance}}, {n: Z_n}.
    """
    fitting = {
        index: [
            (row, col)
            for row in range(program.size + 1 - shape.height)
            for col in range(program.size + 1 - shape.width)
        ]
        for index, shape in enumerate(SHAPES)
        if program.kinds.get(KINDS[shape.kind])
    }
    fitting = {index: positions for index, positions in fitting.items() if positions}
    family = Counter(SHAPES[index].kind for index in fitting)
    total = sum(program.kinds.values())

    def chance_of_shape(index):
        kind = SHAPES[index].kind
        return program.kinds[KINDS[kind]] / total / family[kind]

    def cells(placement):
        index, row, col = placement
        return [(row + int(r), col + int(c)) for r, c in np.argwhere(SHAPES[index].mask)]

    everything = [(index, *place) for index, places in fitting.items() for place in places]
    apart = {
        (one, other): all(
            max(abs(a - c), abs(b - d)) > program.spacing
            for (a, b), (c, d) in itertools.product(cells(one), cells(other))
        )
        for one, other in itertools.product(everything, everything)
    }

    sequences = {(): 1.0}
    sets, successes = {}, {}
    for n in range(1, program.max_objects + 1):
        longer = {}
        for earlier, chance in sequences.items():
            for index, positions in fitting.items():
                free = [
                    (index, *position)
                    for position in positions
                    if all(apart[(index, *position), each] for each in earlier)
                ]
                found = 1 - (1 - len(free) / len(positions)) ** draws
                for placement in free:
                    step = chance_of_shape(index) * found / len(free)
                    longer[(*earlier, placement)] = chance * step
        sequences = longer
        sets[n] = Counter()
        for sequence, chance in sequences.items():
            sets[n][frozenset(sequence)] += chance
        successes[n] = sum(sequences.values())
    return sets, successes


def table_of(sets):
    """The object table of these sets of placements, a grid each, all in colour 1."""
    rows = []
    for grid, placements in enumerate(sets):
        for index, row, col in sorted(placements):
            shape = SHAPES[index]
            size = (shape.height, shape.width, shape.cells, index)
            rows.append((grid, shape.kind, 1, row, col, *size))
    return np.array(rows, dtype=OBJECT_DTYPE)


TINY = GridDistribution(
    size=6, max_objects=2, kinds={"rectangle_hollow": 1.0, "line_horizontal": 2.0, "plus": 0.5}
)
CRAMPED = GridDistribution(
    size=5, max_objects=3, kinds={"line_horizontal": 1.0, "line_vertical": 1.0}
)
TOUCHING = GridDistribution(size=4, max_objects=2, kinds={"line_horizontal": 1.0}, spacing=0)


@pytest.mark.parametrize("program", [TINY, CRAMPED, TOUCHING], ids=["tiny", "cramped", "touching"])
@pytest.mark.parametrize("draws", [1, 2, 32])
def test_every_chance_agrees_with_the_enumeration_and_they_sum_to_one(program, draws, monkeypatch):
    monkeypatch.setattr(entropy, "POSITION_DRAWS", draws)
    sets, successes = enumeration(program, draws)
    total = 0.0
    for n, chances in sets.items():
        nats = grid_nats(table_of(chances), program, len(chances))
        colours = 9**n
        bound = np.exp(-nats)
        expected = np.array(list(chances.values())) / colours / program.max_objects
        assert bound == pytest.approx(expected, rel=1e-9)
        total += bound.sum() * colours / successes[n]
    assert total == pytest.approx(1.0, abs=1e-9)
    if program.spacing:
        assert min(successes.values()) < 0.99  # so that the restarts were put to the test


def test_the_generator_draws_grids_as_often_as_the_formula_says():
    kinds = {"line_horizontal": 3.0, "rectangle_hollow": 1.0}
    program = GridDistribution(size=5, min_objects=2, max_objects=2, kinds=kinds)
    placed, restarts = AtomicImageGenerator(program)._place_all(np.random.default_rng(1), 50_000)
    assert restarts > 1000
    places = program.placements()
    drawn = Counter(
        frozenset((int(places.shape[p]), int(places.row[p]), int(places.col[p])) for p in pair)
        for pair in placed
    )
    possible = list(enumeration(program, entropy.POSITION_DRAWS)[0][2])
    assert set(drawn) == set(possible)
    chance = np.exp(-grid_nats(table_of(possible), program, len(possible))) * 9**2
    expected = 50_000 * chance / chance.sum()
    assert chisquare([drawn[each] for each in possible], expected).pvalue > 0.01


def test_one_object_has_the_entropy_of_its_draws():
    program = GridDistribution(max_objects=1)
    sample = AtomicImageGenerator(program).draw(20_000, seed=0)
    nats = grid_nats(sample.objects, program, 20_000)
    positions = {shape: (17 - shape.height) * (17 - shape.width) for shape in SHAPES}
    family = Counter(shape.kind for shape in SHAPES)
    row = sample.objects[0]
    shape = SHAPES[row["shape"]]
    assert nats[0] == pytest.approx(math.log(11 * family[shape.kind] * 9 * positions[shape]))


def test_the_compressor_needs_more_than_the_bound():
    program = GridDistribution()
    sample = AtomicImageGenerator(program).draw(3000, seed=0)
    bound = program_entropy(sample.grids, sample.objects, program)
    assert 38 < bound.low < bound.mean < bound.high < 42
    assert compressor_nats(sample.grids) > bound.high


def test_more_objects_hold_more_information():
    sample = AtomicImageGenerator(GridDistribution()).draw(2000, seed=0)
    nats = grid_nats(sample.objects, GridDistribution(), 2000)
    number = np.bincount(sample.objects["grid"])
    means = [nats[number == n].mean() for n in range(1, 7)]
    assert np.diff(means).min() > 5


def test_hiding_objects_are_counted_in_their_drawn_order():
    program = GridDistribution(overlap=True, min_objects=2, max_objects=2)
    sample = AtomicImageGenerator(program).draw(500, seed=0)
    apart = GridDistribution(min_objects=2, max_objects=2, spacing=0)
    assert np.isfinite(grid_nats(sample.objects, program, 500)).all()
    # Alone, the drawn order has at most half of the chance that both orders have together.
    two = AtomicImageGenerator(apart).draw(500, seed=0)
    gap = grid_nats(two.objects, program, 500) - grid_nats(two.objects, apart, 500)
    assert gap.min() > math.log(2) - 1e-6
    assert gap.mean() < math.log(2) + 0.3


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (GridDistribution(max_objects=2), "at most 2"),
        (GridDistribution(kinds={"plus": 1.0}), "shapes that the program never draws"),
        (GridDistribution(min_objects=6), "do not belong together"),
    ],
)
def test_a_table_of_another_program_is_refused(program, message):
    sample = AtomicImageGenerator(GridDistribution()).draw(200, seed=0)
    with pytest.raises(ValueError, match=message):
        grid_nats(sample.objects, program, 200)
