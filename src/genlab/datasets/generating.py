"""Make the items of any dataset: generated, read from a published source, or a user's own."""

from collections.abc import Callable, Mapping
from pathlib import Path

from genlab.core.params import ImageParams, Params
from genlab.datasets.arc_grids import generate_grids
from genlab.datasets.emoji import open_emoji
from genlab.datasets.images import ImageSource, generate_images
from genlab.datasets.own import generate_own
from genlab.datasets.sources import open_celeba, open_cifar10, open_mnist

OPENERS: Mapping[str, Callable[[str, ImageParams], ImageSource]] = {
    "fashion_mnist": open_mnist,
    "mnist": open_mnist,
    "cifar10": open_cifar10,
    "celeba": open_celeba,
    "emoji": open_emoji,
}
"""Functions that open the published image datasets, by name."""


def generate(name: str, params: Params, folder: Path, count: int | None = None) -> str:
    """Make the items of a dataset in `folder` (stage generate); return a line that summarises them.

    `count` limits the number of items; it defaults to the params.
    """
    dataset = params.dataset(name)
    if dataset.source:
        return generate_own(name, dataset.source, params, folder, count)
    if dataset.kind == "grids":
        return generate_grids(name, params, folder, count)
    count = params.images.count if count is None else count
    source = OPENERS[name](name, params.images)
    return generate_images(name, dataset.labels, source, folder, count)
