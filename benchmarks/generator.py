"""Speed of the vectorised grid generator relative to a plain loop over objects.

The loop draws from the same distribution (`genlab.grids.generator`), one grid and one object after
another, with slices of numpy arrays. It is written to be fast: masks and their surroundings are
computed once, a collision is one AND of a slice, and numbers come from Python's `random`, which is
faster than numpy for single numbers. Its grids are parsed and must be valid. Both sides use one
thread and are timed in CPU seconds, alternately, after a warm-up. The generator also removes
duplicates; the loop does not.
"""

import random
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.ndimage import binary_dilation

from benchmarks.harness import Repeats, Result, benchmark, cpu_seconds
from genlab.core.errors import GenlabError
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import POSITION_DRAWS, AtomicImageGenerator
from genlab.grids.parser import is_valid
from genlab.grids.shapes import KINDS, OBJECT_DTYPE, SHAPES

Grids = npt.NDArray[np.uint8]
Plan = tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], int, int]
Row = tuple[int, ...]

COUNT = 100_000  # grids of the generator per repeat
LOOP_COUNT = 5_000  # grids of the loop per repeat


class PlainLoop:
    """Draw from the default distribution (spacing 1), one object at a time."""

    def __init__(self, distribution: GridDistribution, seed: int) -> None:
        self.distribution = distribution
        self.draw = random.Random(seed).randrange
        self.plans: list[list[Plan]] = [[] for _ in KINDS]
        for index, shape in enumerate(SHAPES):
            touching = binary_dilation(np.pad(shape.mask, 1), np.ones((3, 3)))
            self.plans[shape.kind].append((shape.mask, touching, shape.cells, index))

    def generate(self, count: int) -> tuple[Grids, npt.NDArray[np.void]]:
        size = self.distribution.size
        grids = np.zeros((count, size, size), dtype=np.uint8)
        rows: list[Row] = []
        for index in range(count):
            number = self.draw(self.distribution.min_objects, self.distribution.max_objects + 1)
            objects = self.attempt(index, number, grids[index])
            while objects is None:
                grids[index] = 0
                objects = self.attempt(index, number, grids[index])
            rows += objects
        return grids, np.array(rows, dtype=OBJECT_DTYPE)

    def attempt(self, index: int, number: int, grid: Grids) -> list[Row] | None:
        """Draw `number` objects into `grid`: their rows, or None where one of them does not fit."""
        size = self.distribution.size
        taken = np.zeros((size + 2, size + 2), dtype=np.bool_)
        rows: list[Row] = []
        for _ in range(number):
            kind = self.draw(len(KINDS))
            plans = self.plans[kind]
            mask, around, cells, shape = plans[self.draw(len(plans))]
            colour = self.draw(1, 10)
            height, width = mask.shape
            for _ in range(POSITION_DRAWS):
                row = self.draw(size - height + 1)
                col = self.draw(size - width + 1)
                if not (taken[row : row + height + 2, col : col + width + 2] & around).any():
                    break
            else:
                return None
            grid[row : row + height, col : col + width][mask] = colour
            taken[row + 1 : row + 1 + height, col + 1 : col + 1 + width] |= mask
            rows.append((index, kind, colour, row, col, height, width, cells, shape))
        return rows


@benchmark("grids.generator_speedup")
def generator(repeats: Repeats = 9) -> Iterator[Result]:
    """Time the generator against a plain loop."""
    distribution = GridDistribution()
    ours = AtomicImageGenerator(distribution)
    loop = PlainLoop(distribution, seed=0)
    grids, _ = loop.generate(1000)
    if not is_valid(grids, distribution.min_objects, distribution.max_objects).all():
        raise GenlabError("benchmarks/generator.py: the plain loop draws invalid grids; fix it")
    ours.generate(COUNT, 0)
    speedups = []
    for _ in range(repeats):
        fast = COUNT / cpu_seconds(lambda: ours.generate(COUNT, 0))
        slow = LOOP_COUNT / cpu_seconds(lambda: loop.generate(LOOP_COUNT))
        print(f"generator {fast:,.0f}, plain loop {slow:,.0f} grids per CPU second")
        speedups.append(fast / slow)
    yield Result.median("grids.generator_speedup", speedups)
