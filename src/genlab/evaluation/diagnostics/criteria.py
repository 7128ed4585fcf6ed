"""Acceptance criteria of a trained VAE, computed from its evidence alone.

Thresholds live here, out of the reach of what is judged. Those of images are relative to the
training images or to models without a network, at any size and number of channels. A Fréchet
distance over that of training images loses its meaning with few images: at 409 (emoji) the latter
is so far from 0 that samples hardly miss a threshold. There, the discriminator's accuracy decides.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

MIN_ACTIVE = 0.05  # fraction of the latents: with fewer, the code is mostly dead weight
MIN_KL = 1.0  # nats; the KL bounds what z tells of x, and one nat cannot tell three items apart
MAX_DISCRIMINATOR_ACCURACY = 0.8  # 0.5 is chance
MAX_NEAR_DUPLICATES = 0.05  # it is 0.01 for new images by construction
MAX_SKIPPED = 0.01  # of the updates: a run is not stable by leaving out what hurts


@dataclass(frozen=True)
class Criterion:
    """A number of the evidence that must compare to a threshold; one that is nan fails.

    threshold: a number, or the name of one in the evidence. key: the number's name in the evidence,
    `name` by default.
    """

    name: str
    sign: str
    threshold: float | str
    why: str
    key: str = ""


ACTIVE_SHARE = Criterion("active_share", ">=", MIN_ACTIVE, "fraction of active latents")
GRIDS = (
    Criterion("pixel_accuracy", ">", 0.95, "share of the test cells that keep their colour"),
    Criterion("exact_grid_accuracy", ">=", 0.95, "share of the test grids without a wrong cell"),
    Criterion("no_dominant_colour", "<", 0.02, "largest predicted minus true share of a colour"),
    Criterion("all_colours_learnt", ">", 0.5, "accuracy of the worst colour"),
    Criterion("colour_histogram_tv", "<", 0.05, "total variation of predicted and true colours"),
    ACTIVE_SHARE,
)
OWN_GRIDS = (
    Criterion("skill_score", ">", 0.5, "way from an all-black answer to all cells right"),
    Criterion("no_dominant_colour", "<", 0.02, "largest predicted minus true share of a colour"),
    ACTIVE_SHARE,
)
"""Of grids of any kind: thresholds are relative to answers without a network."""
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
"""Where the loss has a KL term."""
GENERATION = (
    Criterion("valid_rate", ">", 0.5, "share of valid grids among the chosen sampler's: most"),
    Criterion("neg_elbo_over_entropy_bound", "<=", 1.1, "−ELBO over the data's entropy bound"),
)
"""Of grids, where the loss has a KL term: at beta 0 nothing fits the codes to the prior."""
IMAGES = (
    Criterion(
        "bits_per_dim",
        "<",
        "context_model_bits",
        "bits/dim, below those of a table of counts given the pixels above and to the left",
    ),
    Criterion("ssim", ">", "pca_ssim", "SSIM of reconstructions, above that of PCA-64"),
    ACTIVE_SHARE,
    Criterion(
        "relative_frechet_posterior",
        "<=",
        6.0,
        "Fréchet distance of posterior draws over that of training images",
    ),
    Criterion(
        "relative_frechet_prior",
        "<=",
        16.0,
        "Fréchet distance of prior draws over that of training images",
    ),
    Criterion(
        "relative_frechet_best",
        "<=",
        13.0,
        "Fréchet distance of the chosen sampler over that of training images",
    ),
    Criterion(
        "discriminator_accuracy",
        "<=",
        MAX_DISCRIMINATOR_ACCURACY,
        "accuracy of a classifier that tells the chosen sampler's draws from test images",
    ),
    Criterion("recall", ">", 0.2, "share of test images within reach of the samples"),
    Criterion(
        "near_copies",
        "<=",
        MAX_NEAR_DUPLICATES,
        "lower end of the share of samples nearer to a training image than 99 % of test images",
        key="near_duplicate_rate_low",
    ),
    Criterion("skipped_updates", "<", MAX_SKIPPED, "share of the updates", key="skipped_share"),
)


CRITERIA: Mapping[str, tuple[tuple[Criterion, ...], tuple[Criterion, ...]]] = {
    "grids": (GRIDS, GENERATION),
    "own_grids": (OWN_GRIDS, OWN_GENERATION),
    "images": (IMAGES, ()),
}
"""Criteria of each kind: of every model, and of one whose loss has a KL term."""


def check_criteria(kind: str, evidence: SimpleNamespace) -> dict[str, Any]:
    """verdict.json of a model of `kind`: grids, own_grids or images."""
    always, generating = CRITERIA[kind]
    criteria = []
    for each in (*always, *(generating if evidence.beta_max > 0 else ())):
        value = float(getattr(evidence, each.key or each.name))
        threshold = each.threshold
        threshold = getattr(evidence, threshold) if isinstance(threshold, str) else threshold
        measured = math.isfinite(value)
        criteria.append(
            {
                "name": each.name,
                "value": value if measured else None,
                "interval": evidence.intervals.get(each.key or each.name),
                "threshold": float(threshold),
                "sign": each.sign,
                "passed": bool(COMPARISONS[each.sign](value, threshold)),
                "why": each.why if measured else f"{each.why}; not measured, or not finite",
            }
        )
    missed = [row for row in criteria if not row["passed"]]
    return {"summary": summarise(missed), "passed": not missed, "criteria": criteria}


def summarise(missed: Sequence[Mapping[str, Any]]) -> str:
    """The first line of a verdict: every criterion that is missed, with its threshold."""
    words = [
        f"{row['name']} {'–' if row['value'] is None else format(row['value'], '.4g')}"
        f" (wanted {row['sign']} {row['threshold']:.4g})"
        for row in missed
    ]
    return f"missed: {', '.join(words)}" if words else "all criteria are met"
