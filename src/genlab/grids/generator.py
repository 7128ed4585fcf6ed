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
"""Positions are drawn in rounds of growing size: most objects fit at the first draw."""
POSITION_DRAWS = sum(DRAW_ROUNDS)

MIN_BATCH = 256
"""Minimum number of grids drawn at once: fewer would take as long."""
MAX_FRUITLESS = 30_000
"""Number of failed attempts in a row after which the objects count as too many for the canvas."""


class GeneratedGrids(NamedTuple):
    """Grids, uint8 (n, size, size); their objects, OBJECT_DTYPE; number of duplicates dropped."""

    grids: Grids
    objects: Objects
    duplicates: int


class AtomicImageGenerator:
    """Compose the shapes of the three generators into grids; the module's docstring says how."""

    def __init__(self, distribution: GridDistribution) -> None:
        self.distribution = distribution
        generators = (RectangleGenerator, LineGenerator, PatternGenerator)
        weights = np.sum([generator(distribution).weights for generator in generators], axis=0)
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
        hashes = np.empty(0, dtype=np.uint64)  # of the grids that are finished
        if excluded is None:
            excluded = hashes
        drawn = 0
        while len(hashes) < count:
            finished = len(hashes)
            missing = count - finished
            if drawn > 50_000 + 20 * count:
                raise GenlabError(
                    f"params.yaml: grids: only {finished} different grids found in {drawn} draws,"
                    f" {count} asked for: lower count or allow more objects",
                    key="grids",
                )
            batch, objects = self._draw_batch(rng, missing + missing // 50 + MIN_BATCH)
            batch_hashes = hash_grids(batch)
            distinct, first = np.unique(batch_hashes, return_index=True)
            is_new = np.isin(distinct, np.concatenate([hashes, excluded]), invert=True)
            chosen = np.sort(first[is_new])[:missing]
            end = finished + len(chosen)
            batch.take(chosen, axis=0, out=grids[finished:end], mode="clip")
            table = take_objects(objects, chosen, len(batch))
            table["grid"] += finished
            tables.append(table)
            hashes = np.concatenate([hashes, batch_hashes[chosen]])
            drawn += int(chosen[-1]) + 1 if end == count else len(batch)
        return GeneratedGrids(grids, np.concatenate(tables), drawn - count)

    def _draw_batch(self, rng: np.random.Generator, count: int) -> tuple[Grids, Objects]:
        """Draw `count` grids, repeats included, and their objects."""
        low = self.distribution.min_objects
        high = self.distribution.max_objects
        object_counts = rng.integers(low, high + 1, count, dtype=np.int32)
        placed = np.full((count, high), -1, dtype=np.int32)
        for n in range(low, high + 1):
            rows = np.flatnonzero(object_counts == n)
            placed[rows, :n] = self.draw_placements(rng, n, len(rows))
        return self._render(rng, placed)

    def draw_placements(self, rng: np.random.Generator, n: int, count: int) -> Ints:
        """Draw placements of `n` objects for each of `count` grids: int32 (count, n)."""
        batches = [np.empty((0, n), dtype=np.int32)]
        missing = count
        fruitless = 0
        while missing > 0:
            attempts = max(missing, MIN_BATCH)
            placed = self._attempt(rng, n, attempts)[:missing]
            batches.append(placed)
            missing -= len(placed)
            fruitless = 0 if len(placed) else fruitless + attempts
            if fruitless > MAX_FRUITLESS:
                raise GenlabError(
                    f"params.yaml: grids: {n} objects with spacing {self.distribution.spacing}"
                    f" don't fit size {self.distribution.size}: lower max_objects or spacing",
                    key="grids",
                )
        return np.concatenate(batches)

    def _attempt(self, rng: np.random.Generator, n: int, attempts: int) -> Ints:
        """Attempt to place `n` objects in each of `attempts` grids: the successes, (grids, n)."""
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
        cells = self.placements.cells
        shape = rng.choice(len(SHAPES), len(taken), p=self.shape_probabilities)
        first = self.placements.first.take(shape)
        count = self.placements.count.take(shape)
        placed = first + (rng.random(len(taken)) * count).astype(np.int32)
        waiting = np.flatnonzero(collide(cells.take(placed, axis=0), taken))
        for draws in DRAW_ROUNDS[1:]:
            position = rng.random((draws, len(waiting))) * count.take(waiting)
            candidates = first.take(waiting) + position.astype(np.int32)
            blocked = collide(cells.take(candidates, axis=0), taken.take(waiting, axis=0))
            placed[waiting] = candidates[blocked.argmin(axis=0), np.arange(len(waiting))]
            waiting = waiting[blocked.all(axis=0)]
        return placed, waiting

    def _render(self, rng: np.random.Generator, placed: Ints) -> tuple[Grids, Objects]:
        """Colour the placements, -1 for none: the grids and the table of their objects."""
        size = self.distribution.size
        is_placed = placed >= 0
        objects = self.placements.objects.take(placed[is_placed])
        objects["grid"] = np.repeat(np.arange(len(placed)), is_placed.sum(axis=1))
        objects["colour"] = colour = rng.integers(1, COLOURS, len(objects), dtype=np.uint8)
        grids = np.zeros((len(placed), size, size), dtype=np.uint8)
        flat = grids.reshape(-1)
        corner = (objects["grid"].astype(np.intp) * size + objects["row"]) * size + objects["col"]
        cells = objects["cells"].copy()
        shape = objects["shape"].copy()
        for count in np.unique(cells):  # the objects of `count` cells, all at once
            chosen = np.flatnonzero(cells == count)
            offsets = self.placements.offsets[:, :count].take(shape.take(chosen), axis=0)
            flat[corner.take(chosen)[:, None] + offsets] = colour.take(chosen)[:, None]
        return grids, objects


def hash_grids(grids: Grids) -> Words:
    """Hash each grid to 64 bits (multilinear hash): uint64 (n,).

    Equal grids have equal hashes, so no duplicate is ever kept. The probability that two of 100,000
    different grids share a hash, and one of them is dropped, is below 1e-8.
    """
    flat = grids.reshape(len(grids), -1)
    words = np.pad(flat, ((0, 0), (0, -flat.shape[1] % 4))).view(np.uint32)
    salt = np.random.default_rng(1).integers(0, 2**64, words.shape[1], dtype=np.uint64)
    return words @ salt


def take_objects(objects: Objects, chosen: npt.NDArray[np.int64], count: int) -> Objects:
    """Select the objects of the grids `chosen` out of `count`, and renumber their grids.

    `objects` is OBJECT_DTYPE sorted by grid; so is the result, with each grid's order kept. A grid
    is numbered by its position in `chosen`.
    """
    position = np.full(count, len(chosen))
    position[chosen] = np.arange(len(chosen))
    table: Objects = objects[position[objects["grid"]] < len(chosen)]
    table["grid"] = position[table["grid"]]
    return table[np.argsort(table["grid"], kind="stable")]
