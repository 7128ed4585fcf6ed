"""Facts about datasets that hold before their files are read: kind, side, channels, classes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from genlab.core.params.sections import SourceParams


@dataclass(frozen=True)
class Dataset:
    """Facts about a dataset that hold before its files are read.

    side: of an item, in cells or pixels; None if its files decide. channels: of images; None if its
    files decide. labels: names of classes, if they are known in advance. labelled: whether classes
    say what an image shows. source: of a user's own dataset.
    """

    name: str
    title: str
    kind: Literal["grids", "images"]
    side: int | None = None
    channels: int | None = None
    labels: tuple[str, ...] = ()
    labelled: bool = True
    source: SourceParams | None = None

    @property
    def family(self) -> Literal["grids", "own_grids", "images"]:
        """Which evaluator applies: grids without a generator (`own_grids`) have their own."""
        return "own_grids" if self.kind == "grids" and self.source else self.kind

    @property
    def classes(self) -> int:
        """Number of values of a cell, or of a channel of a pixel; own grids include padding."""
        return {"grids": 10, "own_grids": 11, "images": 256}[self.family]


# The names of the classes are torchvision's, which takes seconds to import.
_FASHION = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
_CIFAR = "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck"
_CELEBA = ("female", "male", "female, smiling", "male, smiling")
_TONES = ("no tone", "light", "medium light", "medium", "medium dark", "dark", "two tones", "flag")
PUBLISHED: Mapping[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset("arc_grids", "Generated grids: a few simple shapes on black", "grids"),
        Dataset("fashion_mnist", "Fashion-MNIST", "images", 28, 1, tuple(_FASHION.split(","))),
        Dataset("mnist", "MNIST: handwritten digits", "images", 28, 1, tuple("0123456789")),
        Dataset(
            "cifar10", "CIFAR-10: small photographs", "images", 32, 3, tuple(_CIFAR.split(","))
        ),
        Dataset("celeba", "CelebA: faces, centre crop", "images", 64, 3, _CELEBA),
        Dataset(
            "emoji", "Emoji: Noto Color Emoji on white", "images", None, 3, _TONES, labelled=False
        ),
    )
}
"""Datasets that need no files of the user's; params set the side of grids and of emoji."""

DUMMY_DATASET = "dummy"
"""The agent's synthetic data, which no stage has to make."""
RESERVED = frozenset(
    {"agent_search", "checkpoints", DUMMY_DATASET, "evaluated", "generated", "judges", "raw"}
)
"""Names that no dataset can have: folders in data/, and the agent's synthetic data."""


def suggest_model(side: int, kind: Literal["grids", "images"]) -> dict[str, int]:
    """Suggest patch and number of latents for items of a side.

    An image gets 8 latents at each of about 8 x 8 positions, a grid 4 at each 2 x 2 cells.
    """
    if kind == "grids":
        patch = 1 if side % 2 else 2
        return {"patch": patch, "latent_dim": 4 * (side // patch) ** 2}
    divisors = [patch for patch in (4, 8, 16, 2) if side % patch == 0]
    patch = min(divisors, key=lambda patch: abs(side / patch - 8), default=2)
    return {"patch": patch, "latent_dim": 8 * (side // patch) ** 2}


def join_names(names: Iterable[str]) -> str:
    """Join names, sorted, for a message."""
    return ", ".join(sorted(names))
