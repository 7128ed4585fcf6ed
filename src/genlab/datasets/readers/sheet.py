"""A contact sheet of pictures: a row per class, or rows of any pictures."""

from __future__ import annotations

import numpy as np
from PIL import Image

from genlab.datasets.readers.grids import OwnGrids
from genlab.datasets.readers.opening import OwnPictures
from genlab.grids.palette import to_rgb

ROWS, COLUMNS, GAP = 12, 12, 2  # classes, pictures of each, pixels between them
SHOWN = 64  # least side of a picture on it


def draw_sheet(items: OwnPictures | OwnGrids) -> Image.Image:
    """Draw a contact sheet: a row per class, of at most ROWS classes, or rows of any items."""
    levels = to_rgb(items.grids) if isinstance(items, OwnGrids) else items.fitted.levels
    if isinstance(items, OwnPictures) and items.classes:
        rows = [np.flatnonzero(items.labels == number) for number in range(len(items.classes))]
    else:
        rows = np.array_split(np.arange(len(levels)), min(ROWS, -(-len(levels) // COLUMNS)))
    side = levels.shape[1] * max(1, -(-SHOWN // levels.shape[1]))
    step = side + GAP
    shown = rows[:ROWS]
    columns = min(COLUMNS, max(map(len, shown)))
    image = Image.new("RGB", (columns * step + GAP, len(shown) * step + GAP), "grey")
    for row, members in enumerate(shown):
        spread = np.linspace(0, len(members) - 1, min(columns, len(members))).astype(int)
        for column, index in enumerate(members[spread]):
            pixels = levels[index]
            tile = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
            tile = tile.resize((side, side), Image.Resampling.NEAREST)
            image.paste(tile, (GAP + column * step, GAP + row * step))
    return image
