"""Shapes and likelihoods that don't fit a data set are refused in one sentence with the fix."""

from __future__ import annotations

from typing import Any

import pytest
import tiny

from genlab.core import geometry
from genlab.core.errors import GenlabError
from genlab.core.geometry import require_fitting, side_of, tokens_of
from genlab.core.params import load_params
from genlab.datasets.registry import DATASETS
from genlab.vae.models.vae import VAE
from genlab.vae.training.tasks import make_task

IMAGES = [name for name in DATASETS if name not in geometry.GRIDS]


def _params(dataset: str, **changes: Any) -> Any:
    """What a params file says for `dataset`, unchecked against its shapes: sections stay empty."""
    empty: dict[str, Any] = {name: {} for name in ("images_model", *DATASETS)}
    own = {} if dataset in geometry.GRIDS else tiny.IMAGE_TRAINING
    content = {**tiny.values(), **own, **empty, **changes}
    return tiny.Params.model_validate(content)


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_side_is_that_of_the_registry(dataset: str) -> None:
    params = load_params(tiny.PARAMS_FILE)
    assert side_of(params, dataset) == DATASETS[dataset].shape[0]
    assert {n for n, d in DATASETS.items() if d.kind == "grids"} == set(geometry.GRIDS)


def test_grids_and_emoji_have_the_side_that_params_name() -> None:
    params = load_params(tiny.PARAMS_FILE)
    content = params.model_dump()
    content["grids"]["size"], content["images"]["emoji_size"] = 12, 64
    changed = tiny.Params.model_validate(content)
    assert side_of(changed, "arc_grids") == 12
    assert side_of(changed, "emoji") == 64
    assert side_of(changed, "mnist") == 28
    assert tokens_of(changed.model_copy(update={"patch": 8}), "emoji") == 64


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_committed_params_can_be_built_for_every_data_set(dataset: str) -> None:
    params = load_params(tiny.PARAMS_FILE).for_dataset(dataset)
    chosen = DATASETS[dataset]
    items = (
        tiny.images(2, 0, side_of(params, dataset), chosen.shape[2])
        if chosen.kind == "images"
        else tiny.grids(2)
    )
    architecture = make_task(params, dataset, items, chosen.classes).architecture
    assert architecture.size == chosen.shape[0]
    assert VAE(architecture).parameter_counts()["encoder"] > 0


@pytest.mark.parametrize(
    ("dataset", "changes", "says"),
    [
        ("arc_grids", {"patch": 3}, "patch must divide grids.size (8), got 3"),
        (
            "fashion_mnist",
            {"patch": 8},
            "patch must divide the side of fashion_mnist (28), got 8",
        ),
        ("cifar10", {"patch": 5, "network": "mixer"}, "the side of cifar10 (32), got 5"),
        (
            "arc_grids",
            {"latent_dim": 24, "prior": "standard"},
            "latent_dim must be a multiple or a divisor of the 16 patches of a grid, got 24"
            " (choose 16)",
        ),
        (
            "mnist",
            {"latent_dim": 100, "network": "mixer"},
            "latent_dim must be a multiple or a divisor of the 49 patches of an image of mnist,"
            " got 100 (choose 98)",
        ),
        (
            "arc_grids",
            {"latent_dim": 8},
            "latent_dim must be a multiple of the 16 patches of a grid for the autoregressive"
            " prior, got 8 (or choose prior standard)",
        ),
        (
            "fashion_mnist",
            {"latent_dim": 100},
            "latent_dim must be a multiple of the 49 patches of an image of fashion_mnist for the"
            " autoregressive mixture prior, got 100",
        ),
        (
            "celeba",
            {"latent_dim": 100, "prior": "standard", "patch": 8},
            "latent_dim must be a multiple of the 64 patches of an image of celeba for network"
            " conv, got 100",
        ),
        (
            "arc_grids",
            {"likelihood": "gaussian"},
            "likelihood must be categorical for grids, whose cells are colours without an order,"
            " got gaussian",
        ),
        (
            "emoji",
            {"likelihood": "categorical"},
            "likelihood must be one of images for emoji, whose levels have an order, got"
            " categorical (choose discretized_logistic_mixture)",
        ),
        (
            "arc_grids",
            {"network": "conv", "depth": 4, "prior": "standard"},
            "depth must halve grids.size (8) evenly for network conv, got 4",
        ),
        (
            "arc_grids",
            {"network": "conv"},
            "prior must be standard for network conv, got autoregressive (or choose network mixer)",
        ),
        (
            "fashion_mnist",
            {"patch": 7},
            "patch must be 2, 4, 8 or 16 for network conv, which halves images, got 7",
        ),
        ("fashion_mnist", {"patch": 1}, "for network conv, which halves images, got 1"),
    ],
)
def test_what_does_not_fit_is_refused_with_key_value_and_cure(
    dataset: str, changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match="must") as caught:
        require_fitting(_params(dataset, **changes), dataset)
    message = str(caught.value)
    assert message.endswith(says)
    assert "\n" not in message


@pytest.mark.parametrize("network", ["conv", "mixer"])
@pytest.mark.parametrize("dataset", IMAGES)
def test_what_fits_is_built(dataset: str, network: str) -> None:
    params = _params(dataset, network=network, latent_dim=2 * tokens_of(_params(dataset), dataset))
    require_fitting(params, dataset)
    items = tiny.images(2, 0, side_of(params, dataset), DATASETS[dataset].shape[2])
    VAE(make_task(params, dataset, items, 256).architecture)


def test_a_mixer_may_have_fewer_latents_than_patches_under_the_standard_prior() -> None:
    fewer = {"network": "mixer", "latent_dim": 7, "prior": "standard"}
    params = _params("mnist", **fewer)
    require_fitting(params, "mnist")
    VAE(make_task(params, "mnist", tiny.images(2), 256).architecture)


def test_only_data_sets_that_are_listed_or_asked_for_are_checked() -> None:
    content = {
        **tiny.values(),
        "datasets": ["arc_grids"],
        "images_model": {},
        "fashion_mnist": {"latent_dim": 100},
    }
    params = tiny.parse_params(content, "tiny")
    with pytest.raises(GenlabError) as caught:
        params.for_dataset("fashion_mnist")
    message = str(caught.value)
    assert message.startswith("params.yaml (with section fashion_mnist): likelihood must be")
    with pytest.raises(GenlabError, match=r"tiny \(with section fashion_mnist\): likelihood must"):
        tiny.parse_params({**content, "datasets": ["fashion_mnist"]}, "tiny")
