"""Manifests: contents and checksums of a dataset's folder, and the command that makes it again."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from genlab.core.io import file_error, read_json, sha256, write_json
from genlab.core.params.catalogue import PUBLISHED

MANIFEST_FILE = "manifest.json"
VERSION = 1


def write_manifest(folder: Path, kind: str, files: Iterable[str], facts: dict[str, Any]) -> None:
    """Write the folder's manifest: `facts` and the checksums of `files`, which must exist."""
    sums = {name: sha256(folder / name) for name in files}
    manifest = {"kind": kind, "version": VERSION, **facts, "sha256": sums}
    write_json(folder / MANIFEST_FILE, manifest)


def read_manifest(
    folder: Path, kind: str, producer_command: str, *, verify: bool = False
) -> dict[str, Any]:
    """Read a folder's manifest.

    Raises a GenlabError unless it has this kind and version and, with `verify`, every file has
    its checksum.
    """
    file = folder / MANIFEST_FILE
    manifest: dict[str, Any] = read_json(file, producer_command=producer_command, kind=kind)
    version = manifest.get("version")
    if version != VERSION:
        fault = f"has format version {version}, this genlab reads {VERSION}"
        raise file_error(file, fault, producer_command)
    if not verify:
        return manifest
    for name, expected in manifest["sha256"].items():
        if not (folder / name).is_file() or sha256(folder / name) != expected:
            fault = f"is missing or not the file that {MANIFEST_FILE} describes (by its checksum)"
            raise file_error(folder / name, fault, producer_command)
    return manifest


def generate_command(path: str | Path, stage: str = "generate") -> str:
    """Command that makes the dataset in the folder `path`, or of that name, before the split."""
    name = Path(path).name
    staged = name in PUBLISHED or _params_file(name).is_file()
    return f"python stages/{stage}.py --dataset {name if staged else 'DATASET'}"


def _params_file(name: str) -> Path:
    """File that stage params writes for a dataset."""
    return Path("results", name, "params.json")


def split_command(path: str | Path, dataset: str = "") -> str:
    """Command that makes a split dataset; `path` is its folder or a file in it.

    For a folder of the pipeline this is the DVC stage, which also runs the stages before it.
    dataset: the dataset's name, where the folder has another.
    """
    name = dataset or Path(path).name
    pipeline_folder = Path("data", name).resolve()
    resolved = Path(path).resolve()
    if _params_file(name).is_file() and pipeline_folder in (resolved, resolved.parent):
        return f"dvc repro split@{name}"
    return generate_command(name, "split")
