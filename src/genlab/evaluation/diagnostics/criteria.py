"""Acceptance criteria of a trained VAE, computed from its evidence alone.

Thresholds live here, out of the reach of what is judged. No criterion of images speaks of pixels or
a side, so that they mean the same at 28 and at 64 pixels, grey or in colour. Where a threshold was
calibrated, it was on the 10,000 test images of Fashion-MNIST: on their projections onto k principal
components of the training images ("PCA-k"), on blurred ones, and on eight MLP VAEs of 32 latents.
"""

import math
import operator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from genlab.evaluation.diagnostics.evidence import MIN_BASELINE_GAIN

COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

MIN_ACTIVE = 0.05  # fraction of the latents: with fewer, the code is mostly dead weight
MIN_KL = 1.0  # nats; the KL bounds what z tells of x, and one nat cannot tell three items apart
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
    Criterion(
        "above_collapse_threshold",
        ">",
        "collapse_threshold",
        f"pixel accuracy, {MIN_BASELINE_GAIN:.0%} of the way from an all-black answer's to 1",
        key="pixel_accuracy",
    ),
    Criterion("no_dominant_colour", "<", 0.02, "largest predicted minus true share of a colour"),
    Criterion("all_colours_learnt", ">", 0.5, "accuracy of the worst colour"),
    Criterion("colour_histogram_tv", "<", 0.05, "total variation of predicted and true colours"),
    ACTIVE_SHARE,
)
IMAGES = (
    # PCA-8 reaches 0.7; an SSIM of 0.62 is PCA-32's, 0.53 PCA-16's.
    Criterion("skill_over_mean_image", ">", 0.7, "share of the mean image's error removed"),
    Criterion("ssim", ">=", 0.6, "structural similarity"),
    ACTIVE_SHARE,
    Criterion("kl_nats", ">=", MIN_KL, "upper bound of what the code says about the image"),
    Criterion(
        "relative_frechet",
        "<=",
        "frechet_threshold",
        "Fréchet distance of the picked sampler over that of training images",
        key="best_relative_frechet",
    ),
    Criterion("recall", ">", 0.2, "share of test images within reach of the samples"),
    Criterion(
        "near_copies",
        "<=",
        MAX_NEAR_DUPLICATES,
        "lower end of the share of samples nearer to a training image than 99 % of test images",
        key="near_duplicate_rate_low",
    ),
    Criterion(
        "exact_duplicate_rate",
        "<=",
        "held_out_exact_duplicate_rate",
        "lower end of the share of samples that are training images, against test images",
        key="exact_share_low",
    ),
    Criterion("skipped_updates", "<", MAX_SKIPPED, "share of the updates", key="skipped_share"),
)


def judge(kind: str, evidence: SimpleNamespace) -> dict[str, Any]:
    """verdict.json of a model of `kind`, grids or images."""
    criteria = []
    for each in GRIDS if kind == "grids" else IMAGES:
        value = float(getattr(evidence, each.key or each.name))
        threshold = each.threshold
        threshold = getattr(evidence, threshold) if isinstance(threshold, str) else threshold
        measured = math.isfinite(value)
        criteria.append(
            {
                "name": each.name,
                "value": value if measured else None,
                "threshold": float(threshold),
                "sign": each.sign,
                "passed": bool(COMPARISONS[each.sign](value, threshold)),
                "why": each.why if measured else f"{each.why}; not measured, or not finite",
            }
        )
    return {"passed": all(each["passed"] for each in criteria), "criteria": criteria}
