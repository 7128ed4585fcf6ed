"""The folder that stage generate writes: grids, objects and a manifest, checked when read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.io import read_json, read_npz, sha256, write_json, write_npz
from genlab.datasets.arc_grids import GENERATE, GRIDS_KIND, OBJECTS_KIND, read_objects, validate
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import Draw

MANIFEST_KIND = "generated_grids"
FILES = ("grids.npz", "objects.npz")


@dataclass(frozen=True, eq=False)
class Generated:
    """Grids, uint8 (n, size, size), their objects, and the program they were drawn from."""

    folder: Path
    grids: npt.NDArray[np.uint8]
    objects: npt.NDArray[np.void]
    program: GridDistribution
    manifest: dict[str, Any]


def write_generated(
    folder: Path, draw: Draw, program: GridDistribution, dataset: str, seed: int
) -> None:
    """Write `grids.npz` (key grids), `objects.npz` (key objects), and `manifest.json` last."""
    write_npz(folder / FILES[0], {"grids": draw.grids}, kind=GRIDS_KIND)
    write_npz(folder / FILES[1], {"objects": draw.objects}, kind=OBJECTS_KIND)
    manifest = {
        "kind": MANIFEST_KIND,
        "version": 1,
        "dataset": dataset,
        "count": len(draw.grids),
        "objects": len(draw.objects),
        "duplicates_dropped": draw.duplicates,
        "seed": seed,
        "program": asdict(program),
        "sha256": {name: sha256(folder / name) for name in FILES},
    }
    write_json(folder / "manifest.json", manifest)


def read_generated(folder: Path) -> Generated:
    """Read the folder and check it: checksums, shape, colours, and that its parts fit together.

    Raises a GenlabError of one line that names the file and the command that makes it again.
    """
    file = folder / "manifest.json"
    manifest = read_json(file, producer_command=GENERATE, kind=MANIFEST_KIND)
    try:
        program = GridDistribution(**manifest["program"])
        sums, _ = manifest["sha256"], manifest["duplicates_dropped"]
        sums = {name: sums[name] for name in FILES}
    except (KeyError, TypeError, ValueError) as error:
        raise GenlabError(
            f"{file}: not a manifest this genlab reads ({error}); make it again with: {GENERATE}"
        ) from error
    raw = read_npz(folder / FILES[0], kind=GRIDS_KIND, keys=["grids"], producer_command=GENERATE)[
        "grids"
    ]
    grids = validate(raw, folder / FILES[0], program.size)
    objects = read_objects(folder / FILES[1], "objects", GENERATE)
    for name, expected in sums.items():
        if sha256(folder / name) != expected:
            raise GenlabError(
                f"{folder / name}: not the file that {file.name} describes (its checksum differs);"
                f" make both again with: {GENERATE}"
            )
    return Generated(folder, grids, objects, program, manifest)
