"""Whether the shapes and the likelihood that params ask for fit a data set's items."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genlab.core.params import Params

GRIDS = ("arc_grids",)
SIDES = {"fashion_mnist": 28, "mnist": 28, "cifar10": 32, "celeba": 64}
LEARNED = ("autoregressive", "autoregressive_mixture")


def side_of(params: Params, dataset: str) -> int:
    """Side of an item of `dataset`, in cells or pixels."""
    if dataset in GRIDS:
        return params.grids.size
    return SIDES.get(dataset, params.images.emoji_size)


def tokens_of(params: Params, dataset: str) -> int:
    """Patches of an item of `dataset`."""
    return (side_of(params, dataset) // params.patch) ** 2


def require_fitting(params: Params, dataset: str) -> None:
    """Raise a ValueError of one sentence where `params` cannot be built for `dataset`."""
    side = side_of(params, dataset)
    if dataset in GRIDS:
        _require_for_grids(params, side)
        named, item = f"grids.size ({side})", "a grid"
    else:
        _require_for_images(params, dataset)
        named, item = f"the side of {dataset} ({side})", f"an image of {dataset}"
    if side % params.patch:
        raise ValueError(f"patch must divide {named}, got {params.patch}")
    tokens = tokens_of(params, dataset)
    wanted = params.latent_dim
    on_tokens = params.network == "mixer" or dataset not in GRIDS
    if on_tokens and params.network == "mixer" and wanted % tokens and tokens % wanted:
        raise ValueError(
            f"latent_dim must be a multiple or a divisor of the {tokens} patches of {item},"
            f" got {wanted} (choose {_nearest(wanted, tokens)})"
        )
    if on_tokens and (params.prior in LEARNED or params.network == "conv") and wanted % tokens:
        learned = f"the {params.prior.replace('_', ' ')} prior"
        why = f" for {learned}" if params.prior in LEARNED else " for network conv"
        other = " (or choose prior standard)" if params.network == "mixer" else ""
        raise ValueError(
            f"latent_dim must be a multiple of the {tokens} patches of {item}{why}, got {wanted}"
            f"{other}"
        )


def _require_for_grids(params: Params, side: int) -> None:
    if params.likelihood != "categorical":
        raise ValueError(
            f"likelihood must be categorical for grids, whose cells are colours without an order,"
            f" got {params.likelihood}"
        )
    if params.network == "conv" and side % 2**params.depth:
        raise ValueError(
            f"depth must halve grids.size ({side}) evenly for network conv, got {params.depth}"
        )
    if params.prior in LEARNED and params.network != "mixer":
        raise ValueError(
            f"prior must be standard for network {params.network}, got {params.prior}"
            " (or choose network mixer)"
        )


def _require_for_images(params: Params, dataset: str) -> None:
    if params.likelihood == "categorical":
        raise ValueError(
            f"likelihood must be one of images for {dataset}, whose levels have an order, got"
            " categorical (choose discretized_logistic_mixture)"
        )
    if params.network == "conv" and (params.patch < 2 or params.patch & (params.patch - 1)):
        raise ValueError(
            f"patch must be 2, 4, 8 or 16 for network conv, which halves images, got {params.patch}"
        )


def _nearest(wanted: int, tokens: int) -> int:
    divisors = [size for size in range(1, tokens) if tokens % size == 0]
    multiples = [tokens * max(1, wanted // tokens + step) for step in (0, 1)]
    return min(divisors + multiples, key=lambda size: abs(size - wanted))
