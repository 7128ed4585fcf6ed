"""Whether the shapes and the likelihood that params ask for fit a dataset's items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlab.core.errors import GenlabError

if TYPE_CHECKING:
    from genlab.core.params import Params

GRIDS = ("arc_grids",)
SIDES = {"fashion_mnist": 28, "mnist": 28, "cifar10": 32, "celeba": 64}


def side_of(params: Params, dataset: str) -> int:
    """Side of an item of `dataset`, in cells or pixels."""
    if dataset in GRIDS:
        return params.grids.size
    return SIDES.get(dataset, params.images.emoji_size)


def require_fitting(params: Params, dataset: str, source: str) -> None:
    """Raise a `GenlabError` of one line where `params` cannot be built for `dataset`."""
    p, side, grids = params, side_of(params, dataset), dataset in GRIDS
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
                f"{source}: {key} must {rule}, got {getattr(p, key)} (for {dataset})", key=key
            )
