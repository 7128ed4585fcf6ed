"""A grid that a person pasted, and what the parser says about it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.evaluation.diagnostics.gallery import tile
from genlab.evaluation.diagnostics.grid_attributes import faults
from genlab.grids.palette import COLOURS
from genlab.grids.parser import Components, find_components

Grid = npt.NDArray[np.uint8]

LONGEST_SIDE = 64
LONGEST_TEXT = 40_000
EXAMPLE = """\
0000000000
0222000000
0202003000
0222000300
0000000030
0000000000
"""


@dataclass(frozen=True, eq=False)
class Reading:
    """A grid with what the parser makes of it: legal objects, stray cells, faults in words."""

    grid: Grid
    parsed: Components
    faults: list[str]

    @property
    def legal(self) -> bool:
        """Whether every coloured cell belongs to a legal object, and there is one."""
        return not self.parsed.stray.any() and len(self.parsed.legal) > 0

    @property
    def sentence(self) -> str:
        """The parser's verdict."""
        count, stray = len(self.parsed.legal), int(self.parsed.stray.sum())
        if not count and not stray:
            return "The grid is all black: there is nothing to take apart."
        objects = f"{count} legal object{'s' * (count != 1)}"
        if not stray:
            return f"Legal: {objects}, no stray cell."
        return f"Not legal: {objects}, {stray} stray cell{'s' * (stray != 1)}."

    @property
    def marked(self) -> str:
        """The grid as a data URI, its stray cells outlined."""
        return tile(self.grid, self.parsed.stray[0])


def read(grid: Grid) -> Reading:
    """Parse a grid, uint8 (height, width), colours 0 to 9."""
    return Reading(grid, find_components(grid[None]), faults(grid))


def from_text(text: str) -> Grid:
    """A grid from what a person pastes: JSON rows as in ARC's files, or rows of digits.

    Raises a GenlabError of one line that names the row and what stands there.
    """
    if len(text) > LONGEST_TEXT:
        raise GenlabError(f"the text has {len(text)} characters, {LONGEST_TEXT} are the most")
    if not text.strip():
        raise GenlabError("the text is empty; paste rows of digits 0 to 9, or ARC's JSON rows")
    rows = _json_rows(text) if text.lstrip().startswith("[") else _digit_rows(text)
    if len({len(row) for row in rows}) != 1:
        first, odd = next((0, i) for i, row in enumerate(rows) if len(row) != len(rows[0]))
        raise GenlabError(
            f"row {odd + 1} has {len(rows[odd])} cells, row {first + 1} has {len(rows[first])};"
            " make all rows equally long"
        )
    if max(len(rows), len(rows[0])) > LONGEST_SIDE:
        raise GenlabError(
            f"the grid is {len(rows)} x {len(rows[0])}; {LONGEST_SIDE} cells are the longest side"
        )
    return np.array(rows, dtype=np.uint8)


def _json_rows(text: str) -> list[list[int]]:
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise GenlabError(f"the text begins like JSON but is none ({error}); mend it") from error
    if not all(isinstance(row, list) and row for row in rows) or not rows:
        raise GenlabError("JSON must be a list of rows, each a list of colours, [[0, 1], [2, 0]]")
    for number, row in enumerate(rows, 1):
        for cell in row:
            if type(cell) is not int or not 0 <= cell < COLOURS:
                raise GenlabError(_no_colour(number, json.dumps(cell)[:20]))
    return [list(row) for row in rows]


def _digit_rows(text: str) -> list[list[int]]:
    lines = [re.sub(r"[\s,;|]", "", line) for line in text.splitlines()]
    rows = [line for line in lines if line]
    for number, line in enumerate(rows, 1):
        bad = re.search(r"[^0-9]", line, flags=re.ASCII)
        if bad:
            raise GenlabError(_no_colour(number, repr(bad[0])))
    return [[int(digit) for digit in line] for line in rows]


def _no_colour(row: int, found: str) -> str:
    return f"row {row} holds {found}, which is no colour; colours are 0 to {COLOURS - 1}"
