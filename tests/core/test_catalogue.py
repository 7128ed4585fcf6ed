"""Facts about datasets, published ones and users' own."""

from typing import Any

import pytest
import tiny
from refusals import refused
from torchvision import datasets

from genlab.core.params import Params, parse_params
from genlab.core.params.catalogue import PUBLISHED, suggest_model

IMAGES = [name for name, dataset in PUBLISHED.items() if dataset.kind == "images"]


def own(**section: Any) -> Params:
    """Params with a user's own dataset."""
    source = {"path": "photos", "size": 28}
    sections = {"images_model": tiny.IMAGE_TRAINING, "photos": {"source": source, **section}}
    return parse_params({**tiny.values(datasets=["photos"]), **sections}, "params.yaml")


def test_an_unknown_dataset_is_an_error_that_lists_the_known() -> None:
    with refused(*PUBLISHED, "source", key="dataset"):
        tiny.params().dataset("svhn")


@pytest.mark.parametrize("name", IMAGES)
def test_every_image_dataset_has_params_and_labels(name: str) -> None:
    dataset = tiny.params().dataset(name)
    assert tiny.params().for_dataset(name)
    assert len(set(dataset.labels)) == len(dataset.labels) >= 2
    assert dataset.side is not None


def test_the_names_of_classes_are_torchvisions() -> None:
    assert PUBLISHED["fashion_mnist"].labels == tuple(datasets.FashionMNIST.classes)


def test_a_section_with_a_source_is_a_dataset() -> None:
    params = own()
    dataset = params.dataset("photos")
    assert (dataset.kind, dataset.side, dataset.channels) == ("images", 28, None)
    assert params.own_datasets == ["photos"]
    stages = params.resolve("photos")
    assert stages["generate"] == {"seed": 0, "source": {"path": "photos", "size": 28}}
    assert stages["split"]["val_share"] == 0.1
    assert parse_params(params.model_dump(), "again") == params


def test_a_model_that_fits_the_size_is_the_default_and_a_section_goes_over_it() -> None:
    assert own().for_dataset("photos").latent_dim == 8 * 7 * 7
    assert own(latent_dim=98).for_dataset("photos").latent_dim == 98
    overridden = own().with_overrides(latent_dim=49).for_dataset("photos")
    assert overridden.latent_dim == 49


@pytest.mark.parametrize(
    ("side", "patch"), [(8, 2), (28, 4), (32, 4), (64, 8), (100, 4), (128, 16)]
)
def test_a_suggested_patch_divides_the_side(side: int, patch: int) -> None:
    suggested = suggest_model(side, "images")
    assert side % suggested["patch"] == 0
    assert suggested["patch"] == patch


@pytest.mark.parametrize(("side", "patch"), [(9, 1), (10, 2), (30, 2)])
def test_a_model_of_grids_has_four_latents_per_patch(side: int, patch: int) -> None:
    suggested = suggest_model(side, "grids")
    assert suggested == {"patch": patch, "latent_dim": 4 * (side // patch) ** 2}


def test_own_grids_have_a_value_for_padding_and_a_family_of_their_own() -> None:
    params = parse_params(
        {**tiny.values(), "tasks": {"source": {"path": "x", "kind": "grids", "size": 10}}}, "x"
    )
    dataset = params.dataset("tasks")
    assert (dataset.kind, dataset.family, dataset.classes) == ("grids", "own_grids", 11)
    assert params.for_dataset("tasks").latent_dim == 4 * 25
    assert params.dataset("arc_grids").classes == 10


def test_shares_and_options_of_a_source_reach_their_stages() -> None:
    source = {"path": "x", "size": 28, "val_share": 0.2, "range": [0, 4095], "arrays": ["x", "y"]}
    stages = own(source=source).resolve("photos")
    assert stages["split"] == {"seed": 0, "val_share": 0.2, "test_share": 0.1}
    assert stages["generate"]["source"] == {
        "path": "x", "size": 28, "range": (0, 4095), "arrays": ("x", "y"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"photos": {"source": {"path": "x", "sise": 3}}}, "sise"),
        ({"photos": {"source": {"size": 32}}}, "path"),
        ({"photos": {"source": {"path": "x", "kind": "grids", "size": 31}}}, ""),
        ({"photos": {"source": {"path": "x", "group": "("}}}, "group"),
        ({"photos": {"source": {"path": "x", "range": [3, 3]}}}, ""),
        ({"photos": {"source": {"path": "x", "val_share": 0.95}}}, "photos.source.val_share"),
        ({"photos": {"latent_dim": 8}}, "photos"),
        ({"Photos": {"source": {"path": "x"}}}, "Photos"),
        ({"mnist": {"source": {"path": "x"}}}, "mnist.source"),
        ({"raw": {"source": {"path": "x"}}}, "raw"),
        ({"datasets": ["svhn"]}, "datasets"),
        ({"photos": {"source": {"path": "x", "size": 28}, "beta_max": 1.0}}, "photos.beta_max"),
        ({"photos": {"source": {"path": "x", "size": 30}, "patch": 4}}, "patch"),
    ],
)
def test_a_faulty_section_is_one_line_that_names_the_key(changes: dict[str, Any], key: str) -> None:
    with refused(key=key):
        parse_params({**own().model_dump(), **changes}, "params.yaml")
