"""Peak resident memory of the stages generate and split on a dataset of CelebA's size.

Builds a folder in CelebA's format (a few photographs of noise under many names) and runs both
stages' work on it in a child process. While it runs, it needs about 250,000 small files and, at
200,000 images, 5 GB of disk where TMPDIR is.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from PIL import Image

from benchmarks.harness import ROOT, Result, benchmark, run_measured

PHOTOGRAPHS = 64
CHILD = """
import resource, sys
from pathlib import Path
from torchvision.datasets import CelebA
from torchvision.datasets.utils import calculate_md5
from genlab.core.params import load_params
from genlab.datasets.generating import generate
from genlab.datasets.splitting import split

raw, params_file = Path(sys.argv[1]), sys.argv[2]
sums = lambda name: "" if name.endswith(".zip") else calculate_md5(raw / "celeba" / name)
CelebA.file_list = [(key, sums(name), name) for key, _, name in CelebA.file_list]
params = load_params(params_file)
params = params.model_copy(update={"images": params.images.model_copy(update={"raw": str(raw)})})
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
show = lambda done: print(f"peak after {done:<20}{peak():>8,.0f} MiB")
show("libraries imported")
generate("celeba", params, raw / "generated" / "celeba")
show("generate")
split("celeba", params, raw / "generated" / "celeba", raw / "split" / "celeba", 0)
show("split")
"""


def simulate(raw: Path, count: int) -> None:
    """Write CelebA's five tables and `count` photographs (links to a few) under `raw`/celeba."""
    folder = raw / "celeba" / "img_align_celeba"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for index in range(PHOTOGRAPHS):
        coarse = rng.integers(0, 256, (12, 10, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((178, 218)).save(raw / f"{index}.jpg")
    names = [f"{index + 1:06d}.jpg" for index in range(count)]
    for index, name in enumerate(names):
        os.link(raw / f"{index % PHOTOGRAPHS}.jpg", folder / name)
    signs = rng.choice([-1, 1], (count, 40))
    attributes = [f"Attribute{i}" for i in range(38)] + ["Male", "Smiling"]
    official_splits = np.digitize(np.arange(count) / count, (0.8, 0.9))
    tables = {
        "list_eval_partition.txt": ("", official_splits[:, None]),
        "identity_CelebA.txt": ("", rng.integers(1, 2 + count // 20, (count, 1))),
        "list_bbox_celeba.txt": (f"{count}\nimage_id x_1 y_1 width height\n", signs[:, :4] + 99),
        "list_landmarks_align_celeba.txt": (f"{count}\nlefteye_x\n", signs[:, :10] + 99),
        "list_attr_celeba.txt": (f"{count}\n{' '.join(attributes)}\n", signs),
    }
    for file, (head, values) in tables.items():
        rows = pd.DataFrame(values, index=names).to_csv(sep=" ", header=False)
        (raw / "celeba" / file).write_text(head + rows, encoding="utf-8")


@benchmark("images.memory_mib")
def image_memory(
    count: Annotated[int, typer.Option(min=1000, help="Images to simulate.")] = 200_000,
) -> Iterator[Result]:
    """Measure the peak memory of generate and split for images of 64 x 64 pixels."""
    with tempfile.TemporaryDirectory() as name:
        simulate(Path(name), count)
        command = [sys.executable, "-c", CHILD, name, ROOT / "params.yaml"]
        _, highest = run_measured(command, ROOT)
    yield Result("images.memory_mib", highest / 2**20, n=count)
