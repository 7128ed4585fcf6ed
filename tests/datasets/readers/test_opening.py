"""What people bring is read rightly, or refused by one line that names the key that decides."""

import gzip
import io
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_data import encode_idx
from PIL import Image

from genlab.core.errors import GenlabError
from genlab.core.params.sections import SourceParams
from genlab.datasets.readers import reading
from genlab.datasets.readers.opening import OwnPictures, read_pictures

SIDE = 28


def stripes(kind: int, number: int = 0) -> np.ndarray:
    """A grey picture (28, 28) that no other number has; class 1 has bright columns."""
    pixels = np.random.default_rng(number).integers(0, 100, (SIDE, SIDE)).astype(np.uint8)
    pixels[:, ::2] += 100 * np.uint8(kind)
    return pixels


def write_classes(folder: Path, count: int = 5, names: tuple[str, ...] = ("cat", "dog")) -> Path:
    for kind, name in enumerate(names):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            image = Image.fromarray(stripes(kind, 100 * kind + number))
            image.save(folder / name / f"{number}.png")
    return folder


def read(path: Path, **options: Any) -> OwnPictures:
    return read_pictures(SourceParams(path=str(path), **options))


def pack(folder: Path, kind: str) -> Path:
    return Path(shutil.make_archive(str(folder), kind, folder))


@pytest.mark.parametrize("kind", ["folder", "zip", "tar", "gztar", "a folder with a zip"])
def test_class_folders_and_archives_of_them_are_the_same_set(tmp_path: Path, kind: str) -> None:
    folder = write_classes(tmp_path / "pets")
    expected = read(folder)
    path = folder
    if kind == "a folder with a zip":
        path = tmp_path / "download"
        path.mkdir()
        shutil.move(pack(folder, "zip"), path)
    elif kind != "folder":
        path = pack(folder, kind)
    pictures = read(path)
    assert pictures.classes == ["cat", "dog"]
    np.testing.assert_array_equal(pictures.fitted.levels, expected.fitted.levels)
    np.testing.assert_array_equal(pictures.labels, [0] * 5 + [1] * 5)
    np.testing.assert_array_equal(expected.fitted.levels[5, ..., 0], stripes(1, 100))


@pytest.mark.parametrize("below", ["", "wrapper/"])
def test_folders_of_splits_are_no_classes(tmp_path: Path, below: str) -> None:
    for split in ("Train", "valid", "testing"):
        write_classes(tmp_path / below / split, 3)
    write_classes(tmp_path / below / "extra", 1)
    pictures = read(tmp_path)
    assert pictures.classes == ["cat", "dog"]
    assert {split: pictures.splits.count(split) for split in ("train", "val", "test")} == {
        "train": 6, "val": 6, "test": 6,
    }  # fmt: skip
    assert len(pictures.collection.left_out["beside the folders of splits"]) == 2


def test_a_class_may_be_called_like_a_split(tmp_path: Path) -> None:
    assert read(write_classes(tmp_path / "a", names=("bus", "car", "train"))).classes == [
        "bus", "car", "train",
    ]  # fmt: skip
    write_classes(tmp_path / "b/train")
    write_classes(tmp_path / "b", names=("bus",))
    with pytest.raises(GenlabError) as refused:
        read(tmp_path / "b")
    assert refused.value.key == "source.labels"
    assert read(tmp_path / "b", labels="top").classes == ["bus", "train"]


def test_nested_classes_are_paths_unless_labels_says_otherwise(tmp_path: Path) -> None:
    write_classes(tmp_path / "animals/pets")
    write_classes(tmp_path / "animals/farm", names=("cow",))
    assert read(tmp_path).classes == ["farm/cow", "pets/cat", "pets/dog"]
    assert read(tmp_path, labels="top").classes == ["farm", "pets"]
    assert read(tmp_path, labels="leaf").classes == ["cat", "cow", "dog"]
    assert read(tmp_path, labels="none").classes == []


def test_loose_pictures_beside_class_folders_are_doubt(tmp_path: Path) -> None:
    Image.fromarray(stripes(0)).save(write_classes(tmp_path) / "cover.png")
    with pytest.raises(GenlabError) as refused:
        read(tmp_path)
    assert refused.value.key == "source.labels"
    assert len(read(tmp_path, labels="none").splits) == 11


