"""Whether the shapes and the likelihood that params ask for fit a dataset's items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlab.core.errors import GenlabError
from genlab.core.params.catalogue import Dataset

if TYPE_CHECKING:
    from genlab.core.params import Params


def check_shapes(params: Params, dataset: Dataset, source: str) -> None:
    """Raise a `GenlabError` of one line where `params` cannot be built for a dataset.

    What depends on a side that its files decide is not checked.
    """
    p, grids = params, dataset.kind == "grids"
    side = dataset.side or p.patch
    learned, tokens = p.prior != "standard", max(1, side // p.patch) ** 2
    faults = (
        ("likelihood", grids and p.likelihood != "categorical", "be categorical for grids"),
        ("likelihood", not grids and p.likelihood == "categorical", "not be that of grids"),
        ("patch", not grids and p.patch not in (2, 4, 8, 16), "be 2, 4, 8 or 16 for images"),
        ("patch", side % p.patch, f"divide the side of an item, {side}"),
        (
            "latent_dim",
            (learned or not grids) and p.latent_dim % tokens,
            f"be a multiple of the {tokens} patches for images, and for prior {p.prior}",
        ),
        (
            "latent_dim",
            p.latent_dim % tokens and tokens % p.latent_dim,
            f"be a multiple or a divisor of the {tokens} patches",
        ),
    )
    for key, broken, rule in faults:
        if broken:
            raise GenlabError(
                f"{source}: {key} must {rule}, got {getattr(p, key)} (for {dataset.name})", key=key
            )
