"""Draw grids from a `GridDistribution`, vectorised over grids.

`entropy` is derived from this procedure:

1. Draw the number of objects n, uniformly from `min_objects` to `max_objects`.
2. Draw the objects one after another. Each draws its kind by weight, its shape uniformly among the
   legal shapes of its kind, its colour uniformly from 1 to 9; then up to T = `POSITION_DRAWS`
   positions, each uniform over all positions where the shape lies inside the canvas. It takes the
   first one that keeps it `spacing` cells away (Chebyshev distance: diagonals count) from every
   earlier object. With `spacing` 0, objects may touch.
3. If none of the T positions is free, all objects are removed and step 2 starts over with the same
   n.
4. A grid that was drawn before, or is excluded, is dropped: `count` different grids are left.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.grids.distribution import (
    GridDistribution,
    Ints,
    LineGenerator,
    PatternGenerator,
    RectangleGenerator,
    Words,
    collide,
)
from genlab.grids.palette import COLOURS
from genlab.grids.shapes import SHAPES, Grids, Objects

DRAW_ROUNDS = (1, 3, 8, 20)
"""Positions are drawn in rounds: most objects fit at the first draw, few need the last round."""
POSITION_DRAWS = sum(DRAW_ROUNDS)

MIN_BATCH = 256
"""Minimum number of grids drawn at once: fewer would take as long."""
MAX_FRUITLESS = 30_000
"""After this many failed attempts in a row, the objects are taken not to fit at all."""


class GeneratedGrids(NamedTuple):
    """`grids` uint8 (n, size, size), `objects` OBJECT_DTYPE, number of duplicates dropped."""

    grids: Grids
    objects: Objects
    duplicates: int


class AtomicImageGenerator:
    """Compose the shapes of the three generators into grids; the module's docstring says how."""

    def __init__(self, distribution: GridDistribution) -> None:
        self.distribution = distribution
        parts = (RectangleGenerator, LineGenerator, PatternGenerator)
        weights = np.sum([part(distribution).weights for part in parts], axis=0)
        self.shape_probabilities = weights / weights.sum()
        self.placements = distribution.placements()

    def generate(
        self, count: int, seed: int | Sequence[int], excluded: Words | None = None
    ) -> GeneratedGrids:
        """Draw `count` different grids, none of which has a hash in `excluded`.

        Raises a GenlabError where the objects do not fit, or where there are fewer different grids.
        """
        rng = np.random.default_rng(seed)
        size = self.distribution.size
        grids = np.empty((count, size, size), dtype=np.uint8)
        tables: list[Objects] = []
        seen = np.empty(0, dtype=np.uint64)
        excluded = seen if excluded is None else excluded
        drawn = 0
        while (missing := count - len(seen)) > 0:
            if drawn > 50_000 + 20 * count:
                raise GenlabError(
                    f"params.yaml: grids: only {len(seen)} different grids found in {drawn} draws,"
                    f" {count} asked for: lower count or allow more objects",
                    key="grids",
                )
            batch, objects = self._draw_batch(rng, missing + missing // 50 + MIN_BATCH)
            keys = hash_grids(batch)
            distinct, first = np.unique(keys, return_index=True)
            known = np.concatenate([seen, excluded])
            chosen = np.sort(first[np.isin(distinct, known, invert=True)])[:missing]
            end = len(seen) + len(chosen)
            batch.take(chosen, axis=0, out=grids[len(seen) : end], mode="clip")
            table = take_objects(objects, chosen, len(batch))
            table["grid"] += len(seen)
            tables.append(table)
            seen = np.concatenate([seen, keys[chosen]])
            drawn += int(chosen[-1]) + 1 if end == count else len(batch)
        return GeneratedGrids(grids, np.concatenate(tables), drawn - count)

    def _draw_batch(self, rng: np.random.Generator, count: int) -> tuple[Grids, Objects]:
        """`count` grids, repeats included, and their objects."""
        low, high = self.distribution.min_objects, self.distribution.max_objects
        number = rng.integers(low, high + 1, count, dtype=np.int32)
        placed = np.full((count, high), -1, dtype=np.int32)
        for n in range(low, high + 1):
            rows = np.flatnonzero(number == n)
            placed[rows, :n] = self.draw_placements(rng, n, len(rows))
        return self._render(rng, placed)

    def draw_placements(self, rng: np.random.Generator, n: int, count: int) -> Ints:
        """Placements of `n` objects for each of `count` grids: int32 (count, n)."""
        found = [np.empty((0, n), dtype=np.int32)]
        missing, fruitless = count, 0
        while missing > 0:
            attempts = max(missing, MIN_BATCH)
            found.append(self._attempt(rng, n, attempts)[:missing])
            missing -= len(found[-1])
            fruitless = 0 if len(found[-1]) else fruitless + attempts
            if fruitless > MAX_FRUITLESS:
                raise GenlabError(
                    f"params.yaml: grids: {n} objects with spacing {self.distribution.spacing}"
                    f" don't fit size {self.distribution.size}: lower max_objects or spacing",
                    key="grids",
                )
        return np.concatenate(found)

    def _attempt(self, rng: np.random.Generator, n: int, attempts: int) -> Ints:
        """One attempt at each of some grids of `n` objects: the successful ones, (found, n)."""
        halo = self.placements.halo
        placed = np.empty((attempts, n), dtype=np.int32)
        taken = np.zeros((attempts, halo.shape[1]), dtype=np.uint64)
        fits = np.ones(attempts, dtype=np.bool_)
        for turn in range(n):
            placed[:, turn], failed = self._place(rng, taken)
            fits[failed] = False
            taken |= halo.take(placed[:, turn], axis=0)
        return placed[fits]

    def _place(self, rng: np.random.Generator, taken: Words) -> tuple[Ints, npt.NDArray[np.intp]]:
        """Place one more object in each grid: placements, and the indices of grids without one."""
        places = self.placements
        shape = rng.choice(len(SHAPES), len(taken), p=self.shape_probabilities)
        first, count = places.first.take(shape), places.count.take(shape)
        placed = first + (rng.random(len(taken)) * count).astype(np.int32)
        waiting = np.flatnonzero(collide(places.cells.take(placed, axis=0), taken))
        for draws in DRAW_ROUNDS[1:]:
            position = rng.random((draws, len(waiting))) * count.take(waiting)
            tried = first.take(waiting) + position.astype(np.int32)
            blocked = collide(places.cells.take(tried, axis=0), taken.take(waiting, axis=0))
            placed[waiting] = tried[blocked.argmin(axis=0), np.arange(len(waiting))]
            waiting = waiting[blocked.all(axis=0)]
        return placed, waiting

    def _render(self, rng: np.random.Generator, placed: Ints) -> tuple[Grids, Objects]:
        """Colour the placements, -1 for none: the grids and the table of their objects."""
        places, size = self.placements, self.distribution.size
        is_placed = placed >= 0
        objects = places.objects.take(placed[is_placed])
        objects["grid"] = np.repeat(np.arange(len(placed)), is_placed.sum(axis=1))
        objects["colour"] = colour = rng.integers(1, COLOURS, len(objects), dtype=np.uint8)
        grids = np.zeros((len(placed), size, size), dtype=np.uint8)
        flat = grids.reshape(-1)
        corner = (objects["grid"].astype(np.intp) * size + objects["row"]) * size + objects["col"]
        cells, shape = objects["cells"].copy(), objects["shape"].copy()
        for count in np.unique(cells):  # the objects of `count` cells, all at once
            chosen = np.flatnonzero(cells == count)
            offsets = places.offsets[:, :count].take(shape.take(chosen), axis=0)
            flat[corner.take(chosen)[:, None] + offsets] = colour.take(chosen)[:, None]
        return grids, objects


def hash_grids(grids: Grids) -> Words:
    """A 64-bit key of each grid (multilinear hash), the same for equal grids.

    So no duplicate is ever kept; the probability that two of 100,000 different grids share a key,
    and one of them is dropped, is below 1e-8.
    """
    flat = grids.reshape(len(grids), -1)
    words = np.pad(flat, ((0, 0), (0, -flat.shape[1] % 4))).view(np.uint32)
    salt = np.random.default_rng(1).integers(0, 2**64, words.shape[1], dtype=np.uint64)
    return words @ salt


def take_objects(objects: Objects, chosen: npt.NDArray[np.int64], count: int) -> Objects:
    """The objects of the chosen grids of `count`, renumbered to their place in `chosen`.

    `objects` is OBJECT_DTYPE sorted by grid; so is the result, with each grid's order kept.
    """
    place = np.full(count, len(chosen))
    place[chosen] = np.arange(len(chosen))
    table: Objects = objects[place[objects["grid"]] < len(chosen)]
    table["grid"] = place[table["grid"]]
    return table[np.argsort(table["grid"], kind="stable")]
