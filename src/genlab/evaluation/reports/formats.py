"""Numbers, names and captions as reports and pages write them."""

import math
from collections.abc import Mapping
from typing import Any

CAPTIONS: Mapping[str, str] = {
    "reconstructions": "Test items over their reconstructions",
    "samples": "Samples",
    "samplers": "Samples of each sampler",
    "colour_histogram": "Colours, predicted beside true",
    "colour_confusion": "Predicted colour of each true colour's cells",
    "training_curves": "Loss, reconstruction and KL over training",
    "arc_agi": "Real ARC-AGI grids over their reconstructions",
    "neighbours": "Samples over their nearest training images",
    "interpolations": "Interpolations between two test images",
    "traversals": "Traversals along principal directions of the codes",
    "projection": "Codes of test images on two principal directions",
    "kl_by_latent": "KL of each latent from N(0, 1)",
    "sheet": "Items of the training split",
    "capacity_curve": "Exact-match accuracy against the number of latents, at β = 0",
    "loss_over_baselines": "Reconstruction loss of the default run and of baseline runs",
    "rate_distortion": "MSE, IWAE bound and Fréchet distance against the rate, along β",
}
"""Captions of figures, by file stem."""


def share(number: float | None) -> str:
    """A share as a percentage that never rounds a miss up to 100 % or a hit down to 0 %."""
    if number is None or math.isnan(number):
        return "–"
    if number in (0, 1):
        return f"{100 * number:.0f} %"
    # As many digits as the distance from the nearer end needs to show.
    digits = math.ceil(-math.log10(100 * min(number, 1 - number)) - 1e-6)
    return f"{100 * number:.{max(1, digits)}f} %"


def number(value: float | int | None) -> str:
    """A number with four significant digits; integers and large numbers with separators."""
    if value is None or math.isnan(value):
        return "–"
    whole = float(value).is_integer() and abs(value) >= 1000
    if isinstance(value, int) or whole or 9999.5 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:,.4g}"


def spread(value: float) -> str:
    """A standard deviation over a few seeds, in two digits."""
    return f"{value:,.0f}" if abs(value) >= 99.5 else f"{value:,.2g}"


def value(found: Any) -> str:
    """Any value of a params or metrics file as text."""
    if found is None:
        return "–"
    if found in ([], {}):
        return "none"
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, int | float):
        return number(found)
    if isinstance(found, Mapping):
        return ", ".join(f"{key}: {value(entry)}" for key, entry in found.items())
    if isinstance(found, list):
        return ", ".join(value(entry) for entry in found)
    return str(found)


def words(name: str) -> str:
    """`no_dominant_colour` as people write it."""
    return name.replace("_", " ")


def caption(stem: str) -> str:
    """The caption of an evaluation figure; `samples_prior` is captioned 'Samples: prior'."""
    known, _, rest = stem.partition("_") if stem not in CAPTIONS else (stem, "", "")
    if known not in CAPTIONS:
        return words(stem).capitalize()
    return CAPTIONS[known] + (f": {words(rest)}" if rest else "")
