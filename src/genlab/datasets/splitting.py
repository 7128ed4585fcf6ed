"""Split the items of any dataset."""

from pathlib import Path

from genlab.core.params import Params
from genlab.datasets.arc_grids import split_grids
from genlab.datasets.images import split_images
from genlab.datasets.own_grids import split_own_grids
from genlab.datasets.splits import SplitSummary


def split(name: str, params: Params, folder: Path, data: Path, seed: int) -> SplitSummary:
    """Split the items that stage generate wrote to `folder` into `data` (stage split)."""
    dataset = params.dataset(name)
    images = params.images
    if dataset.source:
        shares = dataset.source.shares(images)
        split_own = split_own_grids if dataset.kind == "grids" else split_images
        return split_own(dataset, shares, folder, data, seed)
    if dataset.kind == "grids":
        return split_grids(name, params.grids, folder, data, seed)
    shares = {"val": images.val_share, "test": images.test_share}
    return split_images(dataset, shares, folder, data, seed)
