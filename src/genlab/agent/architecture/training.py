"""Training recipes: the part of an attempt that is neither architecture nor budget."""

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

from genlab.core.errors import GenlabError, did_you_mean, to_genlab_error
from genlab.core.text import read_number

# Transforms of torchvision.transforms.v2 that keep the shape of an image and need no label.
TRANSFORMS = (
    "RandomCrop", "RandomResizedCrop", "RandomHorizontalFlip", "RandomVerticalFlip",
    "RandomRotation", "RandomAffine", "RandomPerspective", "ElasticTransform", "RandomErasing",
    "ColorJitter", "GaussianBlur", "GaussianNoise", "RandomAdjustSharpness", "RandomAutocontrast",
    "RandomEqualize", "RandomInvert", "RandomPosterize", "RandomSolarize", "RandomGrayscale",
    "RandomChannelPermutation", "RandomPhotometricDistort", "AutoAugment", "RandAugment",
    "TrivialAugmentWide", "AugMix",
)  # fmt: skip
UNUSED = {  # keys of a recipe that have no effect, by task
    "classify": ("kl_weight", "kl_warmup", "free_bits"),
    "generate": ("label_smoothing", "mixup"),
}
SMALL = ("optimiser", "lr", "schedule", "batch_size")  # keys that a weak model chooses
TRANSFORM = {
    "type": "object",
    "properties": {"type": {"enum": list(TRANSFORMS)}},
    "required": ["type"],
    "additionalProperties": True,
}


class Training(BaseModel):
    """A training recipe; what is left out has a default that usually works."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    optimiser: Literal["adamw", "adam", "nadam", "radam", "rmsprop", "sgd"] = Field(
        "adamw", validation_alias=AliasChoices("optimiser", "optimizer")
    )
    lr: float = Field(2e-3, gt=0, le=10, description="peak learning rate")
    schedule: Literal["constant", "linear", "cosine", "step"] = Field(
        "cosine", description="of the learning rate after warmup"
    )
    warmup: float = Field(0.05, ge=0, le=0.5, description="fraction of the steps, linear")
    batch_size: int = Field(64, ge=1, le=4096)
    weight_decay: float = Field(0.01, ge=0, le=1)
    momentum: float = Field(0.9, ge=0, lt=1, description="of sgd (Nesterov) and rmsprop")
    label_smoothing: float = Field(0.0, ge=0, le=0.9)
    mixup: float = Field(0.0, ge=0, le=4, description="alpha of its beta distribution; 0 = off")
    augmentation: tuple[Annotated[dict[str, Any], WithJsonSchema(TRANSFORM)], ...] = Field(
        (), max_length=8, description="transforms of torchvision.transforms.v2 with arguments"
    )
    ema: float = Field(0.0, ge=0, lt=1, description="decay of averaged weights; 0 = off")
    clip: float = Field(0.0, ge=0, le=1000, description="greatest norm of a gradient; 0 = off")
    kl_weight: float = Field(1.0, ge=0, le=10, description="weight of the KL in training")
    kl_warmup: float = Field(
        0.1, ge=0, le=1, description="fraction of the steps in which that weight rises from 0"
    )
    free_bits: float = Field(
        0.0, ge=0, le=10, description="nats of KL per latent that cost nothing"
    )

    @field_validator("augmentation")
    @classmethod
    def _read_transforms(cls, value: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        """Check names, and read arguments such as "1e-3" as numbers."""
        for transform in value:
            name = str(transform.get("type"))
            if name not in TRANSFORMS:
                hint = did_you_mean(name, (*TRANSFORMS, "mixup"))
                raise ValueError(f"holds {name!r}, no transform that keeps an image's shape{hint}")
        return tuple(
            {key: read_number(argument) for key, argument in transform.items()}
            for transform in value
        )


def recipe_schema(task: str, *, small: bool = False) -> dict[str, Any]:
    """Make the JSON schema of a recipe, every key of which is required.

    task: classify or generate. small: with few keys, for a weak model.
    """
    schema = Training.model_json_schema()
    keys = [key for key in schema["properties"] if key not in UNUSED[task]]
    schema["required"] = list(SMALL) if small else keys
    schema["properties"] = {key: schema["properties"][key] for key in schema["required"]}
    return schema


def parse_training(raw: Mapping[str, Any]) -> Training:
    """Parse a recipe and construct its transforms, so that wrong arguments are found here.

    Raises a GenlabError that names the key and the fault.
    """
    try:
        training = Training.model_validate(dict(raw))
    except ValidationError as error:
        raise to_genlab_error(error, "training", Training.model_fields) from error
    for index, transform in enumerate(training.augmentation):
        from torchvision.transforms import v2

        arguments = {key: value for key, value in transform.items() if key != "type"}
        try:
            getattr(v2, transform["type"])(**arguments)
        except Exception as error:
            fault = f"{transform['type']}: {' '.join(str(error).split())[:200]}"
            raise GenlabError(f"training.augmentation[{index}]: {fault}") from error
    return training