def test_debris_and_other_files_are_left_out_and_named(tmp_path: Path) -> None:
    folder = write_classes(tmp_path)
    for name in ("cat/._0.png", "__MACOSX/cat/0.png", "Thumbs.db", ".git/config", "notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\0\5\x16\7 no picture")
    shutil.move(folder / "dog/1.png", folder / "dog/1.jfif")
    shutil.move(folder / "dog/2.png", folder / "dog/IMG_2")
    pictures = read(folder)
    assert len(pictures.labels) == 10
    assert pictures.collection.left_out["no pictures"] == ["notes.txt"]
    assert len(pictures.collection.left_out["debris of systems and tools"]) == 4
    assert any("notes.txt" in line for line in pictures.describe())


def test_a_damaged_picture_is_named_and_left_out_up_to_a_share(tmp_path: Path) -> None:
    folder = write_classes(tmp_path, 100)
    (folder / "dog/7.png").write_bytes(b"")
    pictures = read(folder)
    assert len(pictures.labels) == 199
    assert "dog/7.png" in pictures.fitted.facts.unreadable[0]
    with pytest.raises(GenlabError) as refused:
        read(folder, unreadable="refuse")
    assert "dog/7.png" in str(refused.value)
    for number in range(3):
        (folder / f"cat/{number}.png").write_bytes(b"x")
    with pytest.raises(GenlabError) as refused:
        read(folder)
    assert refused.value.key == "source.unreadable"
    assert len(read(folder, unreadable="skip").labels) == 196


