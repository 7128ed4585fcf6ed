"""The file of judges: its key, its damages, where it is taken from, and how it is trained."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import save_file
from stage_runs import run_stage

from genlab.core.errors import GenlabError
from genlab.core.io import read_json
from genlab.evaluation.metrics import judges
from genlab.evaluation.metrics.features import train_classifier
from genlab.evaluation.metrics.judges import (
    FILE,
    SEEDS,
    TrainingSet,
    load_judges,
    make_judges,
    release_judges,
    train_judges,
)

NAME = "fashion_mnist"
EXAMPLES = 256
COMMAND = f"dvc repro judges@{NAME}"
DATA = TrainingSet.of_dataset(NAME, tiny.images(64), tiny.image_labels(64))
OWN = replace(DATA, dataset="")


@pytest.fixture(scope="module")
def judges_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of stage judges; not to be written to."""
    folder = tmp_path_factory.mktemp("made")
    make_judges(DATA, folder, examples=EXAMPLES, processes=3)
    return folder


@pytest.fixture
def place(judges_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to spoil, in a working directory without released judges."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(judges_folder, judges.FOLDER / NAME))


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training is an error."""
    monkeypatch.setattr(judges, "train_judges", None)


def _digests(data: TrainingSet, **options: object) -> list[str]:
    return [judge.digest for judge in load_judges(data, **options)]  # type: ignore[arg-type]


def test_a_file_gives_back_what_one_thread_trains_with_each_seed(place: Path) -> None:
    loaded = load_judges(DATA)
    trained = train_judges(DATA, EXAMPLES, SEEDS, processes=1)
    assert [judge.digest for judge in loaded] == [judge.digest for judge in trained]
    assert len({judge.digest for judge in loaded}) == 3
    for judge, again in zip(loaded, trained, strict=True):
        np.testing.assert_array_equal(judge.features(DATA.images), again.features(DATA.images))
    assert [judge.digest for judge in load_judges(DATA, seeds=(2,))] == [loaded[2].digest]


def test_images_mapped_from_a_file_train_the_same(tmp_path: Path) -> None:
    np.save(tmp_path / "train.npy", DATA.images)
    mapped = replace(DATA, images=np.lib.format.open_memmap(tmp_path / "train.npy", mode="r"))
    subset = replace(mapped, images=mapped.images[:32], labels=DATA.labels[:32])
    assert mapped.make_key(1, SEEDS) == DATA.make_key(1, SEEDS) != subset.make_key(1, SEEDS)
    for data in (mapped, subset):
        (judge,) = train_judges(data, EXAMPLES, (1,))
        images = np.array(data.images)
        expected = train_classifier(images, data.labels, seed=1, examples=EXAMPLES)
        torch.testing.assert_close(judge.head.weight, expected.head.weight)


CHANGES: dict[str, Callable[[], TrainingSet]] = {
    "another image": lambda: replace(DATA, images=DATA.images ^ np.uint8(1)),
    "fewer images": lambda: replace(DATA, images=DATA.images[:-1], labels=DATA.labels[:-1]),
    "another label": lambda: replace(DATA, labels=1 - DATA.labels),
    "no labels": lambda: replace(DATA, labels=None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_data_are_refused_with_the_command_that_trains_again(
    place: Path, name: str, untrained: None
) -> None:
    with pytest.raises(GenlabError) as refused:
        load_judges(CHANGES[name]())
    assert (refused.value.path, refused.value.fix) == (place / FILE, COMMAND)


def test_other_settings_are_refused_where_they_are_asked_for(place: Path) -> None:
    assert len(_digests(DATA, examples=EXAMPLES)) == 3
    for options in ({"examples": EXAMPLES + 1}, {"seeds": (0, 3)}):
        with pytest.raises(GenlabError) as refused:
            load_judges(DATA, **options)  # type: ignore[arg-type]
        assert refused.value.fix == COMMAND


def test_released_judges_of_other_code_are_not_taken(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release_judges(NAME)
    shutil.rmtree(place)
    assert len(load_judges(DATA)) == 3
    monkeypatch.setattr(judges.code, "digest_sources", lambda modules: "other code")
    with pytest.raises(GenlabError) as refused:
        load_judges(DATA)
    assert (refused.value.path, refused.value.fix) == (place / FILE, COMMAND)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-50]),
    "empty": lambda path: path.write_bytes(b""),
    "weights of something else": lambda path: save_file({"w": torch.zeros(3)}, path),
    "a header alone": lambda path: save_file(
        {"0.w": torch.zeros(3)}, path, {"genlab": '{"format": "genlab.judges", "version": 1}'}
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_one_line_with_file_and_command(
    place: Path, name: str, untrained: None
) -> None:
    DAMAGE[name](place / FILE)
    with pytest.raises(GenlabError) as refused:
        load_judges(DATA)
    assert (refused.value.path, refused.value.fix) == (place / FILE, COMMAND)
    assert "\n" not in str(refused.value)


def test_released_judges_are_taken_over_where_their_key_fits(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = release_judges(NAME)
    before = (place / FILE).read_bytes()
    assert released.read_bytes() == before
    shutil.rmtree(place)
    with monkeypatch.context() as patch:
        patch.setattr(judges, "train_judges", None)
        assert _digests(DATA) == _digests(DATA, examples=EXAMPLES)  # a clone that ran no stage
        make_judges(DATA, place, examples=EXAMPLES, processes=1)
        assert (place / FILE).read_bytes() == before
    make_judges(DATA, place, examples=EXAMPLES + 128, processes=1)  # stale: trained
    assert (place / FILE).read_bytes() != before
    assert released.read_bytes() == before


def test_a_damaged_file_is_not_released(place: Path) -> None:
    DAMAGE["truncated"](place / FILE)
    with pytest.raises(GenlabError):
        release_judges(NAME)
    assert not judges.RELEASED.exists()


@pytest.mark.parametrize("name", DAMAGE)
def test_data_without_a_stage_train_once_into_the_cache(
    name: str, judges_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (trained,) = judges.read_judges(judges_folder / FILE, DATA, None, (0,), COMMAND)
    train = Mock(return_value=[trained])
    monkeypatch.setattr(judges, "train_judges", train)
    monkeypatch.setattr(judges, "user_cache_path", lambda _: tmp_path)
    digests = _digests(OWN, examples=EXAMPLES, seeds=(0,))
    train.assert_called_once_with(OWN, EXAMPLES, (0,))
    (path,) = (tmp_path / "judges").iterdir()
    DAMAGE[name](path)
    assert _digests(OWN, examples=EXAMPLES, seeds=(0,)) == digests
    assert _digests(OWN, examples=EXAMPLES, seeds=(0,)) == digests == [trained.digest]
    assert train.call_count == 2


def test_labels_that_no_image_shows_are_not_learnt() -> None:
    labels = tiny.image_labels(3)
    assert TrainingSet.of_dataset("emoji", tiny.images(3), labels).labels is None
    assert TrainingSet.of_dataset("mnist", tiny.images(3), labels).labels is labels


def test_the_stage_writes_judges_of_images_and_a_marker_of_grids(tmp_path: Path) -> None:
    sections = {**tiny.IMAGES_ALONE, "images_model": tiny.IMAGE_TRAINING}
    tiny.write_params(tmp_path, **sections)
    tiny.write_image_dataset(tmp_path / "data" / NAME)
    for dataset in (NAME, "arc_grids"):
        done = run_stage(tmp_path, "judges", "--dataset", dataset)
        assert done.status == 0, done.stderr
    facts = read_json(tmp_path / "results" / NAME / "judges.json", producer_command="")
    assert facts["task"] == "labels"
    assert len({judge["digest"] for judge in facts["judges"].values()}) == 3
    assert all(0 <= judge["accuracy"] <= 1 for judge in facts["judges"].values())
    assert read_json(tmp_path / "results/arc_grids/judges.json", producer_command="") == {
        "judges": {}
    }
    (marker,) = (tmp_path / "data/judges/arc_grids").iterdir()
    assert read_json(marker, producer_command="", kind="judges")["dataset"] == "arc_grids"
