"""How much faster the vectorised generator is than a plain loop over objects.

The loop obeys the same program (`genlab.grids.generator`) and does what one would write by hand: one
grid after another, one object after another, with slices of numpy arrays. It is not made slow:
masks and their surroundings are worked out beforehand, a collision is one AND of a slice, and
numbers come from Python's `random`, which for single numbers is quicker than numpy. Its grids are
parsed and must be legal. Neither side uses more than one thread; both are timed in CPU seconds, in
turn, after a warm-up. The generator pays for dropping duplicates too, the loop does not.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer

from genlab.core.errors import GenlabError, run_cli
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import POSITION_DRAWS, AtomicImageGenerator
from genlab.grids.parser import is_valid
from genlab.grids.shapes import KINDS, OBJECT_DTYPE, SHAPES
from record import record
from spread import median, shown

Grids = npt.NDArray[np.uint8]
Plan = tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], int, int]
Row = tuple[int, ...]


class PlainLoop:
    """The default program (spacing 1, no overlap), one object at a time."""

    def __init__(self, program: GridDistribution, seed: int) -> None:
        self.program = program
        self.draw = random.Random(seed).randrange
        self.plans: list[list[Plan]] = [[] for _ in KINDS]
        for index, shape in enumerate(SHAPES):
            plan = (shape.mask, surrounded(shape.mask), shape.cells, index)
            self.plans[shape.kind].append(plan)

    def generate(self, count: int) -> tuple[Grids, npt.NDArray[np.void]]:
        size = self.program.size
        grids = np.zeros((count, size, size), dtype=np.uint8)
        rows: list[Row] = []
        for index in range(count):
            number = self.draw(self.program.min_objects, self.program.max_objects + 1)
            while (objects := self.attempt(index, number, grids[index])) is None:
                grids[index] = 0
            rows += objects
        return grids, np.array(rows, dtype=OBJECT_DTYPE)

    def attempt(self, index: int, number: int, grid: Grids) -> list[Row] | None:
        """Draw `number` objects into `grid`: their rows, or None where one finds no place."""
        size = self.program.size
        taken = np.zeros((size + 2, size + 2), dtype=np.bool_)
        rows: list[Row] = []
        for _ in range(number):
            kind = self.draw(len(KINDS))
            plans = self.plans[kind]
            mask, around, cells, shape = plans[self.draw(len(plans))]
            colour = self.draw(1, 10)
            height, width = mask.shape
            for _ in range(POSITION_DRAWS):
                row, col = self.draw(size - height + 1), self.draw(size - width + 1)
                if not (taken[row : row + height + 2, col : col + width + 2] & around).any():
                    break
            else:
                return None
            grid[row : row + height, col : col + width][mask] = colour
            taken[row + 1 : row + 1 + height, col + 1 : col + 1 + width] |= mask
            rows.append((index, kind, colour, row, col, height, width, cells, shape))
        return rows


def surrounded(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The mask and every cell that touches it, in a frame one cell wider on all sides."""
    height, width = mask.shape
    around = np.zeros((height + 2, width + 2), dtype=np.bool_)
    for down in range(3):
        for right in range(3):
            around[down : down + height, right : right + width] |= mask
    return around


def rate(make: Callable[[int], object], count: int) -> float:
    """Grids per CPU second."""
    start = time.process_time()
    make(count)
    return count / (time.process_time() - start)


def bench(
    count: Annotated[
        int, typer.Option(min=1, help="Grids the generator draws a repeat.")
    ] = 100_000,
    loop_count: Annotated[int, typer.Option(min=1, help="Grids the loop draws a repeat.")] = 5_000,
    repeats: Annotated[int, typer.Option(min=5, help="Repeats, taken in turn.")] = 9,
    seed: Annotated[int, typer.Option(help="Seed of both.")] = 0,
    output: Annotated[Path, typer.Option(help="File the result goes to.")] = Path(
        "results/benchmarks.json"
    ),
) -> None:
    """Measure the generator against a plain loop; write `grids.generator_speedup`."""
    program = GridDistribution()
    generator, loop = AtomicImageGenerator(program), PlainLoop(program, seed)
    grids, _ = loop.generate(1000)
    if not is_valid(grids, program.min_objects, program.max_objects).all():
        raise GenlabError("benchmarks/generator.py: the plain loop broke the rules; mend it")
    generator.draw(count, seed)
    ours, plain = np.array(
        [
            (rate(lambda n: generator.draw(n, seed), count), rate(loop.generate, loop_count))
            for _ in range(repeats)
        ]
    ).T
    ratios = ours / plain
    speedup, interval = median(ratios, seed)
    print(f"{'':<12}{'grids per CPU second (median)':>32}")
    print(f"{'generator':<12}{np.median(ours):>32,.0f}")
    print(f"{'plain loop':<12}{np.median(plain):>32,.0f}")
    print(f"speed-up {speedup:.1f}, 95 % interval {shown(interval, '.1f')}, {repeats} repeats")
    record(
        "grids.generator_speedup",
        speedup,
        interval=interval,
        n=repeats,
        seeds=[seed],
        command="python benchmarks/generator.py",
        path=output,
    )


if __name__ == "__main__":
    run_cli(lambda: typer.run(bench))
