"""How a model is trained: the part of an attempt that is not architecture and not budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
)

from genlab.core.errors import GenlabError, did_you_mean, invalid

OPTIMISERS = {  # names in torch.optim
    "adamw": "AdamW",
    "adam": "Adam",
    "nadam": "NAdam",
    "radam": "RAdam",
    "rmsprop": "RMSprop",
    "sgd": "SGD",
}
# Transforms of torchvision.transforms.v2 that keep the shape of a batch of images.
TRANSFORMS = (
    "RandomCrop", "RandomResizedCrop", "RandomHorizontalFlip", "RandomVerticalFlip",
    "RandomRotation", "RandomAffine", "RandomPerspective", "ElasticTransform", "RandomErasing",
    "ColorJitter", "GaussianBlur", "GaussianNoise", "RandomAdjustSharpness", "RandomAutocontrast",
    "RandomEqualize", "RandomInvert", "RandomPosterize", "RandomSolarize", "RandomGrayscale",
    "RandomChannelPermutation", "RandomPhotometricDistort", "AutoAugment", "RandAugment",
    "TrivialAugmentWide", "AugMix",
)  # fmt: skip
SIZED = ("RandomCrop", "RandomResizedCrop")  # their size is the image's where it is not given

Transform = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "properties": {"type": {"enum": list(TRANSFORMS)}},
            "required": ["type"],
            "additionalProperties": True,
        }
    ),
]


class Training(BaseModel):
    """A training recipe; what it leaves out has the default that usually works."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    optimiser: Literal["adamw", "adam", "nadam", "radam", "rmsprop", "sgd"] = Field(
        "adamw", validation_alias=AliasChoices("optimiser", "optimizer")
    )
    lr: float = Field(
        2e-3, gt=0, le=10, validation_alias=AliasChoices("lr", "learning_rate"),
        description="peak learning rate",
    )  # fmt: skip
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "cosine", validation_alias=AliasChoices("schedule", "scheduler", "lr_schedule"),
        description="of the learning rate after warmup: to zero at the end, or constant",
    )  # fmt: skip
    warmup: float = Field(0.05, ge=0, le=0.5, description="fraction of the steps, linear")
    batch_size: int = Field(64, ge=1, le=4096)
    weight_decay: float = Field(0.01, ge=0, le=1)
    momentum: float = Field(0.9, ge=0, lt=1, description="of sgd (Nesterov) and rmsprop")
    label_smoothing: float = Field(0.0, ge=0, le=0.9)
    mixup: float = Field(0.0, ge=0, le=4, description="alpha of its beta distribution; 0 = off")
    augmentation: tuple[Transform, ...] = Field(
        (), max_length=8, description="transforms of torchvision.transforms.v2 with arguments"
    )
    ema: float = Field(
        0.0, ge=0, lt=1, validation_alias=AliasChoices("ema", "ema_decay"),
        description="decay of the average of weights that is evaluated; 0 = off",
    )  # fmt: skip
    clip: float = Field(
        0.0, ge=0, le=1000, validation_alias=AliasChoices("clip", "grad_clip"),
        description="greatest norm of the gradient; 0 = off",
    )  # fmt: skip

    @field_validator("optimiser", "schedule", mode="before")
    @classmethod
    def _lower(cls, value: Any) -> Any:
        return value.strip().lower() if isinstance(value, str) else value

    @field_validator("augmentation", mode="before")
    @classmethod
    def _read_augmentation(cls, value: Any) -> Any:
        if value is None or value == "none":
            return ()
        listed = value if isinstance(value, list | tuple) else [value]
        return [_read_transform(each) for each in listed]


def parse_training(raw: Mapping[str, Any]) -> Training:
    """Read a recipe; every transform is constructed once, so that wrong arguments are found here.

    Raises a GenlabError that names the key and the fault.
    """
    if not isinstance(raw, Mapping):
        raise GenlabError("training: it has to be an object")
    try:
        training = Training.model_validate(dict(raw))
    except ValidationError as error:
        raise invalid(error, "training", Training.model_fields) from error
    if training.augmentation:
        from torchvision.transforms import v2

        for index, given in enumerate(training.augmentation):
            arguments = {key: value for key, value in given.items() if key != "type"}
            if given["type"] in SIZED:
                arguments.setdefault("size", 1)
            try:
                getattr(v2, given["type"])(**arguments)
            except Exception as error:
                fault = f"{given['type']}: {' '.join(str(error).split())[:200]}"
                raise GenlabError(f"training.augmentation[{index}]: {fault}") from error
    return training


def _read_transform(given: Any) -> dict[str, Any]:
    given = {"type": given} if isinstance(given, str) else given
    if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
        raise ValueError("holds objects with a type")
    names = {name.lower(): name for name in TRANSFORMS}
    name = given["type"].rpartition(".")[2]
    if name.lower() not in names:
        hint = did_you_mean(name, TRANSFORMS)
        hint = "; that is the key mixup" if name.lower() in ("mixup", "cutmix") else hint
        raise ValueError(f"{name!r} is not a known transform that keeps the shape{hint}")
    return {**given, "type": names[name.lower()]}
