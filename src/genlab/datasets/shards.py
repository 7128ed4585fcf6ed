"""Grids beyond the first 100,000: drawn in shards, by any number of workers, for training only.

The first shard is a complete dataset, with objects and all splits. Every other one holds grids for
training. Shard i is drawn from seed (seed, i) and holds no grid of the first one, so that no grid
of the validation and test splits is trained on; two other shards may hold the same grid.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from genlab.core.io import atomic_write, encode_npz, read_npz, write_bytes
from genlab.core.params import Params
from genlab.core.progress import progress
from genlab.core.workers import parallel_map
from genlab.datasets.manifests import generate_command
from genlab.grids.distribution import GridDistribution, Words
from genlab.grids.generator import AtomicImageGenerator, hash_grids
from genlab.grids.shapes import Grids

SHARD = 100_000
"""Grids per shard: 3 MB compressed, drawn in a second."""
GRIDS_KIND = "grids"
TRAIN_FILE = "train.npy"


class Shard(NamedTuple):
    """A shard to draw: `size` grids from `seed`, none of which has a hash in `excluded`."""

    distribution: GridDistribution
    size: int
    seed: tuple[int, int]
    excluded: Words


def draw_shard(shard: Shard) -> bytes:
    """Draw a shard's grids; return the content of its file, an npz with key grids."""
    generator = AtomicImageGenerator(shard.distribution)
    generated = generator.generate(shard.size, shard.seed, shard.excluded)
    return encode_npz({"grids": generated.grids}, kind=GRIDS_KIND)


def write_shards(
    distribution: GridDistribution, first: Grids, count: int, params: Params, folder: Path
) -> list[str]:
    """Draw the shards after the `first`, for `count` grids in all; return their files' names.

    A shard whose file is in `folder` already is not drawn again, so that a killed run resumes.
    """
    names = [f"grids_{index:05d}.npz" for index in range(1, -(-count // SHARD))]
    missing = [name for name in names if not (folder / name).exists()]
    excluded = hash_grids(first)

    def list_shards() -> Iterator[Shard]:
        for name in missing:
            index = int(name[6:11])
            size = min(SHARD, count - index * SHARD)
            yield Shard(distribution, size, (params.seed, index), excluded)

    contents = parallel_map(draw_shard, list_shards(), params)
    with progress(total=count, initial=(len(names) - len(missing)) * SHARD, unit="grid") as bar:
        bar.update(len(first))
        for name, content in zip(missing, contents, strict=True):
            write_bytes(folder / name, content)
            bar.update(SHARD)
    return names


def join_shards(train: Grids, folder: Path, names: list[str], count: int, file: Path) -> None:
    """Write `train` and then the shards `names` of `folder`, `count` grids in all, into one file.

    Readers map the file from disk, so it may be larger than memory.
    """
    command = generate_command("arc_grids")
    header = {"descr": "|u1", "fortran_order": False, "shape": (count, *train.shape[1:])}
    with atomic_write(file) as temporary, temporary.open("wb") as joined:
        np.lib.format.write_array_header_1_0(joined, header)
        joined.write(train.tobytes())
        for name in progress(names, unit="shard"):
            shard = folder / name
            arrays = read_npz(shard, kind=GRIDS_KIND, keys=["grids"], producer_command=command)
            joined.write(arrays["grids"].tobytes())
