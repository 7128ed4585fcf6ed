"""Parquet files of pictures, as Hugging Face `datasets` writes them: encoded bytes and a label.

Names of classes stand in the schema's metadata. Paths in place of bytes are never followed.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from genlab.core.errors import GenlabError
from genlab.core.params.sections import SourceParams
from genlab.core.picture import DecodedPicture, UnreadablePictureError, decode
from genlab.datasets.readers.collection import Collection
from genlab.datasets.readers.conventions.labels import Classes, name_classes
from genlab.datasets.readers.conventions.table import LABEL_COLUMNS
from genlab.datasets.readers.layout import ALL, split_in

SUFFIXES = (".parquet",)
PICTURE_COLUMNS = ("image", "img", "picture", "pixel_values", "bytes")


class Group(NamedTuple):
    """A row group of a file, and the number of its first row among all rows."""

    file: Path
    number: int
    start: int


@dataclass(frozen=True)
class ParquetLoader:
    """Decodes pictures of a column; offset: number of its first row."""

    groups: list[Group]
    column: str
    background: str
    offset: int = 0

    def __call__(self, index: int, side: int) -> DecodedPicture:
        """Load a picture."""
        row = self.offset + index
        group = self.groups[bisect_right(self.groups, row, key=lambda group: group.start) - 1]
        name = f"{group.file.name}[{row}]"
        try:
            value = _read_group(group.file, group.number, self.column)[row - group.start].as_py()
        except Exception as error:  # pyarrow raises whatever its decoders meet
            reason = " ".join(str(error).split())[:120]
            raise UnreadablePictureError(f"{name}: damaged ({reason})", path=group.file) from error
        data = value.get("bytes") if isinstance(value, dict) else value
        if data is None:
            reason = "holds a path in place of a picture; save it with its pictures embedded"
            raise UnreadablePictureError(f"{name}: {reason}", path=group.file)
        return decode(data, name, side=side, background=self.background)

    def part(self, rows: range) -> ParquetLoader:
        """Return one for these rows."""
        return ParquetLoader(self.groups, self.column, self.background, self.offset + rows.start)


@lru_cache(maxsize=2)
def _read_group(file: Path, number: int, column: str) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(file).read_row_group(number, columns=[column]).column(column)


def read_parquet(path: Path, files: Sequence[Path], source: SourceParams) -> Collection:
    """Read the Parquet files of one dataset.

    They are official splits where each is named after one. Raises GenlabError for a damaged file,
    and for one without a column of pictures.
    """
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        fix = "pip install -e '.[formats]'"
        raise GenlabError(f"{path}: needs an extra: {fix}", path=path, fix=fix) from error
    named = {file: split_in(file.name) for file in files}
    groups: list[Group] = []
    names: list[str] = []
    splits: list[str] = []
    values: list[Any] = []
    column = ""
    for file in files:
        try:
            content = pq.ParquetFile(file)
            schema = content.schema_arrow
            column = _find_pictures(schema, file)
            label = _find_label(schema, source, file)
            own = content.read(columns=[label]).column(label).to_pylist() if label else None
        except GenlabError:
            raise
        except Exception as error:  # pyarrow raises whatever its decoders meet
            reason = " ".join(str(error).split())[:120]
            raise GenlabError(f"{file}: no whole Parquet file ({reason})", path=file) from error
        for number in range(content.num_row_groups):
            groups.append(Group(file, number, len(names)))
            count = content.metadata.row_group(number).num_rows
            names += [f"{file.name}[{len(names) + row}]" for row in range(count)]
        count = content.metadata.num_rows
        splits += [named[file] if all(named.values()) else ALL] * count
        values += [None] * count if own is None else _spell(own, schema, label or "")
    classes, why = name_classes(values)
    return Collection(
        path=path,
        convention="Parquet" + (", with official splits" if all(named.values()) else ""),
        names=names,
        splits=splits,
        classes=classes,
        load=ParquetLoader(groups, column, source.background),
        notes=[why] if why else [],
    )


def _find_pictures(schema: Any, file: Path) -> str:
    """The column of encoded pictures: bytes, or a struct with such a field."""
    import pyarrow as pa

    def holds_bytes(kind: Any) -> bool:
        if pa.types.is_struct(kind):
            return any(kind.field(i).name == "bytes" for i in range(kind.num_fields))
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    fitting = [field.name for field in schema if holds_bytes(field.type)]
    named = [name for name in PICTURE_COLUMNS if name in fitting]
    if not fitting or (len(fitting) > 1 and not named):
        held = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise GenlabError(f"{file}: has no column of pictures; it has {held}", path=file)
    return str(named[0] if named else fitting[0])


def _find_label(schema: Any, source: SourceParams, file: Path) -> str | None:
    if source.labels and source.labels != "none":
        if source.labels not in schema.names:
            held = ", ".join(schema.names)
            message = f"{file}: has no column {source.labels}; columns: {held}"
            raise GenlabError(message, key="source.labels", path=file)
        return source.labels
    words = [name for name in LABEL_COLUMNS if name in schema.names]
    return words[0] if words and source.labels is None else None


def _spell(values: Sequence[Any], schema: Any, label: str) -> Classes | list[Any]:
    """Names in place of numbers, where the schema's metadata has them."""
    try:
        facts = json.loads((schema.metadata or {})[b"huggingface"])
        names = facts["info"]["features"][label]["names"]
        return [names[value] if value is not None and value >= 0 else None for value in values]
    except (KeyError, TypeError, ValueError, IndexError):
        return list(values)