def test_colour_among_grey_pictures_makes_all_of_them_colour(tmp_path: Path) -> None:
    folder = write_classes(tmp_path, 150)
    red = np.stack([stripes(0, 9), stripes(0, 9) // 2, stripes(0, 9) // 3], axis=-1)
    Image.fromarray(red).save(folder / "cat/77.png")
    pictures = read(folder)
    assert pictures.fitted.levels.shape == (300, SIDE, SIDE, 3)
    assert read(folder, channels="grey").fitted.levels.shape == (300, SIDE, SIDE, 1)


@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
def test_pictures_that_are_no_squares_are_fitted(tmp_path: Path, fit: str) -> None:
    wide = np.zeros((32, 64), dtype=np.uint8)
    wide[:, :16] = 255
    for number in range(3):
        Image.fromarray(wide).save(tmp_path / f"{number}.png")
    levels = read(tmp_path, fit=fit, background="black").fitted.levels[0, ..., 0]
    assert levels.shape == (32, 32)
    assert {"crop": 0, "pad": 0, "stretch": 255}[fit] == levels[0, 0]
    assert {"crop": 0, "pad": 255, "stretch": 255}[fit] == levels[16, 0]


ROWS = np.stack([stripes(number % 2, number) for number in range(40)])
LABELS = np.arange(40) % 2
COLOUR = np.stack([ROWS, ROWS // 2, ROWS // 3], axis=-1)
ARRAYS: dict[str, dict[str, Any]] = {
    "x, y": {"x": ROWS, "y": LABELS},
    "images, labels": {"images": ROWS[..., None], "labels": LABELS[:, None]},
    "data, target as floats": {"data": ROWS, "target": LABELS.astype(float)},
    "channels first": {"x": ROWS[:, None], "y": LABELS},
    "from 0 to 1": {"x": ROWS / 255, "y": LABELS},
    "from -1 to 1": {"x": (ROWS / 127.5 - 1).astype(np.float32), "y": LABELS},
    "floats to 255": {"x": ROWS.astype(float), "y": LABELS},
    "16 bits": {"x": ROWS.astype(np.uint16) * 257, "y": LABELS},
    "words": {"x": ROWS, "y": np.array(["0", "1"])[LABELS]},
    "one-hot": {"x": ROWS, "y": np.eye(2)[LABELS]},
    "medmnist": {
        "train_images": ROWS[:30], "train_labels": LABELS[:30, None],
        "val_images": ROWS[30:34], "val_labels": LABELS[30:34, None],
        "test_images": ROWS[34:], "test_labels": LABELS[34:, None],
    },
    "keras": {
        "x_train": ROWS[:34], "y_train": LABELS[:34], "x_test": ROWS[34:], "y_test": LABELS[34:],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_give_the_same_pictures_under_every_name_and_scale(
    tmp_path: Path, name: str
) -> None:
    np.savez(tmp_path / "set.npz", **ARRAYS[name])
    pictures = read(tmp_path / "set.npz")
    assert pictures.classes == ["0", "1"]
    assert {row.tobytes() for row in pictures.fitted.levels} == {row.tobytes() for row in ROWS}
    bright = [row[:, ::2].mean() > row[:, 1::2].mean() + 50 for row in pictures.fitted.levels]
    np.testing.assert_array_equal(pictures.labels, bright)
    splits = {"medmnist": {"train", "val", "test"}, "keras": {"train", "test"}}
    assert set(pictures.splits) == splits.get(name, {""})


DOUBT: dict[str, tuple[dict[str, Any], str]] = {
    "values up to 16": ({"x": ROWS % 17, "y": LABELS}, "source.range"),
    "12 bits": ({"x": ROWS.astype(np.uint16) * 16, "y": LABELS}, "source.range"),
    "standardised": ({"x": (ROWS - 50.0) / 30, "y": LABELS}, "source.range"),
    "three of either": ({"x": np.zeros((5, 3, 28, 3), np.uint8)}, "source.layout"),
    "unknown names": ({"a": ROWS, "b": ROWS}, "source.arrays"),
}


@pytest.mark.parametrize("name", DOUBT)
def test_doubt_is_a_refusal_that_names_the_key(tmp_path: Path, name: str) -> None:
    arrays, key = DOUBT[name]
    np.savez(tmp_path / "set.npz", **arrays)
    with pytest.raises(GenlabError) as refused:
        read(tmp_path / "set.npz")
    assert refused.value.key == key
    assert refused.value.fix


def test_what_is_stated_decides(tmp_path: Path) -> None:
    np.savez(tmp_path / "set.npz", a=ROWS.astype(np.uint16) * 16, b=LABELS)
    stated = read(tmp_path / "set.npz", arrays=("a", "b"), range=(0.0, 255.0 * 16))
    np.testing.assert_array_equal(stated.fitted.levels[..., 0], ROWS)


def test_array_files_are_splits_by_name_or_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "train.npz", x=ROWS[:30], y=LABELS[:30])
    np.savez(tmp_path / "test.npz", x=ROWS[30:], y=LABELS[30:])
    pictures = read(tmp_path)
    assert (pictures.splits.count("train"), pictures.splits.count("test")) == (30, 10)
    np.savez(tmp_path / "features.npz", x=ROWS, y=LABELS)
    with pytest.raises(GenlabError) as refused:
        read(tmp_path)
    assert refused.value.key == "source.path"
    write_classes(tmp_path)
    assert "features.npz" in read(tmp_path).collection.left_out["no pictures"]


def write_idx(path: Path, array: np.ndarray, *, packed: bool) -> None:
    data = encode_idx(array)
    path.write_bytes(gzip.compress(data) if packed else data)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "names", [("train", "t10k"), ("emnist-digits-train", "emnist-digits-test")]
)
def test_idx_files_are_read_packed_or_not(
    tmp_path: Path, packed: bool, names: tuple[str, str]
) -> None:
    ending = ".gz" if packed else ""
    for name, rows in zip(names, (slice(0, 30), slice(30, 40)), strict=True):
        write_idx(tmp_path / f"{name}-images-idx3-ubyte{ending}", ROWS[rows], packed=packed)
        write_idx(tmp_path / f"{name}-labels-idx1-ubyte{ending}", LABELS[rows], packed=packed)
    pictures = read(tmp_path)
    assert (pictures.splits.count("train"), pictures.splits.count("test")) == (30, 10)
    bright = [row[:, ::2].mean() > row[:, 1::2].mean() + 50 for row in pictures.fitted.levels]
    np.testing.assert_array_equal(pictures.labels, bright)
    file = tmp_path / f"{names[0]}-images-idx3-ubyte{ending}"
    file.write_bytes(file.read_bytes()[:-99])
    with pytest.raises(GenlabError) as refused:
        read(tmp_path)
    assert refused.value.path == file


def write_bad(folder: Path) -> dict[str, Path]:
    """Files of each kind that cannot be read."""
    folder.mkdir()
    np.savez(folder / "objects.npz", x=np.array([{}, {}], dtype=object))
    (folder / "text.npz").write_text("x")
    (folder / "half.zip").write_bytes(pack(write_classes(folder / "z"), "zip").read_bytes()[:-60])
    (folder / "half.tar.gz").write_bytes(pack(folder / "z", "gztar").read_bytes()[:-60])
    (folder / "empty").mkdir()
    (folder / "notes.txt").write_text("x")
    return {path.name: path for path in folder.iterdir()} | {"nowhere": folder / "nowhere"}


@pytest.mark.parametrize(
    "name", ["objects.npz", "text.npz", "half.zip", "half.tar.gz", "empty", "notes.txt", "nowhere"]
)
def test_what_cannot_be_read_is_one_line_with_its_path(tmp_path: Path, name: str) -> None:
    path = write_bad(tmp_path / "bad")[name]
    with pytest.raises(GenlabError) as refused:
        read(path)
    assert refused.value.path == path
    assert "\n" not in str(refused.value)


def test_an_archive_writes_nothing_and_follows_no_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    Image.fromarray(stripes(0)).save(secret)
    image = (write_classes(tmp_path / "pets") / "cat/0.png").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("cat/0.png", "dog/0.png", "../outside/cat/1.png", "/outside/dog/1.png"):
            archive.writestr(name, image)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in ("cat/0.png", "dog/0.png"):
            member = tarfile.TarInfo(name)
            member.size = len(image)
            archive.addfile(member, io.BytesIO(image))
        link = tarfile.TarInfo("dog/1.png")
        link.type = tarfile.SYMTYPE
        link.linkname = str(secret)
        archive.addfile(link)
    before = sorted(tmp_path.rglob("*"))
    assert len(read(tmp_path / "a.zip").labels) == 2
    assert len(read(tmp_path / "a.tar").labels) == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_the_description_says_what_was_done(tmp_path: Path) -> None:
    folder = write_classes(tmp_path)
    shutil.copy(folder / "cat/0.png", folder / "cat/copy.png")
    lines = "\n".join(read(folder, size=16).describe())
    for words in ("11 pictures", "16 × 16, grey", "cat (6), dog (5)", "duplicates: 1", "28 × 28"):
        assert words in lines


def test_duplicates_are_kept_together_or_dropped(tmp_path: Path) -> None:
    folder = write_classes(tmp_path)
    shutil.copy(folder / "cat/0.png", folder / "cat/copy.png")
    pictures = read(folder)
    assert len(pictures.retained_rows) == 11
    assert len(np.unique(pictures.groups)) == 10
    dropped = read(folder, duplicates="drop")
    assert len(dropped.retained_rows) == 10
    assert any("dropped" in line for line in dropped.describe())


def test_pictures_of_one_group_share_it_and_copies_join_groups(tmp_path: Path) -> None:
    for number in range(9):
        Image.fromarray(stripes(0, number)).save(tmp_path / f"person{number // 3}_{number}.png")
    assert len(np.unique(read(tmp_path).groups)) == 9
    assert len(np.unique(read(tmp_path, group=r"person\d").groups)) == 3
    shutil.copy(tmp_path / "person0_0.png", tmp_path / "person1_9.png")
    assert len(np.unique(read(tmp_path, group=r"person(\d)").groups)) == 2


def test_frames_are_pictures_where_that_is_asked_for(tmp_path: Path) -> None:
    for name, kind in (("cat", 0), ("dog", 1)):
        pages = [Image.fromarray(stripes(kind, number)) for number in range(3)]
        (tmp_path / name).mkdir()
        pages[0].save(tmp_path / name / "scan.tif", save_all=True, append_images=pages[1:])
    first = read(tmp_path)
    assert len(first.labels) == 2
    assert any("frames" in line for line in first.describe())
    pictures = read(tmp_path, frames="all")
    assert pictures.collection.names[:2] == ["cat/scan.tif[0]", "cat/scan.tif[1]"]
    np.testing.assert_array_equal(pictures.labels, [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(pictures.fitted.levels[4, ..., 0], stripes(1, 1))


def test_a_killed_run_goes_on_after_its_last_whole_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK", 20)
    folder = write_classes(tmp_path / "pets", 50)
    (folder / "cat/3.png").write_bytes(b"damaged")
    source = SourceParams(path=str(folder))
    expected = read_pictures(source)
    decoded: list[int] = []

    def kill_after(chunks: int) -> Any:
        def spread(fit_chunk: Any, inputs: Any) -> Any:
            for number, chunk in enumerate(inputs):
                if number == chunks:
                    raise KeyboardInterrupt
                decoded.append(number)
                yield fit_chunk(chunk)

        return spread

    monkeypatch.setattr(reading, "FEW", 0)
    levels = tmp_path / "levels.npy"
    with pytest.raises(KeyboardInterrupt):
        read_pictures(source, levels, kill_after(3), "key")
    with levels.open("ab") as file:
        file.write(b"half a picture")
    with levels.with_suffix(".jsonl").open("a") as lines:
        lines.write('{"rows": [1')
    again = read_pictures(source, levels, kill_after(99), "key")
    assert len(decoded) == 3 + 2
    np.testing.assert_array_equal(again.fitted.levels, expected.fitted.levels)
    assert again.describe() == expected.describe()
    read_pictures(source, levels, kill_after(99), "another key")
    assert len(decoded) == 3 + 2 + 5
