"""The bound is checked against an enumeration that shares no code with it."""

import itertools
import lzma
import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from genlab.grids import entropy
from genlab.grids.distribution import GridDistribution
from genlab.grids.entropy import grid_nats
from genlab.grids.generator import AtomicImageGenerator
from genlab.grids.shapes import KINDS, OBJECT_DTYPE, SHAPES


def enumeration(distribution, draws):
    """Every set of placements with its probability, colours left out, by their number.

    Plain Python over ordered sequences: {n: {frozenset of (shape, row, col): chance}}.
    """
    fitting = {
        index: [
            (row, col)
            for row in range(distribution.size + 1 - shape.height)
            for col in range(distribution.size + 1 - shape.width)
        ]
        for index, shape in enumerate(SHAPES)
        if distribution.kinds.get(KINDS[shape.kind])
    }
    fitting = {index: positions for index, positions in fitting.items() if positions}
    family = Counter(SHAPES[index].kind for index in fitting)
    total = sum(distribution.kinds.values())

    def shape_probability(index):
        kind = SHAPES[index].kind
        return distribution.kinds[KINDS[kind]] / total / family[kind]

    def cells(placement):
        index, row, col = placement
        return [(row + int(r), col + int(c)) for r, c in np.argwhere(SHAPES[index].mask)]

    placements = [(index, *place) for index, places in fitting.items() for place in places]
    apart = {
        (first, second): all(
            max(abs(a - c), abs(b - d)) > distribution.spacing
            for (a, b), (c, d) in itertools.product(cells(first), cells(second))
        )
        for first, second in itertools.product(placements, placements)
    }

    sequences = {(): 1.0}
    sets = {}
    for n in range(1, distribution.max_objects + 1):
        longer = {}
        for earlier, chance in sequences.items():
            for index, positions in fitting.items():
                free = [
                    (index, *position)
                    for position in positions
                    if all(apart[(index, *position), placement] for placement in earlier)
                ]
                p_any_free = 1 - (1 - len(free) / len(positions)) ** draws
                for placement in free:
                    step = shape_probability(index) * p_any_free / len(free)
                    longer[(*earlier, placement)] = chance * step
        sequences = longer
        sets[n] = Counter()
        for sequence, chance in sequences.items():
            sets[n][frozenset(sequence)] += chance
    return sets


def table_of(sets):
    """The object table of these sets of placements, one grid per set, all in colour 1."""
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


@pytest.mark.parametrize(
    "distribution", [TINY, CRAMPED, TOUCHING], ids=["tiny", "cramped", "touching"]
)
@pytest.mark.parametrize("draws", [1, 2, 32])
def test_every_chance_agrees_with_the_enumeration_and_they_sum_to_one(
    distribution, draws, monkeypatch
):
    monkeypatch.setattr(entropy, "POSITION_DRAWS", draws)
    sets = enumeration(distribution, draws)
    successes = {n: sum(chances.values()) for n, chances in sets.items()}
    total = 0.0
    for n, chances in sets.items():
        nats = grid_nats(table_of(chances), distribution, len(chances))
        colours = 9**n
        bound = np.exp(-nats)
        expected = np.array(list(chances.values())) / colours / distribution.max_objects
        assert bound == pytest.approx(expected, rel=1e-9)
        total += bound.sum() * colours / successes[n]
    assert total == pytest.approx(1.0, abs=1e-9)
    if distribution.spacing:
        assert min(successes.values()) < 0.99  # so that the restarts were put to the test


def test_grids_are_drawn_as_often_as_the_formula_says():
    kinds = {"line_horizontal": 3.0, "rectangle_hollow": 1.0}
    distribution = GridDistribution(size=5, min_objects=2, max_objects=2, kinds=kinds)
    generator = AtomicImageGenerator(distribution)
    placed = generator.draw_placements(np.random.default_rng(1), 2, 50_000)
    table = generator.placements.objects[["shape", "row", "col"]]
    drawn = Counter(frozenset(table[pair].tolist()) for pair in placed)
    possible = list(enumeration(distribution, entropy.POSITION_DRAWS)[2])
    assert set(drawn) == set(possible)
    probability = np.exp(-grid_nats(table_of(possible), distribution, len(possible))) * 9**2
    expected = 50_000 * probability / probability.sum()
    assert chisquare([drawn[pair] for pair in possible], expected).pvalue > 0.01


def test_the_bound_grows_with_the_objects_and_is_below_a_compressor():
    distribution = GridDistribution()
    sample = AtomicImageGenerator(distribution).generate(3000, seed=0)
    nats = grid_nats(sample.objects, distribution, 3000)
    assert 38 < nats.mean() < 42
    assert len(lzma.compress(sample.grids.tobytes())) * 8 * math.log(2) > nats.sum()
    number = np.bincount(sample.objects["grid"])
    assert np.diff([nats[number == n].mean() for n in range(1, 7)]).min() > 5
