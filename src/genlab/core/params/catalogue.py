"""What the datasets state of themselves: kind, side, channels, names of classes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from genlab.core.params.sections import SourceParams


@dataclass(frozen=True)
class Dataset:
    """What a dataset states of itself, before any file of it is read.

    side: of an item, in cells or pixels; None where its files decide. channels: of images, None
    where its files decide. labels: names of classes, where they are known beforehand. labelled:
    whether classes say what an image shows. source: of a dataset of one's own.
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
        """By which measures it is judged: of grids that came without a generator, by their own."""
        return "own_grids" if self.kind == "grids" and self.source else self.kind

    @property
    def classes(self) -> int:
        """Number of values of a cell or of a channel of a pixel; own grids also have padding."""
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
"""Datasets that need no files of one's own; params say the side of grids and of emoji."""

DUMMY_DATASET = "dummy"
"""The agent's own data, which no stage has to make."""
RESERVED = frozenset(
    {"agent_search", "checkpoints", DUMMY_DATASET, "evaluated", "generated", "judges", "raw"}
)
"""Names of folders in data/ and of the agent's own data, which no dataset can have."""


def suggest_model(side: int, kind: Literal["grids", "images"]) -> dict[str, int]:
    """Patch and number of latents for items of a side.

    8 latents at each of about 8 x 8 places of an image, 4 at each 2 x 2 cells of a grid.
    """
    if kind == "grids":
        patch = 1 if side % 2 else 2
        return {"patch": patch, "latent_dim": 4 * (side // patch) ** 2}
    fitting = [patch for patch in (4, 8, 16, 2) if side % patch == 0]
    patch = min(fitting, key=lambda patch: abs(side / patch - 8), default=2)
    return {"patch": patch, "latent_dim": 8 * (side // patch) ** 2}


def join_names(names: Iterable[str]) -> str:
    """Names for a line."""
    return ", ".join(sorted(names))
