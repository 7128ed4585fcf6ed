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
from genlab.datasets.readers.collection import Collection
from genlab.datasets.readers.conventions.folders import FileLoader
from genlab.datasets.readers.conventions.labels import name_classes
from genlab.datasets.readers.files import MAX_BYTES, Contents, Files, open_tar
from genlab.datasets.readers.layout import list_some, split_in

SIDES = (".cls", ".json", ".txt")  # endings of what stands beside a picture
LABELS = ("label", "cls", "class", "category", "target")  # keys of a JSON file


@dataclass(frozen=True)
class ShardContents:
    """Reads files of several tars, as `TAR/NAME`."""

    shards: Mapping[str, Contents]

    def read(self, name: str, most: int = MAX_BYTES) -> bytes:
        """Return the content of a file, at most `most` bytes of it."""
        shard, _, rest = name.partition("/")
        return self.shards[shard].read(rest, most)

    def part(self, names: Sequence[str]) -> ShardContents:
        """Return one that reads these names."""
        inside: dict[str, list[str]] = {}
        for name in names:
            shard, _, rest = name.partition("/")
            inside.setdefault(shard, []).append(rest)
        return ShardContents({shard: self.shards[shard].part(own) for shard, own in inside.items()})


def open_shards(files: Files) -> Files:
    """Open a folder of tars as one. Raises GenlabError where one of them is damaged."""
    shards = {name: open_tar(files.path / name) for name in files.names}
    names = [f"{shard}/{name}" for shard, inside in shards.items() for name in inside.names]
    contents = ShardContents({shard: inside.contents for shard, inside in shards.items()})
    debris = [f"{shard}/{name}" for shard, inside in shards.items() for name in inside.debris]
    return Files(files.path, names, [*files.debris, *debris], contents)


def find_key(name: str) -> str:
    """The key of a file's sample, with its folder."""
    path = PurePosixPath(name)
    return (path.parent / path.name.partition(".")[0]).as_posix()


def find_sides(pictures: Sequence[str], others: Sequence[str]) -> dict[str, dict[str, str]]:
    """Files beside each key's picture, by ending: {key: {".cls": name}}."""
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
    sharded = isinstance(files.contents, ShardContents)
    shards = [key.partition("/")[0] if sharded else "" for key in keys]
    inside = [key.partition("/")[2] if sharded else key for key in keys]
    folders = {PurePosixPath(key).parent for key in inside}
    if len(folders) > 1 and source.convention is None:
        fix = "set convention to webdataset or folders"
        message = (
            f"{files.path}: pictures lie in folders and have files of the same key beside them"
        )
        raise GenlabError(f"{message}: {fix}", key="source.convention", path=files.path, fix=fix)
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        same = list_some(name for name in pictures if find_key(name) == twice)
        message = f"{files.path}: key {twice} has several pictures: {same}; a key ends at a dot"
        raise GenlabError(message, path=files.path, fix="rename one of them")
    values = [_read_label(files, sides.get(key, {})) for key in keys]
    classes, why = name_classes(values)
    named = {name: split_in(name) for name in set(shards)}
    official = all(named.values())
    used = {name for own in sides.values() for name in own.values()} | set(pictures)
    rest = [name for name in files.names if name not in used]
    return Collection(
        path=files.path,
        convention="WebDataset" + (", with official splits" if official else ""),
        names=list(pictures),
        splits=[named[shard] if official else "" for shard in shards],
        classes=classes,
        load=FileLoader(files.contents, list(pictures), source.background),
        left_out={"of no picture's key": rest} if rest else {},
        notes=[why] if why else [],
    )


def _read_label(files: Files, sides: Mapping[str, str]) -> object:
    """The label of a sample: its .cls, or a key of its .json; .txt is a caption."""
    if ".cls" in sides:
        return files.read(sides[".cls"]).decode("utf-8", "replace").strip()
    if ".json" not in sides:
        return None
    try:
        facts = json.loads(files.read(sides[".json"]))
    except (ValueError, RecursionError) as error:
        raise GenlabError(f"{files.path}: {sides['.json']}: no JSON ({error})") from error
    words = (facts.get(key) for key in LABELS) if isinstance(facts, dict) else ()
    return next((word for word in words if isinstance(word, str | int | float)), None)
