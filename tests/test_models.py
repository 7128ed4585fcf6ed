"""Samples, latents and reconstructions of a trained model, from Python and the command line."""

from pathlib import Path
from typing import Any

import numpy as np
import own_data
import pytest
import tiny
from PIL import Image
from refusals import refused
from typer.testing import CliRunner

from genlab.core.params import load_params
from genlab.models import TrainedModel, load_model
from genlab.models_cli import encode_app, reconstruct_app, sample_app
from genlab.vae.training.checkpoint import CHECKPOINT, CHECKPOINTS, save_checkpoint


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with models of grids, of a published dataset and of a user's own."""
    monkeypatch.chdir(tmp_path)
    section = {"source": {"path": "photos", "size": tiny.SIDE, "fit": "stretch"}}
    tiny.write_params(tmp_path, photos=section)
    models = {"arc_grids": tiny.model(), "mnist": tiny.image_model(), "photos": tiny.image_model()}
    for name, model in models.items():
        save_checkpoint(CHECKPOINTS / name / CHECKPOINT, model, {"dataset": name})
    own_data.write_folders(tmp_path / "pictures", *own_data.draw(10))
    return tmp_path


@pytest.mark.parametrize("name", ["arc_grids", "mnist", "photos"])
def test_samples_are_items_of_the_dataset_and_depend_on_the_seed(project: Path, name: str) -> None:
    model = load_model(name)
    samples = model.sample(5)
    shape = (tiny.SIZE, tiny.SIZE) if name == "arc_grids" else (tiny.SIDE, tiny.SIDE, 1)
    assert (samples.dtype, samples.shape) == (np.uint8, (5, *shape))
    assert np.array_equal(samples, model.sample(5))
    assert not np.array_equal(samples, model.sample(5, seed=1))
    assert model.sample(3, temperature=0.5).shape == (3, *shape)


@pytest.mark.parametrize("name", ["mnist", "photos"])
def test_pictures_are_read_as_the_model_takes_them(project: Path, name: str) -> None:
    model = load_model(name)
    batch = model.read("pictures")
    assert batch.items.shape == (10, tiny.SIDE, tiny.SIDE, 1)
    mean, log_var = model.encode(batch.items)
    assert mean.shape == log_var.shape == (10, 49)
    assert model.reconstruct(batch.items).shape == batch.items.shape
    alone = model.read("pictures/0/0.png")
    assert np.array_equal(alone.items[0], batch.items[batch.names.index("0/0.png")])


def test_grids_are_read_from_arrays(project: Path) -> None:
    np.save("grids.npy", tiny.grids(4).astype(np.int64))
    model = load_model("arc_grids")
    assert model.reconstruct(model.read("grids.npy").items).shape == (4, 8, 8)


BAD: dict[str, Any] = {
    "colours.npy": np.full((2, 8, 8), 10),
    "fractions.npy": np.zeros((2, 8, 8)),
    "flat.npy": np.zeros((8, 8), int),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_grids_is_refused_by_name(project: Path, name: str) -> None:
    np.save(name, BAD[name])
    with refused(name, path=name):
        load_model("arc_grids").read(name)


def test_items_of_another_shape_and_missing_models_are_refused(project: Path) -> None:
    model = load_model("mnist")
    with refused("28, 28, 1"):
        model.encode(np.zeros((1, 32, 32, 3), np.uint8))
    with refused("cifar10", fix="dvc repro train@cifar10"):
        load_model("cifar10")
    with refused("svhn", key="dataset"):
        load_model("svhn")
    assert isinstance(load_model("mnist", load_params()), TrainedModel)


def test_the_commands_write_arrays_and_a_sheet(project: Path) -> None:
    run = CliRunner().invoke
    assert not run(sample_app, ["mnist", "--count", "20"]).exit_code
    with np.load("mnist-samples.npz") as arrays:
        assert arrays["items"].shape == (20, tiny.SIDE, tiny.SIDE, 1)
    with Image.open("mnist-samples.png") as sheet:
        assert sheet.width > 16 * tiny.SIDE
    assert not run(encode_app, ["photos", "pictures"]).exit_code
    with np.load("photos-latents.npz") as arrays:
        assert arrays["mean"].shape == (10, 49)
        assert arrays["names"][0] == "0/0.png"
    done = run(reconstruct_app, ["mnist", "pictures", "--output", "found.npz"])
    assert not done.exit_code, done.output
    with np.load("found.npz") as arrays:
        assert arrays["items"].shape == arrays["reconstructions"].shape
    assert Path("found.png").is_file()
