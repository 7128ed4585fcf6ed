"""The data sets that the pipeline knows, by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from genlab.core.errors import GenlabError
from genlab.core.params import Params
from genlab.datasets.arc_grids import draw_grids, make_distribution
from genlab.datasets.emoji import LABELS as EMOJI_LABELS
from genlab.datasets.generated import write_generated
from genlab.datasets.image_files import LEVELS
from genlab.datasets.images import make_images, share_images
from genlab.datasets.splits import Shared, share_grids


@dataclass(frozen=True)
class Dataset:
    """One data set. `shape` is that of one item, `classes` the number of values of a cell.

    `labels` names what an item can be; empty for grids. The side of an emoji is a param: the shape
    that its files have stands in their manifest.
    """

    name: str
    title: str
    kind: Literal["grids", "images"]
    shape: tuple[int, ...]
    classes: int
    labels: tuple[str, ...] = ()

    def generate(
        self,
        params: Params,
        folder: Path,
        *,
        count: int | None = None,
        seed: int | None = None,
    ) -> str:
        """Make the data set's items in `folder` (stage generate); returns a line about them."""
        if self.kind == "grids":
            return _make_grids(self.name, params, folder, count, seed)
        if count is not None:
            raise GenlabError(
                f"--count is for generated grids; {self.name} is read whole: leave it out",
                key="--count",
            )
        return make_images(self.name, self.labels, params, folder)

    def split(self, params: Params, folder: Path, data: Path, seed: int) -> Shared:
        """Share what `make` left in `folder` out to `data` (stage split)."""
        share = share_grids if self.kind == "grids" else share_images
        return share(self.name, params, folder, data, seed)


def _make_grids(
    name: str,
    params: Params,
    folder: Path,
    count: int | None,
    seed: int | None,
) -> str:
    """Draw grids into `folder`; what is not given comes from the params."""
    program = make_distribution(params.grids)
    count = params.grids.count if count is None else count
    seed = params.seed if seed is None else seed
    draw = draw_grids(program, count, seed)
    write_generated(folder, draw, program, name, seed)
    dropped = f"{draw.duplicates} duplicates dropped"
    return f"{folder}: {count} different grids, {len(draw.objects)} objects ({dropped})"


def _images(name: str, title: str, shape: tuple[int, int, int], labels: tuple[str, ...]) -> Dataset:
    return Dataset(name, title, "images", shape, LEVELS, labels)


# The names of the classes are torchvision's, which takes seconds to import.
_ALL = (
    Dataset(
        name="arc_grids",
        title="Generated grids in the language of ARC: a few plain shapes on black",
        kind="grids",
        shape=(16, 16),
        classes=10,
    ),
    _images(
        "fashion_mnist",
        "Fashion-MNIST: Fashion-MNIST images",
        (28, 28, 1),
        (
            "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
            "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
        ),
    ),
    _images(
        "mnist",
        "MNIST: handwritten digits",
        (28, 28, 1),
        (
            "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four",
            "5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine",
        ),
    ),
    _images(
        "cifar10",
        "CIFAR-10: small photographs of animals and vehicles",
        (32, 32, 3),
        (
            "airplane", "automobile", "bird", "cat", "deer",
            "dog", "frog", "horse", "ship", "truck",
        ),
    ),
    _images(
        "celeba",
        "CelebA: faces of celebrities, centre crop",
        (64, 64, 3),
        ("female", "male", "female, smiling", "male, smiling"),
    ),
    _images("emoji", "Emoji: the glyphs of Noto Color Emoji on white", (32, 32, 3), EMOJI_LABELS),
)  # fmt: skip
DATASETS: dict[str, Dataset] = {each.name: each for each in _ALL}


def find_dataset(name: str) -> Dataset:
    """The data set called `name`. Raises a GenlabError that lists the known ones."""
    if name not in DATASETS:
        known = ", ".join(sorted(DATASETS))
        raise GenlabError(f"no dataset is called {name!r}; known: {known} (option --dataset)")
    return DATASETS[name]
