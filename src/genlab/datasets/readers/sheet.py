"""A contact sheet of pictures: a row per class, or rows of any pictures."""

from __future__ import annotations

import numpy as np
from PIL import Image

from genlab.datasets.readers.grids import OwnGrids
from genlab.datasets.readers.opening import OwnPictures
from genlab.grids.palette import to_rgb

ROWS = 12  # maximum number of classes
COLUMNS = 12  # maximum number of pictures per row
GAP = 2  # pixels between pictures
MIN_SIDE = 64  # minimum side of a picture on the sheet, in pixels


def draw_sheet(items: OwnPictures | OwnGrids) -> Image.Image:
    """Draw a contact sheet: a row per class, of at most ROWS classes, or rows of any items."""
    levels = to_rgb(items.grids) if isinstance(items, OwnGrids) else items.fitted.levels
    if isinstance(items, OwnPictures) and items.classes:
        rows = [np.flatnonzero(items.labels == number) for number in range(len(items.classes))]
    else:
        rows = np.array_split(np.arange(len(levels)), min(ROWS, -(-len(levels) // COLUMNS)))
    rows = rows[:ROWS]
    side = levels.shape[1] * max(1, -(-MIN_SIDE // levels.shape[1]))
    step = side + GAP
    columns = min(COLUMNS, max(map(len, rows)))
    image = Image.new("RGB", (columns * step + GAP, len(rows) * step + GAP), "grey")
    for row, members in enumerate(rows):
        spread = np.linspace(0, len(members) - 1, min(columns, len(members))).astype(int)
        for column, index in enumerate(members[spread]):
            pixels = levels[index]
            tile = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
            tile = tile.resize((side, side), Image.Resampling.NEAREST)
            image.paste(tile, (GAP + column * step, GAP + row * step))
    return image
