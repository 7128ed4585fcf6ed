"""The datasets of the pipeline, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from genlab.core.errors import GenlabError
from genlab.core.params import ImageParams, Params
from genlab.datasets.arc_grids import generate_grids, split_grids
from genlab.datasets.emoji import LABELS as EMOJI_LABELS
from genlab.datasets.emoji import open_emoji
from genlab.datasets.images import LEVELS, generate_images, split_images
from genlab.datasets.sources import Source, open_celeba, open_cifar10, open_mnist
from genlab.datasets.splits import SplitSummary
from genlab.grids.palette import COLOURS


@dataclass(frozen=True)
class Dataset:
    """One dataset. `shape` is that of one item, `classes` the number of values of a cell.

    `labels` names the classes of images, `open` reads them from their source; grids have neither.
    The side of an emoji is a param: the manifest of its files has their shape.
    """

    name: str
    title: str
    shape: tuple[int, ...]
    labels: tuple[str, ...] = ()
    open: Callable[[str, ImageParams], Source] | None = None
    classes: int = LEVELS

    @property
    def kind(self) -> Literal["grids", "images"]:
        """What its items are."""
        return "images" if self.open else "grids"

    def generate(self, params: Params, folder: Path, count: int | None = None) -> str:
        """Make the dataset's items in `folder` (stage generate); returns a line about them."""
        if self.open is None:
            return generate_grids(self.name, params, folder, count)
        source = self.open(self.name, params.images)
        count = params.images.count if count is None else count
        return generate_images(self.name, self.labels, source, folder, count)

    def split(self, params: Params, folder: Path, data: Path, seed: int) -> SplitSummary:
        """Split what `generate` wrote to `folder` into `data` (stage split)."""
        split = split_grids if self.kind == "grids" else split_images
        return split(self.name, params, folder, data, seed)


# The names of the classes are torchvision's, which takes seconds to import.
_FASHION = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
_CIFAR = "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck"
_CELEBA = ("female", "male", "female, smiling", "male, smiling")
_GRIDS, _PHOTOS = "Generated grids: a few simple shapes on black", "CIFAR-10: small photographs"
_ALL = (
    Dataset("arc_grids", _GRIDS, (16, 16), classes=COLOURS),
    Dataset("fashion_mnist", "Fashion-MNIST", (28, 28, 1), tuple(_FASHION.split(",")), open_mnist),
    Dataset("mnist", "MNIST: handwritten digits", (28, 28, 1), tuple("0123456789"), open_mnist),
    Dataset("cifar10", _PHOTOS, (32, 32, 3), tuple(_CIFAR.split(",")), open_cifar10),
    Dataset("celeba", "CelebA: faces, centre crop", (64, 64, 3), _CELEBA, open_celeba),
    Dataset("emoji", "Emoji: Noto Color Emoji on white", (32, 32, 3), EMOJI_LABELS, open_emoji),
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
