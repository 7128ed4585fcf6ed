"""Training recipes: aliases, ranges, transforms that are checked before anything is trained."""

from typing import Any

import pytest
import torch
from torchvision.transforms import v2

from genlab.agent.architecture.training import TRANSFORMS, Training, parse_training
from genlab.core.errors import GenlabError

ARGUMENTS: dict[str, dict[str, Any]] = {
    "RandomCrop": {"size": [28, 28], "padding": 2},
    "RandomResizedCrop": {"size": 28},
    "RandomRotation": {"degrees": 10},
    "RandomAffine": {"degrees": 5, "translate": [0.1, 0.1]},
    "GaussianBlur": {"kernel_size": 3},
    "RandomAdjustSharpness": {"sharpness_factor": 2},
    "RandomPosterize": {"bits": 4},
    "RandomSolarize": {"threshold": 0.5},
}


def test_an_empty_recipe_is_the_default_and_american_spelling_is_read() -> None:
    assert parse_training({}) == Training()
    assert parse_training(Training().model_dump(mode="json")) == Training()
    assert parse_training({"optimizer": "sgd"}).optimiser == "sgd"


def test_numbers_in_quotes_are_read_as_language_models_write_them() -> None:
    crop = {"type": "RandomErasing", "p": "1e-1"}
    training = parse_training({"lr": "1e-3", "batch_size": "64", "augmentation": [crop]})
    assert (training.lr, training.batch_size) == (0.001, 64)
    assert training.augmentation[0]["p"] == 0.1


@pytest.mark.parametrize(("raw", "reason"), [
    ({"batch_size": "1e-3"}, "batch_size .*, got '1e-3'"),
    ({"lr": "on"}, "lr .*, got 'on'"),
    ({"lr": 0}, "training: lr should be greater than 0, got 0"),
    ({"lrr": 1}, "did you mean lr"),
    ({"optimiser": "lion"}, "optimiser"),
    ({"batch_size": 10**6}, "batch_size"),
    ({"mixup": float("nan")}, "mixup"),
    ({"ema": 1}, "ema"),
    ({"augmentation": [{"type": "MixUp"}]}, "did you mean mixup"),
    ({"augmentation": [{"type": "Resize"}]}, "no transform that keeps"),
    ({"augmentation": [{"type": "RandomCrop", "pad": 3}]}, r"augmentation\[0\]: RandomCrop: "),
])  # fmt: skip
def test_a_faulty_recipe_is_refused_by_name(raw: dict[str, Any], reason: str) -> None:
    with pytest.raises(GenlabError, match=reason):
        parse_training(raw)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_transform_keeps_the_shape_of_an_image(name: str) -> None:
    training = parse_training({"augmentation": [{"type": name, **ARGUMENTS.get(name, {})}]})
    arguments = {key: value for key, value in training.augmentation[0].items() if key != "type"}
    for channels in (1, 3):
        image = torch.rand(channels, 28, 28)
        assert getattr(v2, name)(**arguments)(image).shape == image.shape
