"""The same pictures give the same pixels and classes through every convention."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import own_data
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused

from genlab.core.params.sections import SourceParams
from genlab.datasets.readers.conventions.labels import name_classes, name_rows
from genlab.datasets.readers.opening import OwnPictures, read_pictures

PICTURES, LABELS = own_data.draw(60)


def read(path: Path, **options: Any) -> OwnPictures:
    return read_pictures(SourceParams.model_validate({"path": str(path), **options}))


def label_by_pixels(pictures: OwnPictures) -> dict[bytes, str | None]:
    """The class of each picture, by its pixels."""
    names = [pictures.classes[label] if label >= 0 else None for label in pictures.labels]
    rows = (levels.tobytes() for levels in pictures.fitted.levels)
    return dict(zip(rows, names, strict=True))


@pytest.mark.parametrize("name", own_data.CONVENTIONS)
def test_every_convention_gives_the_same_pictures_and_classes(tmp_path: Path, name: str) -> None:
    pictures = read(own_data.CONVENTIONS[name](tmp_path / "data", PICTURES, LABELS))
    labelled = name not in own_data.UNLABELLED
    assert label_by_pixels(pictures) == {
        pixels.tobytes(): own_data.NAMES[label] if labelled else None
        for pixels, label in zip(PICTURES, LABELS, strict=True)
    }


def test_a_table_that_names_some_pictures_is_doubt(tmp_path: Path) -> None:
    folder = own_data.write_table(tmp_path / "data", PICTURES, LABELS)
    lines = (folder / "labels.csv").read_text().splitlines()
    (folder / "labels.csv").write_text("\n".join(lines[:-2]))
    with refused("labels.csv", "58.png", key="source.labels"):
        read(folder)
    assert read(folder, labels="none").classes == []


def test_a_table_may_state_splits_and_be_told_its_columns(tmp_path: Path) -> None:
    folder = own_data.write_table(tmp_path / "data", PICTURES, LABELS)
    rows = ["picture,kind,size,split"]
    for number, label in enumerate(LABELS):
        split = "test" if number < 10 else "train"
        rows.append(f"{number},{own_data.NAMES[label]},{number},{split}")
    rows.append("missing,0,1,train")
    (folder / "labels.csv").write_text("\n".join(rows))
    pictures = read(folder, labels="kind")
    assert pictures.splits.count("test") == 10
    assert pictures.classes == ["0", "1", "2"]
    left_out = pictures.collection.left_out["named by a table, and not there"]
    assert left_out == ["missing"]
    stated = {"file": "labels.csv", "separator": ",", "columns": ["picture", "kind"]}
    assert read(folder, table=stated).classes == ["0", "1", "2"]
    with refused("colour", key="source.labels"):
        read(folder, labels="colour")
    assert any("label" in line for line in read(folder).describe())  # none is the label


def test_a_column_may_name_the_group(tmp_path: Path) -> None:
    folder = own_data.write_table(tmp_path / "data", PICTURES, LABELS)
    rows = ["file,label,patient"]
    rows += [f"{number}.png,{label},p{number // 6}" for number, label in enumerate(LABELS)]
    (folder / "labels.csv").write_text("\n".join(rows))
    assert len(np.unique(read(folder, group="patient").groups)) == 10
    assert len(np.unique(read(folder).groups)) == 60


def test_tables_beside_splits_name_files_of_their_own_folder(tmp_path: Path) -> None:
    own_data.write_table(tmp_path / "data/train", PICTURES[:40], LABELS[:40])
    own_data.write_table(tmp_path / "data/test", PICTURES[40:], LABELS[40:])
    pictures = read(tmp_path / "data")
    assert pictures.classes == ["0", "1", "2"]
    assert (pictures.splits.count("train"), pictures.splits.count("test")) == (40, 20)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([0, 1, 0, 1], ["0", "1", "0", "1"]),
        ([0.0, 1.0, 0.0, 1.0], ["0", "1", "0", "1"]),
        (["3", "3.0", "3", "4"], ["3", "3", "3", "4"]),
        (["007", "NA", "007", "NA"], ["007", "NA", "007", "NA"]),
        ([1, -1, None, 1], ["1", None, None, "1"]),
        (["a", "", "null", "a"], ["a", None, None, "a"]),
        ([0.5, 1.0, 2.0, 0.5], [None] * 4),
        (["a", "b", "c", "d"], [None] * 4),
        ([b"cat", b"dog", b"cat", b"dog"], ["cat", "dog", "cat", "dog"]),
    ],
)
def test_values_are_classes_or_are_said_to_be_none(
    values: list[Any], names: list[str | None]
) -> None:
    classes, why = name_classes(values)
    assert classes == names
    assert bool(why) == (set(names) == {None})


def test_several_labels_at_once_are_no_classes() -> None:
    assert name_rows(np.array([[1, 1, 0], [0, 1, 0]]))[0] == [None, None]


def test_pictures_with_side_files_in_class_folders_are_doubt(tmp_path: Path) -> None:
    path = tmp_path / "set.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(20):
            for ending, data in (("png", own_data.encode(PICTURES[number])), ("cls", b"1")):
                member = tarfile.TarInfo(f"{'ab'[number % 2]}/{number:05d}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    with refused(key="source.convention"):
        read(path)
    assert read(path, convention="folders").classes == ["a", "b"]
    assert read(path, convention="webdataset").classes == ["1"]


def test_shards_named_after_splits_are_official(tmp_path: Path) -> None:
    folder = own_data.write_webdataset(tmp_path / "data", PICTURES, LABELS)
    (folder / "shard-0000.tar").rename(folder / "train-0000.tar")
    (folder / "shard-0001.tar").rename(folder / "test-0000.tar")
    pictures = read(folder)
    assert (pictures.splits.count("train"), pictures.splits.count("test")) == (30, 30)


def test_two_pictures_of_one_key_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "set.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("photo.v1.png", "photo.v2.png", "photo.cls"):
            data = own_data.encode(PICTURES[0]) if name.endswith("png") else b"1"
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    with refused("photo.v1.png", "photo.v2.png", path=path):
        read(path)


def test_parquet_with_paths_in_place_of_bytes_is_refused(tmp_path: Path) -> None:
    rows = [{"bytes": None, "path": "/home/somebody/1.png"}] * 5
    pq.write_table(pa.table({"image": rows, "label": [0] * 5}), tmp_path / "a.parquet")
    with refused("path in place of a picture"):
        read(tmp_path / "a.parquet")


def test_words_of_a_json_file_are_labels(tmp_path: Path) -> None:
    path = tmp_path / "set.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(20):
            facts = json.dumps({"label": ["cat", "dog"][number % 2], "caption": "x"}).encode()
            for ending, data in (("png", own_data.encode(PICTURES[number])), ("json", facts)):
                member = tarfile.TarInfo(f"{number:05d}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    assert read(path).classes == ["cat", "dog"]
