"""The program that makes grids, vectorised over grids.

The program, word for word (`entropy` is derived from these words):

1. Draw the number of objects n, uniformly from `min_objects` to `max_objects`.
2. Draw the objects one after another. Each draws its kind by weight, its shape uniformly among the
   legal shapes of its kind, its colour uniformly from 1 to 9; then up to T = `POSITION_DRAWS`
   positions, each uniform over all positions where the shape lies inside the canvas. It takes the
   first one that keeps it `spacing` cells away (Chebyshev distance: diagonals count) from every
   earlier object. `spacing` 0 lets objects touch; with `overlap` the first position is taken.
3. If none of the T positions is free, all objects are taken away and step 2 begins again, with the
   same n.
4. A grid that was made before is thrown away: a data set holds `count` different grids.

A block of grids is drawn from its own seed, so blocks can be made in any process and in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from genlab.grids.distribution import (
    GridDistribution,
    LineGenerator,
    PatternGenerator,
    RectangleGenerator,
    ShapeGenerator,
    alias_table,
)
from genlab.grids.palette import COLOURS
from genlab.grids.placements import Ints, Placements, Words, collide
from genlab.grids.shapes import OBJECT_DTYPE, SHAPES

__all__ = [
    "AtomicImageGenerator",
    "Draw",
    "GridDistribution",
    "LineGenerator",
    "PatternGenerator",
    "RectangleGenerator",
    "ShapeGenerator",
]

Grids = npt.NDArray[np.uint8]
Objects = npt.NDArray[np.void]

DRAW_ROUNDS = (1, 3, 8, 20)
"""Positions are drawn in rounds: most objects fit at the first draw, few need the last round."""
POSITION_DRAWS = sum(DRAW_ROUNDS)

BLOCK = 12_800
"""Grids a block: few enough to stay in the cache, and eight blocks hold 100,000 different grids.
Part of the program: another block size gives other grids from the same seed."""
ATTEMPTS = 256
"""Attempts at least that are made at a time: fewer would cost as much."""
MOST_FRUITLESS = 30_000
"""So many attempts in a row without a whole grid, and the objects are taken not to fit at all."""


class Draw(NamedTuple):
    """`grids` uint8 (n, size, size), `objects` OBJECT_DTYPE, and what was thrown away for them."""

    grids: Grids
    objects: Objects
    duplicates: int
    restarts: int


class AtomicImageGenerator:
    """Composes the three generators' shapes into grids by the program in the module's docstring."""

    def __init__(self, program: GridDistribution) -> None:
        self.program = program
        parts = (RectangleGenerator, LineGenerator, PatternGenerator)
        weights = np.sum([part(program).weights for part in parts], axis=0)
        self.shape_probabilities = weights / weights.sum()
        self._keep, self._alias = alias_table(self.shape_probabilities)

    def generate(self, count: int, seed: int, workers: int = 1) -> tuple[Grids, Objects]:
        """`count` different grids and their objects; the same for any number of workers."""
        draw = self.draw(count, seed, workers)
        return draw.grids, draw.objects

    def draw(self, count: int, seed: int, workers: int = 1) -> Draw:
        """As `generate`, and how many duplicates and restarts there were on the way.

        Raises ValueError where the objects can't be placed, or where the program hasn't as many
        different grids.
        """
        if count < 1 or workers < 1:
            raise ValueError(f"count and workers must be >= 1, got {count} and {workers}")
        blocks: list[_Block] = []
        first = np.empty(0, dtype=np.int64)
        while len(first) < count:
            wanted = -(-count // BLOCK) if not blocks else 1
            if len(blocks) > 4 + 20 * count // BLOCK:
                raise ValueError(
                    f"only {len(first)} different grids found in {len(blocks) * BLOCK} draws, "
                    f"{count} asked for: lower count or allow more objects"
                )
            blocks += self._blocks(seed, range(len(blocks), len(blocks) + wanted), workers)
            keys = np.concatenate([block.keys for block in blocks])
            first = np.sort(np.unique(keys, return_index=True)[1])
        return _join(blocks, first[:count])

    def _blocks(self, seed: int, indices: range, workers: int) -> list[_Block]:
        if workers == 1 or len(indices) == 1:
            return [self._block(seed, index) for index in indices]
        with ProcessPoolExecutor(min(workers, len(indices)), get_context("spawn")) as pool:
            return list(pool.map(_block_of, repeat(self.program), repeat(seed), indices))

    def _block(self, seed: int, index: int) -> _Block:
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(index,))))
        placed, restarts = self._place_all(rng, BLOCK)
        grids, objects = self._render(rng, placed)
        return _Block(grids, objects, _hash(grids), restarts)

    def _place_all(self, rng: np.random.Generator, count: int) -> tuple[Ints, int]:
        """Placements int32 (count, max_objects), -1 where there is no object; and restarts."""
        program = self.program
        # Sorted by falling n, the grids that still want an object are always the first ones; of
        # 16 bits, because those are sorted by radix.
        number = rng.integers(program.min_objects, program.max_objects + 1, count, dtype=np.int16)
        waiting = np.argsort(-number, kind="stable")
        placed = np.empty((count, program.max_objects), dtype=np.int32)
        restarts = fruitless = 0
        while len(waiting):
            # The last few grids get several attempts at once; the first whole one counts.
            copies = 1 + ATTEMPTS // len(waiting)
            attempt, whole = self._attempt(rng, np.repeat(number[waiting], copies))
            whole = whole.reshape(-1, copies)
            fits, which = whole.any(axis=1), whole.argmax(axis=1)
            attempt = attempt[np.arange(len(waiting)) * copies + which]
            fruitless = 0 if fits.any() else fruitless + whole.size
            if fruitless > MOST_FRUITLESS:
                raise ValueError(
                    f"{number[waiting[0]]} objects with spacing {program.spacing} don't fit a "
                    f"canvas of size {program.size}: lower max_objects or spacing"
                )
            placed[waiting[fits]] = attempt[fits]
            restarts += int(np.where(fits, which, copies).sum())
            waiting = waiting[~fits]
        return placed, restarts

    def _attempt(
        self, rng: np.random.Generator, number: npt.NDArray[np.int16]
    ) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """One attempt at grids of `number` objects (falling): placements, and which are whole."""
        halo = self.program.placements().halo
        placed = np.full((len(number), self.program.max_objects), -1, dtype=np.int32)
        fits = np.ones(len(number), dtype=np.bool_)
        taken = np.zeros((len(number), halo.shape[1]), dtype=np.uint64)
        for turn in range(int(number[0])):
            live = int(np.searchsorted(-number, -turn))
            placed[:live, turn], found = self._place(rng, taken[:live])
            fits[:live] &= found
            taken[:live] |= halo.take(placed[:live, turn], axis=0)
        return placed, fits

    def _place(self, rng: np.random.Generator, taken: Words) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """One more object for each grid: its placement, and whether it keeps its distance."""
        places = self.program.placements()
        shape = self._shapes(rng, len(taken))
        first, count = places.first.take(shape), places.count.take(shape)
        place = first + (rng.random(len(taken)) * count).astype(np.int32)
        if self.program.overlap:
            return place, np.ones(len(taken), dtype=np.bool_)
        lost = np.flatnonzero(collide(places.cells.take(place, axis=0), taken))
        for draws in DRAW_ROUNDS[1:]:
            tries = rng.random((draws, len(lost))) * count.take(lost)
            tried = first.take(lost) + tries.astype(np.int32)
            blocked = collide(places.cells.take(tried, axis=0), taken.take(lost, axis=0))
            place[lost] = tried[blocked.argmin(axis=0), np.arange(len(lost))]
            lost = lost[blocked.all(axis=0)]
        found = np.ones(len(taken), dtype=np.bool_)
        found[lost] = False
        return place, found

    def _shapes(self, rng: np.random.Generator, count: int) -> Ints:
        slot = rng.random(count) * len(self._keep)
        shape = slot.astype(np.int32)
        return np.where(slot - shape < self._keep.take(shape), shape, self._alias.take(shape))

    def _render(self, rng: np.random.Generator, placed: Ints) -> tuple[Grids, Objects]:
        """Colour the placements and write their cells: the grids and the table of objects."""
        places, size = self.program.placements(), self.program.size
        there = placed >= 0
        grid = np.repeat(np.arange(len(placed), dtype=np.int32), there.sum(axis=1))
        place = placed[there]
        shape = places.shape.take(place)
        row, col, cells = places.row.take(place), places.col.take(place), places.size_of.take(shape)
        colour = rng.integers(1, COLOURS, len(place), dtype=np.uint8)
        grids = np.zeros((len(placed), size, size), dtype=np.uint8)
        corner = (grid.astype(np.intp) * size + row) * size + col
        if self.program.overlap:  # what was drawn later hides what was drawn earlier
            layers = [
                np.flatnonzero(np.nonzero(there)[1] == turn) for turn in range(there.shape[1])
            ]
        else:
            layers = [np.arange(len(place))]
        for layer in layers:
            _paint(grids, corner[layer], shape[layer], colour[layer], places)
        objects = np.empty(len(place), dtype=OBJECT_DTYPE)
        columns = (grid, _KIND.take(shape), colour, row, col)
        sizes = (_HEIGHT.take(shape), _WIDTH.take(shape), cells, shape)
        for name, column in zip(OBJECT_DTYPE.names or (), columns + sizes, strict=True):
            objects[name] = column
        return grids, objects


class _Block(NamedTuple):
    grids: Grids
    objects: Objects
    keys: Words
    restarts: int


_KIND = np.array([shape.kind for shape in SHAPES], dtype=np.uint8)
_HEIGHT = np.array([shape.height for shape in SHAPES], dtype=np.uint8)
_WIDTH = np.array([shape.width for shape in SHAPES], dtype=np.uint8)


def _paint(
    grids: Grids,
    corner: npt.NDArray[np.intp],
    shape: Ints,
    colour: Grids,
    places: Placements,
) -> None:
    """Write the cells of objects, all those of equally many cells at once."""
    flat = grids.reshape(-1)
    size = places.size_of.take(shape).astype(np.uint8)
    order = np.argsort(size, kind="stable")
    ends = np.cumsum(np.bincount(size))
    for cells in np.flatnonzero(np.diff(ends, prepend=0)):
        chosen = order[ends[cells - 1] : ends[cells]]
        offsets = places.offsets[:, :cells].take(shape[chosen], axis=0)
        flat[corner[chosen, None] + offsets] = colour[chosen, None]


def _block_of(program: GridDistribution, seed: int, index: int) -> _Block:
    return AtomicImageGenerator(program)._block(seed, index)


def _hash(grids: Grids) -> Words:
    """A 64-bit key of each grid. Equal grids have equal keys, so no duplicate is ever kept; two
    different grids of 100,000 share a key with a chance of 3e-10, and then one of them is dropped.
    """
    flat = grids.reshape(len(grids), -1)
    if flat.shape[1] % 16:
        flat = np.pad(flat, ((0, 0), (0, -flat.shape[1] % 16)))
    half = flat.shape[1] // 16
    salt = np.random.default_rng(1).integers(0, 2**64, half, dtype=np.uint64)
    keys = np.empty(len(flat), dtype=np.uint64)
    for start in range(0, len(flat), 1024):  # small enough to stay in the cache
        words = flat[start : start + 1024].view("<u8")
        mixed = (words[:, :half] | words[:, half:] << np.uint64(4)) ^ salt
        for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):  # the mixer of splitmix64
            mixed ^= mixed >> np.uint64(31)
            mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
        keys[start : start + 1024] = mixed.sum(axis=1, dtype=np.uint64)
    return keys


def _join(blocks: Sequence[_Block], chosen: npt.NDArray[np.int64]) -> Draw:
    """The chosen grids of all blocks, in order, and their objects with new grid numbers."""
    grids = np.empty((len(chosen), *blocks[0].grids.shape[1:]), dtype=np.uint8)
    tables = []
    for index, block in enumerate(blocks):
        low, high = np.searchsorted(chosen, (index * BLOCK, (index + 1) * BLOCK))
        mine = chosen[low:high] - index * BLOCK
        block.grids.take(mine, axis=0, out=grids[low:high], mode="clip")  # clip: without a buffer
        number = np.full(BLOCK, -1, dtype=np.int32)
        number[mine] = np.arange(low, high, dtype=np.int32)
        number = number.take(block.objects["grid"])
        kept = np.flatnonzero(number >= 0)
        table = block.objects.take(kept)
        table["grid"] = number.take(kept)
        tables.append(table)
    duplicates = int(chosen[-1]) + 1 - len(chosen)
    restarts = sum(block.restarts for block in blocks)
    return Draw(grids, np.concatenate(tables), duplicates, restarts)
