"""The ten colours of the ARC tasks (Chollet 2019, "On the Measure of Intelligence").

The RGB values are those of the ARC-AGI task viewer, so that pictures look as readers know them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

COLOUR_NAMES: tuple[str, ...] = (
    "black",
    "blue",
    "red",
    "green",
    "yellow",
    "grey",
    "magenta",
    "orange",
    "azure",
    "maroon",
)

ARC_PALETTE: tuple[tuple[int, int, int], ...] = (
    (0, 0, 0),
    (0, 116, 217),
    (255, 65, 54),
    (46, 204, 64),
    (255, 220, 0),
    (170, 170, 170),
    (240, 18, 190),
    (255, 133, 27),
    (127, 219, 255),
    (135, 12, 37),
)

COLOURS = len(ARC_PALETTE)
BLACK = 0


def to_rgb(grids: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """Paint grids of colour numbers: (..., height, width) -> uint8 (..., height, width, 3).

    Raises ValueError where a cell is no colour number 0 to 9.
    """
    if grids.size and (int(grids.min()) < 0 or int(grids.max()) >= COLOURS):
        raise ValueError(f"colours are 0 to {COLOURS - 1}, got {grids.min()} to {grids.max()}")
    return np.take(np.asarray(ARC_PALETTE, dtype=np.uint8), grids, axis=0)
