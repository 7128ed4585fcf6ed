"""The ten colours of the ARC tasks (Chollet 2019, "On the Measure of Intelligence").

The RGB values are those of the ARC-AGI task viewer.
"""

import numpy as np
import numpy.typing as npt

_RGB = {
    "black": (0, 0, 0),
    "blue": (0, 116, 217),
    "red": (255, 65, 54),
    "green": (46, 204, 64),
    "yellow": (255, 220, 0),
    "grey": (170, 170, 170),
    "magenta": (240, 18, 190),
    "orange": (255, 133, 27),
    "azure": (127, 219, 255),
    "maroon": (135, 12, 37),
}
COLOUR_NAMES: tuple[str, ...] = tuple(_RGB)
ARC_PALETTE: tuple[tuple[int, int, int], ...] = tuple(_RGB.values())
COLOURS = len(ARC_PALETTE)
BLACK = 0
PADDING = COLOURS
"""What a smaller grid is padded with on its canvas: no colour."""
PADDING_RGB = (64, 60, 72)


def to_rgb(grids: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """Convert colour numbers (..., height, width) to RGB, uint8 (..., height, width, 3)."""
    return np.take(np.asarray((*ARC_PALETTE, PADDING_RGB), dtype=np.uint8), grids, axis=0)
