"""WebDataset: tar files in which the files of one sample have one key, such as 0001.png, 0001.cls.

The key ends at the first dot of a file's name. Source: github.com/webdataset/webdataset.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from genlab.core.errors import GenlabError
from genlab.core.params.sections import SourceParams
from genlab.core.text import join_first
from genlab.datasets.readers.collection import Collection
from genlab.datasets.readers.conventions.folders import FileLoader
from genlab.datasets.readers.conventions.labels import name_classes
from genlab.datasets.readers.files import MAX_BYTES, Contents, Files, open_tar
from genlab.datasets.readers.split_names import find_split

SIDES = (".cls", ".json", ".txt")  # endings of files beside a picture
LABELS = ("label", "cls", "class", "category", "target")  # keys of a JSON file that hold a label


@dataclass(frozen=True)
class ShardContents:
    """Reads files of several tars, as `TAR/NAME`."""

    shards: Mapping[str, Contents]

    def read(self, name: str, most: int = MAX_BYTES) -> bytes:
        """Return the content of a file, at most `most` bytes of it."""
        shard, _, name_in_shard = name.partition("/")
        return self.shards[shard].read(name_in_shard, most)

    def select(self, names: Sequence[str]) -> ShardContents:
        """Return one that reads these names."""
        by_shard: dict[str, list[str]] = {}
        for name in names:
            shard, _, name_in_shard = name.partition("/")
            by_shard.setdefault(shard, []).append(name_in_shard)
        return ShardContents(
            {shard: self.shards[shard].select(names) for shard, names in by_shard.items()}
        )


def open_shards(files: Files) -> Files:
    """Open a folder of tars as one. Raises GenlabError where one of them is damaged."""
    shards = {name: open_tar(files.path / name) for name in files.names}
    names: list[str] = []
    debris = list(files.debris)
    for shard, shard_files in shards.items():
        names += [f"{shard}/{name}" for name in shard_files.names]
        debris += [f"{shard}/{name}" for name in shard_files.debris]
    contents = ShardContents({shard: inside.contents for shard, inside in shards.items()})
    return Files(files.path, names, debris, contents)


def find_key(name: str) -> str:
    """Return the key of a file's sample, with its folder."""
    path = PurePosixPath(name)
    return (path.parent / path.name.partition(".")[0]).as_posix()


def find_sides(pictures: Sequence[str], others: Sequence[str]) -> dict[str, dict[str, str]]:
    """Find the files beside each key's picture, by ending: {key: {".cls": name}}."""
    keys = set(map(find_key, pictures))
    sides: dict[str, dict[str, str]] = {}
    for name in others:
        key = find_key(name)
        if key in keys and name.lower().endswith(SIDES):
            sides.setdefault(key, {})[PurePosixPath(name).suffix.lower()] = name
    return sides


def read_webdataset(
    files: Files, pictures: Sequence[str], sides: dict[str, dict[str, str]], source: SourceParams
) -> Collection:
    """Pair pictures with the files of their keys.

    Shards whose names all hold a word of a split are official splits. Raises GenlabError where
    pictures lie in class folders as well, and where a key has two pictures.
    """
    keys = [find_key(name) for name in pictures]
    if isinstance(files.contents, ShardContents):
        shards = [key.partition("/")[0] for key in keys]
        paths = [key.partition("/")[2] for key in keys]
    else:
        shards = [""] * len(keys)
        paths = keys
    folders = {PurePosixPath(path).parent for path in paths}
    if len(folders) > 1 and source.convention is None:
        fix = "set convention to webdataset or folders"
        message = (
            f"{files.path}: pictures lie in folders and have files of the same key beside them"
        )
        raise GenlabError(f"{message}: {fix}", key="source.convention", path=files.path, fix=fix)
    if len(set(keys)) < len(keys):
        repeated = next(key for key in keys if keys.count(key) > 1)
        same = join_first(name for name in pictures if find_key(name) == repeated)
        message = f"{files.path}: key {repeated} has several pictures: {same}; a key ends at a dot"
        raise GenlabError(message, path=files.path, fix="rename one of them")
    classes, note = name_classes([_read_label(files, sides.get(key, {})) for key in keys])
    shard_splits = {name: find_split(name) for name in set(shards)}
    official = all(shard_splits.values())
    used = set(pictures)
    for names in sides.values():
        used.update(names.values())
    unused = [name for name in files.names if name not in used]
    return Collection(
        path=files.path,
        convention="WebDataset" + (", with official splits" if official else ""),
        names=list(pictures),
        splits=[shard_splits[shard] if official else "" for shard in shards],
        classes=classes,
        load=FileLoader(files.contents, list(pictures), source.background),
        left_out={"of no picture's key": unused} if unused else {},
        notes=[note] if note else [],
    )


def _read_label(files: Files, sides: Mapping[str, str]) -> object:
    """Read the label of a sample from its .cls, or a key of its .json; .txt is a caption."""
    if ".cls" in sides:
        return files.read(sides[".cls"]).decode("utf-8", "replace").strip()
    if ".json" not in sides:
        return None
    try:
        facts = json.loads(files.read(sides[".json"]))
    except (ValueError, RecursionError) as error:
        raise GenlabError(f"{files.path}: {sides['.json']}: no JSON ({error})") from error
    if not isinstance(facts, dict):
        return None
    for key in LABELS:
        if isinstance(facts.get(key), str | int | float):
            return facts[key]
    return None
