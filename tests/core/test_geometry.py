"""Shapes and likelihoods that do not fit a dataset are refused; what fits can be built."""

from typing import Any

import numpy as np
import pytest
import tiny
from refusals import refused

from genlab.core.errors import GenlabError
from genlab.core.params import load_params
from genlab.core.params.catalogue import PUBLISHED
from genlab.core.params.geometry import check_shapes
from genlab.vae.models.vae import VAE
from genlab.vae.training.tasks import make_task


def _params(dataset: str, **changes: Any) -> Any:
    """Params of a dataset whose shapes are not checked: its sections stay empty."""
    values = tiny.values()
    if PUBLISHED[dataset].kind == "images":
        values |= tiny.IMAGE_TRAINING
    empty: dict[str, Any] = {name: {} for name in ("images_model", *PUBLISHED)}
    return tiny.Params.model_validate({**values, **empty, **changes})


def _build(params: Any, name: str) -> VAE:
    dataset = params.dataset(name)
    check_shapes(params, dataset, "tiny")
    items = np.zeros((2, dataset.side, dataset.side), np.uint8)
    if dataset.kind == "images":
        items = tiny.images(2, 0, dataset.side, dataset.channels)
    return VAE(make_task(params, items, dataset.classes).architecture)


@pytest.mark.parametrize("dataset", PUBLISHED)
def test_the_committed_params_can_be_built_for_every_dataset(dataset: str) -> None:
    params = load_params(tiny.PARAMS_FILE).for_dataset(dataset)
    assert _build(params, dataset).architecture.size == params.dataset(dataset).side


@pytest.mark.parametrize(
    ("dataset", "changes", "key", "says"),
    [
        ("arc_grids", {"patch": 3}, "patch", "divide the side of an item, 8, got 3"),
        ("arc_grids", {"latent_dim": 24, "prior": "standard"}, "latent_dim", "the 16 patches"),
        ("arc_grids", {"latent_dim": 8}, "latent_dim", "prior autoregressive, got 8"),
        ("mnist", {"latent_dim": 100, "prior": "standard"}, "latent_dim", "49 patches for images"),
        ("arc_grids", {"likelihood": "gaussian"}, "likelihood", "categorical for grids, got gaus"),
        ("emoji", {"likelihood": "categorical"}, "likelihood", "got categorical (for emoji)"),
        ("fashion_mnist", {"patch": 7}, "patch", "2, 4, 8 or 16 for images"),
    ],
)
def test_what_does_not_fit_is_refused(
    dataset: str, changes: dict[str, Any], key: str, says: str
) -> None:
    params = _params(dataset, **changes)
    with pytest.raises(GenlabError) as error:
        check_shapes(params, params.dataset(dataset), "tiny")
    assert error.value.key == key
    assert says in str(error.value)


@pytest.mark.parametrize("symmetries", ["flips", "all"])
def test_symmetries_that_weights_of_kinds_break_are_refused(symmetries: str) -> None:
    grids = {**tiny.values()["grids"], "kinds": {"line_vertical": 0.5}}
    changes = {"grids": grids, "arc_grids": {"symmetries": symmetries}}
    with refused(
        "symmetries must be none or colours",
        "line_horizontal (1) than for line_vertical (0.5)",
        f"got {symmetries}",
        key="symmetries",
    ):
        tiny.params(**changes)
    assert tiny.params(**{**changes, "arc_grids": {"symmetries": "colours"}})
    grids["kinds"] = {"line_vertical": 0.5, "line_horizontal": 0.5, "plus": 2.0}
    assert tiny.params(**changes)


def test_grids_may_have_fewer_latents_than_patches_under_the_standard_prior() -> None:
    _build(_params("arc_grids", latent_dim=8, prior="standard"), "arc_grids")


def test_only_datasets_that_are_listed_or_asked_for_are_checked() -> None:
    sections = {"images_model": {}, "fashion_mnist": {"latent_dim": 100}}
    params = tiny.params(datasets=["arc_grids"], **sections)
    with refused("categorical", "fashion_mnist", key="likelihood"):
        params.for_dataset("fashion_mnist")
    with refused("categorical", "fashion_mnist", key="likelihood"):
        tiny.params(datasets=["fashion_mnist"], **sections)
