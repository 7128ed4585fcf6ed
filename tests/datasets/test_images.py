"""Image data sets: written in chunks, shared out with nothing torn apart, checked when opened."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from genlab.core.errors import GenlabError
from genlab.core.io import sha256, write_npz
from genlab.datasets import image_files, images, sources
from genlab.datasets.image_files import (
    LABELS_KIND,
    Tally,
    load_images,
    load_labels,
    rows,
    write_images,
)
from genlab.datasets.images import duplicates, make_images, share_images
from genlab.datasets.registry import DATASETS, find_dataset
from genlab.datasets.sources import ImageSet, Source
from genlab.datasets.splits import split_groups

RNG = np.random.default_rng(0)
TRAIN = RNG.integers(0, 256, (200, 4, 5, 3), dtype=np.uint8)
TEST = RNG.integers(0, 256, (30, 4, 5, 3), dtype=np.uint8)
GROUPS = np.arange(200) // 4
NAMES = ("even", "odd")


def _set(pixels: np.ndarray, groups: np.ndarray | None = None) -> ImageSet:
    def chunks():
        for start in range(0, len(pixels), 64):
            yield pixels[start : start + 64]

    return ImageSet(pixels.shape[1:], np.arange(len(pixels)) % 2, chunks, groups)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stage generate would write for 200 + 30 tiny images called mnist."""
    source = Source({"train": _set(TRAIN), "test": _set(TEST)}, "made up")
    monkeypatch.setitem(images.SOURCES, "mnist", lambda name, params: source)
    make_images("mnist", NAMES, tiny.params(), tmp_path / "generated" / "mnist")
    return tmp_path / "generated" / "mnist"


@pytest.fixture
def shared(made: Path, tmp_path: Path) -> Path:
    share_images("mnist", tiny.params(), made, tmp_path / "mnist", seed=0)
    return tmp_path / "mnist"


def _one_line(run: Callable[[], object]) -> str:
    with pytest.raises(GenlabError) as error:
        run()
    assert "\n" not in str(error.value)
    return str(error.value)


# Files


def test_a_file_is_what_the_chunks_held_and_numpy_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    tally = write_images(path, 200, (4, 5, 3), _set(TRAIN).chunks())
    assert np.array_equal(np.load(path), TRAIN)
    scaled = TRAIN.reshape(-1, 3) / 255
    assert np.allclose(tally.mean, scaled.mean(0))
    assert np.allclose(tally.std, scaled.std(0))


@given(st.lists(st.integers(0, 199), max_size=30))
def test_rows_are_the_chosen_ones_in_the_chosen_order(chosen: list[int]) -> None:
    path = ROWS / "rows.npy"
    found = list(rows(path, np.array(chosen, dtype=np.int64), "x"))
    expected = TRAIN[chosen]
    assert np.array_equal(np.concatenate(found) if found else expected, expected)
    assert all(len(chunk) <= image_files.CHUNK for chunk in found)


@pytest.fixture(autouse=True, scope="module")
def _rows_file(tmp_path_factory: pytest.TempPathFactory):
    global ROWS
    ROWS = tmp_path_factory.mktemp("rows")
    write_images(ROWS / "rows.npy", 200, (4, 5, 3), _set(TRAIN).chunks())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_files, "CHUNK", 7)
        yield


@pytest.mark.parametrize(("count", "shape"), [(199, (4, 5, 3)), (201, (4, 5, 3)), (200, (5, 4, 3))])
def test_other_images_than_promised_leave_no_file(tmp_path: Path, count: int, shape) -> None:
    line = _one_line(lambda: write_images(tmp_path / "x.npy", count, shape, _set(TRAIN).chunks()))
    assert "x.npy: " in line
    assert list(tmp_path.iterdir()) == []


def test_hashes_tell_images_apart_by_content_alone() -> None:
    tally = Tally(3)
    tally.add(np.concatenate([TRAIN[:5], TRAIN[2:3]]))
    assert tally.hashes[5] == tally.hashes[2]
    assert len(set(tally.hashes)) == 5


# Splits


@given(
    st.lists(st.integers(0, 60), min_size=100, max_size=300),
    st.integers(0, 2**31 - 1),
)
def test_no_group_is_torn_and_every_item_goes_to_one_split(labels: list[int], seed: int) -> None:
    groups = np.array(labels)
    try:
        found = split_groups(groups, {"val": 0.2, "test": 0.2}, seed)
    except GenlabError:
        return  # a split would be empty: its own test
    assert np.array_equal(np.sort(np.concatenate(list(found.values()))), np.arange(len(groups)))
    members = [set(groups[items]) for items in found.values()]
    assert sum(map(len, members)) == len(set(labels))


def test_items_without_groups_are_shared_out_exactly() -> None:
    found = split_groups(np.arange(60_000), {"val": 0.1}, seed=0)
    assert [len(found[name]) for name in ("train", "val")] == [54_000, 6_000]
    again, other = (split_groups(np.arange(60_000), {"val": 0.1}, seed)["val"] for seed in (0, 1))
    assert np.array_equal(found["val"], again)
    assert not np.array_equal(found["val"], other)
    assert (np.diff(again) > 0).all()


