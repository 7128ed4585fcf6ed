"""Acceptance criteria of a trained VAE, computed from its evidence alone.

The thresholds are constants of this module, so that the code that is judged cannot change them.
Those of images are relative to the training images, to models without a network or to chance, not
to what a model of this project reached, so that they apply at any size and number of channels. A
relative Fréchet distance is not informative for few images: with 409 (emoji), the distance of
training images is so large that samples hardly miss a threshold. There, the accuracy of the
discriminator decides.

A verdict of this module is of one training. `genlab.evaluation.reports.trainings` judges several.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

MAX_DISCRIMINATOR_ACCURACY = 0.75
"""Halfway from chance to a classifier that is always right."""
MAX_RELATIVE_FRECHET = 10.0
"""An order of magnitude above the distance of training images."""
MAX_PRIOR_OVER_POSTERIOR = 2.0
"""Maximum ratio of the Fréchet distances of prior and posterior draws, which share the decoder: a
convention, since the squared distances of two causes do not add."""
MAX_SKIPPED = 0.01  # of the updates: skipping bad updates does not make a run stable


@dataclass(frozen=True)
class Criterion:
    """Comparison of a number of the evidence with a threshold; nan fails.

    threshold: a number, or the name of a number of the evidence. key: name of the compared number
    in the evidence, by default `name`.
    """

    name: str
    sign: str
    threshold: float | str
    why: str
    key: str = ""


GRIDS = (
    Criterion("pixel_accuracy", ">", 0.95, "share of the test cells that keep their colour"),
    Criterion("exact_grid_accuracy", ">=", 0.95, "share of the test grids without a wrong cell"),
    Criterion("no_dominant_colour", "<", 0.02, "largest predicted minus true share of a colour"),
    Criterion("all_colours_learnt", ">", 0.5, "accuracy of the worst colour"),
    Criterion("colour_histogram_tv", "<", 0.05, "total variation of predicted and true colours"),
)
OWN_GRIDS = (
    Criterion("skill_score", ">", 0.5, "way from an all-black answer to all cells right"),
    Criterion("no_dominant_colour", "<", 0.02, "largest predicted minus true share of a colour"),
)
"""For grids of any kind: thresholds are relative to answers without a network."""
OWN_GENERATION = (
    Criterion(
        "neg_elbo_per_cell",
        "<",
        "context_nats_per_cell",
        "nats per cell, below those of a table of counts given the cells to the left and above",
    ),
    Criterion(
        "component_excess",
        "<",
        0.25,
        "largest total variation of samples and test grids in number, size or colour of"
        " components, beyond that of training grids",
    ),
    Criterion("novelty", ">", 0.5, "share of samples that are no training grid"),
)
"""For the user's own grids, where the loss has a KL term."""
GENERATION = (
    Criterion("valid_rate", ">", 0.5, "share of valid grids among the chosen sampler's: most"),
    Criterion("neg_elbo_over_entropy_bound", "<=", 1.1, "−ELBO over the data's entropy bound"),
)
"""For generated grids, where the loss has a KL term: at beta 0 nothing fits codes to the prior."""
IMAGES = (
    Criterion(
        "bits_per_dim",
        "<",
        "context_model_bits",
        "bits/dim, below those of a table of counts given the pixels above and to the left",
    ),
    Criterion("ssim", ">", "pca_ssim", "SSIM of reconstructions, above that of PCA-64"),
    Criterion(
        "relative_frechet_best",
        "<=",
        MAX_RELATIVE_FRECHET,
        "Fréchet distance of the chosen sampler over that of training images",
    ),
    Criterion(
        "prior_over_posterior",
        "<=",
        MAX_PRIOR_OVER_POSTERIOR,
        "Fréchet distance of prior draws over that of posterior draws",
    ),
    Criterion(
        "discriminator_accuracy",
        "<=",
        MAX_DISCRIMINATOR_ACCURACY,
        "accuracy of a classifier that tells the chosen sampler's draws from test images",
    ),
    Criterion("skipped_updates", "<", MAX_SKIPPED, "share of the updates", key="skipped_share"),
)


CRITERIA: Mapping[str, tuple[tuple[Criterion, ...], tuple[Criterion, ...]]] = {
    "grids": (GRIDS, GENERATION),
    "own_grids": (OWN_GRIDS, OWN_GENERATION),
    "images": (IMAGES, ()),
}
"""Criteria by family of datasets: for every model, and for models whose loss has a KL term."""


def check_criteria(family: str, evidence: SimpleNamespace) -> dict[str, Any]:
    """Compare the evidence about a model with the criteria of its family of datasets.

    family: grids, own_grids or images. Returns the content of verdict.json, of one training.
    """
    criteria, generation_criteria = CRITERIA[family]
    if evidence.beta_max > 0:
        criteria += generation_criteria
    rows = [_check(criterion, evidence) for criterion in criteria]
    missed = [row for row in rows if not row["passed"]]
    return {"summary": summarise(missed), "passed": not missed, "criteria": rows}


def _check(criterion: Criterion, evidence: SimpleNamespace) -> dict[str, Any]:
    """One row of verdict.json."""
    key = criterion.key or criterion.name
    value = float(getattr(evidence, key))
    threshold = criterion.threshold
    if isinstance(threshold, str):
        threshold = getattr(evidence, threshold)
    why = criterion.why
    if not math.isfinite(value):
        why += "; not measured, or not finite"
    return {
        "name": criterion.name,
        "value": value if math.isfinite(value) else None,
        "interval": evidence.intervals.get(key),
        "threshold": float(threshold),
        "sign": criterion.sign,
        "passed": bool(COMPARISONS[criterion.sign](value, threshold)),
        "why": why,
    }


def summarise(missed: Sequence[Mapping[str, Any]]) -> str:
    """Summarise a verdict in one line that names every missed criterion and its threshold."""
    words = [
        f"{row['name']} {'–' if row['value'] is None else format(row['value'], '.4g')}"
        f" (wanted {row['sign']} {row['threshold']:.4g})"
        for row in missed
    ]
    return f"missed: {', '.join(words)}" if words else "all criteria are met"
