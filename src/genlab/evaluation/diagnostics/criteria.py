"""Acceptance criteria of a trained VAE, computed from its metrics alone.

Thresholds live here, out of the reach of what is judged. No criterion of images speaks of pixels or
a side, so that they mean the same at 28 and at 64 pixels, grey or in colour. Where a threshold was
calibrated, it was on the 10,000 test images of Fashion-MNIST: on their projections onto k principal
components of the training images ("PCA-k"), on blurred ones, and on eight MLP VAEs of 32 latents.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from genlab.evaluation.diagnostics.evidence import Metrics, Series, grid_evidence, image_evidence

COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

MIN_ACTIVE = 0.05  # fraction of the latents: with fewer, the code is mostly dead weight
MIN_KL = 1.0  # nats; the KL bounds what z tells of x, and one nat cannot tell three items apart
MIN_SKILL = 0.7  # share of the mean image's squared error that is gone: what PCA-8 reaches
MIN_BASELINE_GAIN = 0.5  # of the way from the all-black baseline's pixel accuracy to 1
MAX_RELATIVE_FRECHET = 60.0  # 60 normals on a small MLP VAE came to 44
MAX_NEAR_DUPLICATES = 0.05  # it is 0.01 for new images by construction
MAX_SKIPPED = 0.01  # of the updates: a run is not stable by leaving out what hurts


@dataclass(frozen=True)
class Criterion:
    """A number of the evidence that must compare to a threshold; one that is not finite fails.

    key: its name in the evidence, `name` by default. threshold: nan where it depends on the run.
    """

    name: str
    sign: str
    threshold: float
    why: str
    key: str = ""

    def judge(self, evidence: SimpleNamespace) -> dict[str, Any]:
        """An entry of verdict.json."""
        value = float(getattr(evidence, self.key or self.name))
        measured = math.isfinite(value)
        return {
            "name": self.name,
            "value": value if measured else None,
            "threshold": float(self.threshold),
            "sign": self.sign,
            "passed": bool(COMPARISONS[self.sign](value, self.threshold)),
            "why": self.why if measured else f"{self.why}; not measured, or not finite",
        }


ACTIVE_SHARE = Criterion("active_share", ">=", MIN_ACTIVE, "fraction of active latents")
GRIDS = (
    Criterion("pixel_accuracy", ">", 0.95, "share of the test cells that keep their colour"),
    Criterion(
        "above_collapse_threshold",
        ">",
        math.nan,
        f"pixel accuracy, {MIN_BASELINE_GAIN:.0%} of the way from an all-black answer's to 1",
        key="pixel_accuracy",
    ),
    Criterion("no_dominant_colour", "<", 0.02, "largest predicted minus true share of a colour"),
    Criterion("all_colours_learnt", ">", 0.5, "accuracy of the worst colour"),
    Criterion("colour_histogram_tv", "<", 0.05, "total variation of predicted and true colours"),
    ACTIVE_SHARE,
)
IMAGES = (
    Criterion("skill_over_mean_image", ">", MIN_SKILL, "share of the mean image's error removed"),
    Criterion("ssim", ">=", 0.6, "structural similarity"),  # PCA-32 has 0.62, PCA-16 0.53
    ACTIVE_SHARE,
    Criterion("kl_nats", ">=", MIN_KL, "upper bound of what the code says about the image"),
    Criterion("iwae_gain_nats", ">=", math.nan, "IWAE is no looser than the ELBO, but for noise"),
    Criterion(
        "relative_frechet",
        "<=",
        MAX_RELATIVE_FRECHET,
        "Fréchet distance of the picked sampler over that of training images",
        key="best_relative_frechet",
    ),
    Criterion("recall", ">", 0.2, "share of test images within reach of the samples"),
    Criterion(
        "near_copies",
        "<=",
        MAX_NEAR_DUPLICATES,
        "lower end of the share of samples nearer to a training image than 99 % of test images",
        key="near_share_low",
    ),
    Criterion(
        "exact_duplicate_rate",
        "<=",
        math.nan,
        "lower end of the share of samples that are training images, against test images",
        key="exact_share_low",
    ),
    Criterion("skipped_updates", "<", MAX_SKIPPED, "share of the updates", key="skipped_share"),
)


def grid_verdict(metrics: Metrics, series: Series) -> dict[str, Any]:
    """verdict.json of a grid model. Raises KeyError where a metric is missing."""
    evidence = grid_evidence(metrics, series)
    baseline = evidence.all_black_baseline
    asked = {"above_collapse_threshold": baseline + MIN_BASELINE_GAIN * (1 - baseline)}
    return _verdict(GRIDS, evidence, asked)


def image_verdict(
    metrics: Metrics, series: Series, *, min_accuracy: float | None = None
) -> dict[str, Any]:
    """verdict.json of an image model. Raises KeyError where a metric is missing.

    min_accuracy: of the classifier that gives the features, None for data where no such number is
    known.
    """
    evidence = image_evidence(metrics, series)
    criteria = list(IMAGES)
    if min_accuracy is not None:
        why = "accuracy of the classifier whose features the Fréchet distance compares"
        criteria.append(Criterion("classifier_accuracy", ">=", min_accuracy, why))
    asked = {
        "iwae_gain_nats": -evidence.bound_noise,
        "exact_duplicate_rate": evidence.held_out_exact_duplicate_rate,
    }
    # Far from the reference, the picked sampler must at least beat N(0, I).
    normal = evidence.normal_relative_frechet
    if metrics["best_sampler"] != "normal" and normal > MAX_RELATIVE_FRECHET:
        place = next(i for i, each in enumerate(criteria) if each.name == "relative_frechet")
        criteria[place] = replace(criteria[place], sign="<", threshold=normal)
    return _verdict(criteria, evidence, asked)


def _verdict(
    criteria: Sequence[Criterion], evidence: SimpleNamespace, thresholds: dict[str, float]
) -> dict[str, Any]:
    """Judge every criterion; `thresholds` are those that depend on the run."""
    judged = [
        replace(each, threshold=thresholds.get(each.name, each.threshold)).judge(evidence)
        for each in criteria
    ]
    return {"passed": all(each["passed"] for each in judged), "criteria": judged}