def test_a_group_that_would_fill_a_split_goes_to_train() -> None:
    groups = np.concatenate([np.zeros(30, dtype=np.int64), np.arange(1, 271)])
    for seed in range(20):
        found = split_groups(groups, {"val": 0.1, "test": 0.1}, seed)
        assert set(range(30)) <= set(found["train"].tolist())


def test_an_empty_split_is_refused() -> None:
    line = _one_line(lambda: split_groups(np.zeros(50, dtype=np.int64), {"val": 0.1}, 0))
    assert "split val would hold 0 of 50 items" in line


# Stages


def test_the_official_test_split_is_kept_and_val_comes_from_train(shared: Path) -> None:
    splits = {split: load_images(shared, split) for split in ("train", "val", "test")}
    assert np.array_equal(splits["test"], TEST)
    assert [len(splits[split]) for split in splits] == [180, 20, 30]
    together = {image.tobytes() for split in ("train", "val") for image in splits[split]}
    assert together == {image.tobytes() for image in TRAIN}
    place = {image.tobytes(): index for index, image in enumerate(TRAIN)}
    for split in ("train", "val"):
        expected = [place[image.tobytes()] % 2 for image in splits[split]]
        assert load_labels(shared, split).tolist() == expected


def test_the_manifest_and_the_facts_say_what_is_there(made: Path, tmp_path: Path) -> None:
    found = share_images("mnist", tiny.params(), made, tmp_path / "mnist", seed=3)
    manifest = json.loads((tmp_path / "mnist" / "manifest.json").read_text())
    train = load_images(tmp_path / "mnist", "train")
    assert manifest["counts"] == {"train": 180, "val": 20, "test": 30}
    assert manifest["shape"] == [4, 5, 3]
    assert manifest["seed"] == 3
    assert manifest["generated"]["source"] == "made up"
    assert np.allclose(manifest["channel_mean"], (train / 255).mean((0, 1, 2)))
    assert np.allclose(found.facts["channel_std"], (train / 255).std((0, 1, 2)))
    for name, expected in manifest["sha256"].items():
        assert sha256(tmp_path / "mnist" / name) == expected
    assert found.facts["class_counts"]["test"] == {"even": 15, "odd": 15}
    assert found.pictured.shape == (64, 4, 5, 3)
    assert {image.tobytes() for image in found.pictured} <= {image.tobytes() for image in train}


def test_the_same_seed_writes_the_same_bytes(made: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        share_images("mnist", tiny.params(), made, tmp_path / name, seed)
    sums = {
        name: [sha256(path) for path in sorted((tmp_path / name).iterdir())]
        for name in ("a", "b", "c")
    }
    assert sums["a"] == sums["b"]
    assert sums["a"] != sums["c"]


def test_without_an_official_split_all_three_are_drawn_in_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source({"all": _set(TRAIN, GROUPS)}, "made up")
    monkeypatch.setitem(images.SOURCES, "emoji", lambda name, params: source)
    make_images("emoji", NAMES, tiny.params(), tmp_path / "emoji")
    share_images("emoji", tiny.params(), tmp_path / "emoji", tmp_path / "shared", seed=0)
    place = {image.tobytes(): index for index, image in enumerate(TRAIN)}
    found = {
        split: [place[image.tobytes()] for image in load_images(tmp_path / "shared", split)]
        for split in ("train", "val", "test")
    }
    assert sorted(item for items in found.values() for item in items) == list(range(200))
    groups = [set(GROUPS[items].tolist()) for items in found.values()]
    assert sum(map(len, groups)) == 50
    assert found["train"] != sorted(found["train"])
    for split, items in found.items():
        assert load_labels(tmp_path / "shared", split).tolist() == [item % 2 for item in items]


def test_duplicates_are_counted_inside_and_across_splits() -> None:
    found = duplicates(
        {"train": [b"a", b"b", b"b", b"b"], "val": [b"c"], "test": [b"b", b"a", b"d"]}
    )
    expected = {"train": 2, "val": 0, "test": 0}
    assert found == {**expected, "val_in_train": 0, "test_in_train": 2, "test_in_val": 0}


def test_a_changed_file_is_not_shared_out(made: Path, tmp_path: Path) -> None:
    data = bytearray((made / "train.npy").read_bytes())
    data[-1] ^= 1
    (made / "train.npy").write_bytes(data)
    line = _one_line(lambda: share_images("mnist", tiny.params(), made, tmp_path / "x", 0))
    assert "train.npy: not the file that manifest.json describes" in line
    assert "python stages/generate.py --dataset mnist" in line
    assert not (tmp_path / "x").exists()


# Reading


def test_images_are_mapped_and_cannot_be_written_to(shared: Path) -> None:
    loaded = load_images(shared, "train", (4, 5, 3))
    assert isinstance(loaded, np.memmap)
    assert loaded.dtype == np.uint8
    assert loaded.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        loaded[0] = 0


def _cut(folder: Path) -> None:
    file = folder / "train.npy"
    file.write_bytes(file.read_bytes()[:-1])


def _change(key: str, value: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest[key] = value
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return change


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_cut, "train.npy is truncated"),
        (lambda folder: (folder / "train.npy").unlink(), "train.npy is missing"),
        (lambda folder: (folder / "train.npy").write_bytes(b"PNG"), "no .npy file"),
        (lambda folder: (folder / "train.npy").write_bytes(b""), "no .npy file"),
        (lambda folder: np.save(folder / "train.npy", TRAIN / 255), "must be uint8"),
        (lambda folder: np.save(folder / "train.npy", TRAIN[..., 0]), "must be uint8 (n, height"),
        (lambda folder: np.save(folder / "train.npy", np.asfortranarray(TRAIN)), "Fortran order"),
        (
            lambda folder: np.save(folder / "train.npy", TRAIN[:9]),
            "180 images of 4 x 5 x 3 expected",
        ),
        (lambda folder: np.save(folder / "train.npy", TRAIN[:180, :, :4]), "of 4 x 4 x 3"),
        (lambda folder: (folder / "manifest.json").unlink(), "manifest.json is missing"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "truncated or not JSON"),
        (_change("kind", "split_grids"), "holds split_grids, not split_images"),
        (_change("version", 2), "has format version 2, this genlab reads 1"),
    ],
)
def test_a_damaged_folder_is_one_line_with_the_cure(shared: Path, damage, says: str) -> None:
    damage(shared)
    line = _one_line(lambda: load_images(shared, "train"))
    assert says in line
    assert "python stages/split.py --dataset mnist" in line


