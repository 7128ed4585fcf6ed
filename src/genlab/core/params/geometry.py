"""Check that shapes, likelihood and symmetries of params fit a dataset's items."""

from __future__ import annotations

from collections.abc import Iterator

from genlab.core.errors import GenlabError
from genlab.core.params.catalogue import Dataset
from genlab.core.params.flat import FlatParams
from genlab.core.params.sections import GridParams

MIRRORED_KINDS = (
    ("line_horizontal", "line_vertical"),
    ("line_diagonal", "line_antidiagonal"),
)


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


def check_symmetries(params: FlatParams, grids: GridParams, source: str) -> None:
    """Raise a `GenlabError` of one line if weights of kinds break the symmetries of `params`.

    A reflection in the diagonal turns horizontal into vertical lines, one in a row turns diagonals
    into antidiagonals; every other kind of object has all eight symmetries of the square. Colours
    have equal weights always.
    """
    if params.symmetries not in ("flips", "all"):
        return
    weights = grids.weights
    for first, second in MIRRORED_KINDS:
        if weights[first] != weights[second]:
            raise GenlabError(
                f"{source}: symmetries must be none or colours where grids.kinds has other weights"
                f" for {first} ({weights[first]:g}) than for {second} ({weights[second]:g}), got"
                f" {params.symmetries}",
                key="symmetries",
            )


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
