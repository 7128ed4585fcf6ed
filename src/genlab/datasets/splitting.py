"""Split the items of any dataset."""

from pathlib import Path

from genlab.core.params import Params
from genlab.datasets.arc_grids import split_grids
from genlab.datasets.images import split_images
from genlab.datasets.splits import SplitSummary


def split(name: str, params: Params, folder: Path, data: Path, seed: int) -> SplitSummary:
    """Split what `generate` wrote to `folder` into `data` (stage split)."""
    dataset = params.dataset(name)
    if dataset.kind == "grids":
        return split_grids(name, params.grids, folder, data, seed)
    images = params.images
    shares = {"val": images.val_share, "test": images.test_share}
    if dataset.source:
        shares = dataset.source.shares(images)
    return split_images(dataset, shares, folder, data, seed)
