"""Check that the shapes and the likelihood of params fit a dataset's items."""

from __future__ import annotations

from collections.abc import Iterator

from genlab.core.errors import GenlabError
from genlab.core.params.catalogue import Dataset
from genlab.core.params.flat import FlatParams


def check_shapes(params: FlatParams, dataset: Dataset, source: str) -> None:
    """Raise a `GenlabError` of one line if no model of `params` can be built for a dataset.

    What depends on a side that the dataset's files decide is not checked. source: the file or
    option that the error names.
    """
    violation = next(_find_violations(params, dataset), None)
    if violation is None:
        return
    key, rule = violation
    value = getattr(params, key)
    raise GenlabError(f"{source}: {key} must {rule}, got {value} (for {dataset.name})", key=key)


def _find_violations(params: FlatParams, dataset: Dataset) -> Iterator[tuple[str, str]]:
    """Key and rule of each violation."""
    grids = dataset.kind == "grids"
    side = dataset.side or params.patch
    patches = max(1, side // params.patch) ** 2
    is_categorical = params.likelihood == "categorical"
    if grids and not is_categorical:
        yield "likelihood", "be categorical for grids"
    if not grids and is_categorical:
        yield "likelihood", "not be that of grids"
    if not grids and params.patch not in (2, 4, 8, 16):
        yield "patch", "be 2, 4, 8 or 16 for images"
    if side % params.patch:
        yield "patch", f"divide the side of an item, {side}"
    is_multiple = params.latent_dim % patches == 0
    if not is_multiple and (not grids or params.prior != "standard"):
        rule = f"be a multiple of the {patches} patches for images, and for prior {params.prior}"
        yield "latent_dim", rule
    if not is_multiple and patches % params.latent_dim:
        yield "latent_dim", f"be a multiple or a divisor of the {patches} patches"
