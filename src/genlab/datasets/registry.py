"""The datasets of the pipeline, by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from genlab.core.errors import GenlabError
from genlab.core.params import Params
from genlab.datasets.arc_grids import generate_grids, split_grids
from genlab.datasets.emoji import LABELS as EMOJI_LABELS
from genlab.datasets.images import LEVELS, generate_images, split_images
from genlab.datasets.splits import SplitSummary


@dataclass(frozen=True)
class Dataset:
    """One dataset. `shape` is that of one item, `classes` the number of values of a cell.

    `labels` names the classes of images; empty for grids. The side of an emoji is a param: the
    manifest of its files has their shape.
    """

    name: str
    title: str
    kind: Literal["grids", "images"]
    shape: tuple[int, ...]
    classes: int
    labels: tuple[str, ...] = ()

    def generate(self, params: Params, folder: Path, count: int | None = None) -> str:
        """Make the dataset's items in `folder` (stage generate); returns a line about them."""
        if self.kind == "grids":
            return generate_grids(self.name, params, folder, count)
        if count is not None:
            raise GenlabError(
                f"--count is for generated grids; {self.name} has a fixed size: leave it out",
                key="--count",
            )
        return generate_images(self.name, self.labels, params, folder)

    def split(self, params: Params, folder: Path, data: Path, seed: int) -> SplitSummary:
        """Split what `generate` wrote to `folder` into `data` (stage split)."""
        split = split_grids if self.kind == "grids" else split_images
        return split(self.name, params, folder, data, seed)


def _images(name: str, title: str, shape: tuple[int, int, int], labels: tuple[str, ...]) -> Dataset:
    return Dataset(name, title, "images", shape, LEVELS, labels)


# The names of the classes are torchvision's, which takes seconds to import.
_FASHION = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
_CIFAR10 = "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck"
_CELEBA = ("female", "male", "female, smiling", "male, smiling")
_ALL = (
    Dataset("arc_grids", "Generated grids: a few simple shapes on black", "grids", (16, 16), 10),
    _images("fashion_mnist", "Fashion-MNIST", (28, 28, 1), tuple(_FASHION.split(","))),
    _images("mnist", "MNIST: handwritten digits", (28, 28, 1), tuple("0123456789")),
    _images("cifar10", "CIFAR-10: small photographs", (32, 32, 3), tuple(_CIFAR10.split(","))),
    _images("celeba", "CelebA: faces, centre crop", (64, 64, 3), _CELEBA),
    _images("emoji", "Emoji: Noto Color Emoji on white", (32, 32, 3), EMOJI_LABELS),
)
DATASETS: dict[str, Dataset] = {each.name: each for each in _ALL}


def find_dataset(name: str) -> Dataset:
    """The dataset called `name`. Raises a GenlabError that lists the known ones."""
    if name not in DATASETS:
        known = ", ".join(sorted(DATASETS))
        raise GenlabError(
            f"no dataset is called {name!r}; known: {known} (option --dataset)", key="--dataset"
        )
    return DATASETS[name]
