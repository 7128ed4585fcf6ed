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
from genlab.datasets.readers.split_names import ALL, find_split

SUFFIXES = (".parquet",)
PICTURE_COLUMNS = ("image", "img", "picture", "pixel_values", "bytes")


class RowGroup(NamedTuple):
    """A row group of a file, and the number of its first row among all rows."""

    file: Path
    number: int
    start: int


@dataclass(frozen=True)
class ParquetLoader:
    """Decodes pictures of a column; offset: number of its first row."""

    groups: list[RowGroup]
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

    def select(self, rows: range) -> ParquetLoader:
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
    file_splits = {file: find_split(file.name) for file in files}
    official = all(file_splits.values())
    groups: list[RowGroup] = []
    names: list[str] = []
    splits: list[str] = []
    labels: list[Any] = []
    column = ""
    for file in files:
        try:
            content = pq.ParquetFile(file)
            schema = content.schema_arrow
            column = _find_picture_column(schema, file)
            label = _find_label_column(schema, source, file)
            values = content.read(columns=[label]).column(label).to_pylist() if label else None
        except GenlabError:
            raise
        except Exception as error:  # pyarrow raises whatever its decoders meet
            reason = " ".join(str(error).split())[:120]
            raise GenlabError(f"{file}: no whole Parquet file ({reason})", path=file) from error
        for number in range(content.num_row_groups):
            groups.append(RowGroup(file, number, len(names)))
            count = content.metadata.row_group(number).num_rows
            names += [f"{file.name}[{len(names) + row}]" for row in range(count)]
        count = content.metadata.num_rows
        splits += [file_splits[file] if official else ALL] * count
        labels += [None] * count if values is None else _name_values(values, schema, label or "")
    classes, note = name_classes(labels)
    return Collection(
        path=path,
        convention="Parquet" + (", with official splits" if official else ""),
        names=names,
        splits=splits,
        classes=classes,
        load=ParquetLoader(groups, column, source.background),
        notes=[note] if note else [],
    )


def _find_picture_column(schema: Any, file: Path) -> str:
    """Find the column of encoded pictures: bytes, or a struct with such a field."""
    import pyarrow as pa

    def holds_bytes(dtype: Any) -> bool:
        if pa.types.is_struct(dtype):
            return any(dtype.field(i).name == "bytes" for i in range(dtype.num_fields))
        return bool(pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype))

    candidates = [field.name for field in schema if holds_bytes(field.type)]
    preferred = [name for name in PICTURE_COLUMNS if name in candidates]
    if not candidates or (len(candidates) > 1 and not preferred):
        columns = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise GenlabError(f"{file}: has no column of pictures; it has {columns}", path=file)
    return str(preferred[0] if preferred else candidates[0])


def _find_label_column(schema: Any, source: SourceParams, file: Path) -> str | None:
    if source.labels and source.labels != "none":
        if source.labels not in schema.names:
            columns = ", ".join(schema.names)
            message = f"{file}: has no column {source.labels}; columns: {columns}"
            raise GenlabError(message, key="source.labels", path=file)
        return source.labels
    candidates = [name for name in LABEL_COLUMNS if name in schema.names]
    return candidates[0] if candidates and source.labels is None else None


def _name_values(values: Sequence[Any], schema: Any, label: str) -> Classes | list[Any]:
    """Replace numbers by names of classes, where the schema's metadata has them."""
    try:
        facts = json.loads((schema.metadata or {})[b"huggingface"])
        names = facts["info"]["features"][label]["names"]
        return [names[value] if value is not None and value >= 0 else None for value in values]
    except (KeyError, TypeError, ValueError, IndexError):
        return list(values)
