"""Splits never overlap; a user's own data is read from folders and arrays, or refused in a line."""

from pathlib import Path

import numpy as np
import pytest
import tiny
from PIL import Image

from genlab.agent.evaluator.datasets import check_data, load_data, load_test
from genlab.core.errors import GenlabError


def test_splits_are_the_same_each_time_and_none_overlap() -> None:
    root = Path("nowhere")
    data = load_data("dummy", root, subset=900, validation=50)
    again = load_data("dummy", root, subset=900, validation=50)
    assert (len(data.train), len(data.validation)) == (900, 50)
    assert (data.shape, data.classes, data.scale) == ((1, 16, 16), 4, 255)
    assert np.array_equal(data.train.items, again.train.items)
    splits = [data.train, data.validation, load_test("dummy", root)]
    items = [item.tobytes() for split in splits for item in split.items]
    assert len(set(items)) == len(items)


def test_images_and_grids_have_channels_first(tmp_path: Path) -> None:
    tiny.write_image_dataset(tmp_path / "mnist")
    images = load_data("mnist", tmp_path, subset=30, validation=10)
    assert images.train.items.shape == (30, 1, 28, 28)
    assert images.folder == tmp_path / "mnist"
    folder = tmp_path / "arc_grids"
    folder.mkdir()
    tiny.write_dataset(folder)
    grids = load_data("arc_grids", tmp_path, subset=40, validation=10)
    assert grids.scale == 1
    assert (grids.train.items.sum(1) == 1).all()
    assert set(grids.train.labels) <= {0, 1}


def write_folders(folder: Path, mode: str = "L", count: int = 20) -> Path:
    """Write random images to folders cats and dogs."""
    rng = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (folder / name).mkdir(parents=True)
        for index in range(count):
            shape = (8, 8) if mode == "L" else (8, 8, 3)
            image = Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8))
            image.save(folder / name / f"{index}.png")
    return folder


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3)])
def test_own_images_are_split_by_folder(tmp_path: Path, mode: str, channels: int) -> None:
    folder = write_folders(tmp_path / "own", mode)
    data = load_data(f"path:{folder}", tmp_path, subset=100, validation=100)
    assert data.shape == (channels, 8, 8)
    assert data.classes == 2
    test = load_test(f"path:{folder}", tmp_path)
    assert (len(data.train), len(data.validation), len(test)) == (32, 4, 4)


@pytest.mark.parametrize("layout", ["last", "first", "grey", "float"])
def test_own_arrays_are_read_in_any_layout(tmp_path: Path, layout: str) -> None:
    x = np.random.default_rng(0).integers(0, 256, (50, 3, 8, 8), dtype=np.uint8)
    array = {
        "last": x.transpose(0, 2, 3, 1),
        "first": x,
        "grey": x[:, 0],
        "float": x.transpose(0, 2, 3, 1) / np.float32(255),
    }[layout]
    file = tmp_path / "own.npz"
    np.savez(file, x=array, y=np.array(["a", "b"] * 25))
    data = load_data(f"path:{file}", tmp_path, subset=100, validation=100)
    expected = x[:, :1] if layout == "grey" else x
    items = {item.tobytes() for item in data.train.items}
    assert items <= {item.tobytes() for item in expected}
    assert data.classes == 2


def test_equal_own_images_stay_in_one_split(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", x=np.concatenate([x, x]), y=np.zeros(120))
    data = load_data(f"path:{tmp_path}", tmp_path, subset=200, validation=200)
    test_split = load_test(f"path:{tmp_path}", tmp_path)
    train, validation, test = (
        {item.tobytes() for item in split.items}
        for split in (data.train, data.validation, test_split)
    )
    assert not train & validation
    assert not (train | validation) & test


def test_official_splits_of_own_images_stand(tmp_path: Path) -> None:
    for split, count in (("train", 20), ("test", 7)):
        write_folders(tmp_path / split, count=count)
    assert len(load_test(f"path:{tmp_path}", tmp_path)) == 14


def write_refused(folder: Path) -> None:
    """Write data that the agent refuses: too few images, and images without classes."""
    write_folders(folder / "few", count=1)
    (folder / "loose").mkdir()
    for number in range(30):
        image = np.full((8, 8), 8 * number, dtype=np.uint8)
        Image.fromarray(image).save(folder / "loose" / f"{number}.png")


@pytest.mark.parametrize("name", ["few", "loose", "nowhere"])
def test_what_cannot_be_read_is_one_line(tmp_path: Path, name: str) -> None:
    write_refused(tmp_path)
    with pytest.raises(GenlabError) as refused:
        check_data(f"path:{tmp_path / name}", tmp_path, "classify")
    assert refused.value.path == tmp_path / name


def test_pictures_without_classes_serve_generative_goals(tmp_path: Path) -> None:
    write_refused(tmp_path)
    dataset = f"path:{tmp_path / 'loose'}"
    assert any("30 pictures" in line for line in check_data(dataset, tmp_path, "generate"))
    data = load_data(dataset, tmp_path, subset=10, validation=2)
    assert (data.train.labels == -1).all()


def test_a_missing_dataset_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(GenlabError, match=r"python stages/"):
        check_data("fashion_mnist", tmp_path, "classify")