def test_images_of_another_shape_than_asked_for_are_refused(shared: Path) -> None:
    line = _one_line(lambda: load_images(shared, "train", (28, 28, 1)))
    assert "180 images of 28 x 28 x 1 expected, got 180 of 4 x 5 x 3" in line
    assert "no split is called 'dev'" in _one_line(lambda: load_images(shared, "dev"))


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (np.zeros(5, dtype=np.int64), "int64 (180,)"),
        (np.zeros(180, dtype=np.float64), "got float64"),
        (np.full(180, 2), "labels must be 0 to 1, got 2 to 2"),
    ],
)
def test_foreign_labels_are_refused(shared: Path, labels: np.ndarray, says: str) -> None:
    write_npz(shared / "labels.npz", {"train": labels}, kind=LABELS_KIND)
    assert says in _one_line(lambda: load_labels(shared, "train"))


# The registry and the stages' scripts


def test_every_image_data_set_has_a_source_and_a_section() -> None:
    for each in DATASETS.values():
        assert tiny.params().for_dataset(each.name)
        if each.kind == "images":
            assert each.name in images.SOURCES
            assert each.classes == 256
            assert len(set(each.labels)) == len(each.labels) >= 2


def test_options_of_grids_are_refused_for_images(tmp_path: Path) -> None:
    line = _one_line(lambda: find_dataset("mnist").generate(tiny.params(), tmp_path, count=5))
    assert "--count is for generated grids" in line


def test_the_two_stages_serve_images_from_archive_to_sheet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import typer
    from stages import generate, split

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "SYSTEM_FOLDERS", {})
    tiny.write_params(tmp_path)
    folder = tmp_path / "data" / "raw" / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for part, count in (("train", 40), ("t10k", 10)):
        pixels = RNG.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        head = struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
        head = struct.pack(">4BI", 0, 0, 8, 1, count)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(head + bytes(count))
    for command in (generate.generate, split.split):
        app = typer.Typer()
        app.command()(command)
        done = CliRunner().invoke(app, ["--dataset", "mnist"])
        assert done.exit_code == 0, done.output
    assert "36 train, 4 val, 10 test" in done.output
    facts = json.loads(Path("results/mnist/data.json").read_text())
    assert facts["class_counts"]["train"]["0 - zero"] == 36
    assert load_images("data/mnist", "val", (28, 28, 1)).shape == (4, 28, 28, 1)
    with Image.open("plots/mnist/data/sheet.png") as sheet:
        assert sheet.width == 1200


# Params


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"emoji_size": 8}, "images.emoji_size must be >= 16 and <= 128, got 8"),
        ({"val_share": 0.6, "test_share": 0.5}, "images.val_share + test_share must be < 1"),
        ({"download": "yes"}, "images.download must be true or false, got 'yes'"),
        ({"raw": ""}, "images.raw"),
    ],
)
def test_params_of_images_are_checked(changes: dict[str, object], says: str) -> None:
    content = tiny.values()
    with pytest.raises(GenlabError) as error:
        tiny.parse_params({**content, "images": {**content["images"], **changes}}, "x")
    assert says in str(error.value)
