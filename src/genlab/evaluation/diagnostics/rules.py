"""Failure diagnosis: the known collapses of a VAE, each a rule over numbers alone."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from genlab.evaluation.diagnostics.criteria import (
    MAX_NEAR_DUPLICATES,
    MAX_RELATIVE_FRECHET,
    MAX_SKIPPED,
    MIN_ACTIVE,
    MIN_KL,
    MIN_SKILL,
)
from genlab.evaluation.diagnostics.evidence import (
    FITTED,
    LEVELS,
    RUNAWAY,
    Metrics,
    Series,
    grid_evidence,
    image_evidence,
)

SIGMA_FLOOR = 0.5 / (LEVELS - 1)
"""Half a level on [0, 1]: no image of 8 bits shows a smaller sigma."""
LOST_KL = 0.1
"""Of a KL's early peak: at beta 1 it was 0.23 of what it was at beta 0, at beta 50 0.01."""
SHARPNESS = 0.6
"""Of the test images': healthy VAEs had 0.66 to 0.78, over-regularised ones (SSIM below 0.5) 0.53
and 0.54, PCA-16 0.64, PCA-8 0.58, a blur of one pixel 0.52, the mean image 0.38."""
SIGMA_OVER_RMSE = 0.5
"""Fitted sigmas had 0.99 to 1.13. At a half, squared errors cost 4 times the half nat per pixel
that they cost under a fitted sigma."""
HOLE_OVER_FITTED = 2.0
"""Fréchet distance of the prior's samples over a fitted sampler's: 1.1 where prior and codes agree,
2.4 to 4.8 where a mixture fixes the samples (RAE, 1903.12436, and prototypes)."""
HOLE_OVER_RECONSTRUCTION = 10.0
"""The same over the reconstructions': the codes are good, and sampling loses all of it."""
MOMENT_SHARE = 0.15
"""Of the KL, spent on moments alone: 0.05 to 0.07 at beta 1, 0.24 to 0.27 at 0 and at 0.01."""


@dataclass(frozen=True)
class Rule:
    """A known failure: `predicate` decides on the evidence, `fix` are the recommended params.

    evidence: names of the numbers that are reported. description: the predicate in words.
    """

    name: str
    predicate: Callable[[SimpleNamespace], bool]
    evidence: tuple[str, ...]
    fix: Callable[[SimpleNamespace], dict[str, Any]]
    description: str


def diagnose(kind: str, metrics: Metrics, series: Series) -> list[dict[str, Any]]:
    """Apply every rule of `kind`, grids or images, in the order of its table.

    series: per-epoch `loss`, `reconstruction_loss`, `kl_divergence`, `beta_kl`, `skipped_updates`
    and `updates`, the last two of the epoch alone. Returns [{name, found, rule, evidence, fix}];
    `fix` is empty where the failure was not found. Raises KeyError where a metric is missing.
    """
    measure, rules = (grid_evidence, GRIDS) if kind == "grids" else (image_evidence, IMAGES)
    e = measure(metrics, series)
    return [
        {
            "name": rule.name,
            "found": bool(rule.predicate(e)),
            "rule": rule.description,
            "evidence": {name: _json(getattr(e, name)) for name in rule.evidence},
            "fix": rule.fix(e) if rule.predicate(e) else {},
        }
        for rule in rules
    ]


def detected_issues(diagnosis: Any) -> list[str]:
    """Names of the failures that were found. diagnosis: diagnosis.json or its `diagnoses`."""
    findings = diagnosis["diagnoses"] if isinstance(diagnosis, Mapping) else diagnosis
    return [finding["name"] for finding in findings if finding["found"]]


def _json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _collapsed(e: SimpleNamespace) -> bool:
    return bool(e.kl_nats < MIN_KL or e.active_units == 0)


def _partly_collapsed(e: SimpleNamespace) -> bool:
    # Every warm-up takes most of a free KL away. It is a failure when the pictures went with it.
    lost = e.kl_over_early_peak < LOST_KL and e.skill_over_mean_image < MIN_SKILL
    return not _collapsed(e) and (lost or e.active_share < MIN_ACTIVE)


def _wasteful(e: SimpleNamespace) -> bool:
    # At beta 0 nothing holds the KL, and its growth is no failure.
    return bool(e.beta > 0 and e.kl_nats > e.rate_bound_nats)


def _fix_image_kl(e: SimpleNamespace) -> dict[str, Any]:
    fix: dict[str, Any] = {}
    if e.kl_epochs_not_finite or e.runaway:
        fix |= {"grad_clip": 1.0, "lr": 0.001}
    if _wasteful(e) or e.runaway:
        fix |= {"beta_max": max(1.0, e.beta_max), "beta_schedule": "constant"}
    return fix


def _fix_smoothing(e: SimpleNamespace) -> dict[str, Any]:
    if e.beta_max > 1:
        return {"beta_max": 1.0}
    if e.likelihood in ("bernoulli", "continuous_bernoulli", "gaussian"):
        # They weigh an error as if sigma were large; a fitted one pays for detail.
        return {"likelihood": "gaussian_analytic"}
    return {"latent_dim": 2 * e.latent_dim, "epochs": 2 * e.epochs}


GRIDS: tuple[Rule, ...] = (
    Rule(
        "posterior_collapse",
        _collapsed,
        ("kl_nats", "active_units", "latent_dim"),
        lambda e: {"beta_schedule": "linear", "beta_warmup": 0.5, "free_bits": 0.05},
        "kl_nats < 1 or active_units == 0",
    ),
    Rule(
        "all_black_collapse",
        lambda e: e.skill_score < 0.1 and e.foreground_recall < 0.5,
        ("skill_score", "foreground_recall", "predicted_black_share", "all_black_baseline"),
        lambda e: {"network": "mixer", "patch": 2},
        "skill_score < 0.1 and foreground_recall < 0.5",
    ),
    Rule(
        "kl_explosion",
        lambda e: (
            not e.finite
            or (e.beta > 0 and e.kl_nats > 10 * e.data_entropy_bound_nats)
            or e.skipped_share > MAX_SKIPPED
        ),
        (
            "kl_nats",
            "data_entropy_bound_nats",
            "beta",
            "skipped_updates",
            "skipped_share",
            "finite",
        ),
        lambda e: {"grad_clip": 1.0, "lr": 0.001, "beta_warmup": 0.1},
        "a non-finite loss or KL, more than 1 % of the updates skipped, or (beta > 0) "
        "kl_nats > 10 x data_entropy_bound_nats",
    ),
    Rule(
        "dead_colours",
        lambda e: bool(e.colours),
        ("colours", "accuracy", "predicted_share"),
        lambda e: {"class_balance_exponent": 0.5, "focal_gamma": 2.0, "network": "mixer"},
        "a colour of the data has accuracy < 0.05, or is predicted on less than a tenth of its "
        "true share",
    ),
    Rule(
        "over_regularisation",
        # A code of fewer nats than half the data's entropy cannot name the grid.
        lambda e: e.beta > 0 and e.kl_over_entropy < 0.5 and e.skill_score < 0.9,
        ("beta", "kl_nats", "kl_over_entropy", "skill_score"),
        lambda e: {"beta_max": min(1.0, e.beta / 2), "free_bits": 0.05},
        "beta > 0, kl_nats < 0.5 x data_entropy_bound_nats and skill_score < 0.9",
    ),
)

IMAGES: tuple[Rule, ...] = (
    Rule(
        "posterior_collapse",
        _collapsed,
        ("kl_nats", "active_units", "latent_dim"),
        lambda e: {
            "beta_max": min(1.0, e.beta_max),
            "beta_schedule": "linear",
            "beta_delay": 0.25,
            "beta_warmup": 0.5,
            "free_bits": 0.05,
        },
        "kl_nats < 1 or active_units == 0",
    ),
    Rule(
        "partial_collapse",
        _partly_collapsed,
        ("kl_nats", "kl_over_early_peak", "skill_over_mean_image", "active_share", "beta"),
        lambda e: {"beta_max": min(1.0, e.beta_max), "beta_warmup": 0.5, "free_bits": 0.05},
        f"no posterior collapse, but: as beta rose, KL fell below {LOST_KL:.0%} of its peak and "
        f"skill over the mean image is < {MIN_SKILL:g}; or active_units < {MIN_ACTIVE:.0%} of the "
        "latents",
    ),
    Rule(
        "kl_explosion",
        lambda e: e.kl_epochs_not_finite or e.runaway or _wasteful(e),
        ("kl_nats", "rate_bound_nats", "beta", "kl_epochs_not_finite", "runaway"),
        _fix_image_kl,
        "a KL that is not finite; or (beta > 0) kl_nats > dims / 2 x ln(mean_image_mse / mse), "
        "enough for any source of that variance at that error; or (beta > 0) KL grew more than "
        f"{RUNAWAY:g} times over the last third of the run, KL and -ELBO rising at every epoch",
    ),
    Rule(
        "over_smoothing",
        lambda e: e.reconstructions_over_test < SHARPNESS or e.samples_over_test < SHARPNESS,
        ("reconstructions_over_test", "samples_over_test", "ssim", "likelihood"),
        _fix_smoothing,
        f"mean gradient of reconstructions or of samples < {SHARPNESS:g} of the test images'",
    ),
    Rule(
        "sigma_collapse",
        lambda e: (
            e.least_sigma <= 1.05 * SIGMA_FLOOR
            or e.sigma_over_rmse < SIGMA_OVER_RMSE
            or e.level_nats_per_dim < 0
        ),
        ("least_sigma", "sigma_over_rmse", "level_nats_per_dim"),
        lambda e: {
            "likelihood": "discretized_logistic_mixture"
            if e.likelihood == "gaussian_analytic"
            else "gaussian_analytic"
        },
        f"sigma at its floor, {SIGMA_FLOOR:.4f}; or sigma < {SIGMA_OVER_RMSE:g} x the root of "
        "mse; or -log p(x|z) of 256 levels < 0 nats a dim",
    ),
    Rule(
        "prior_hole",
        lambda e: (
            e.frechet_over_fitted > HOLE_OVER_FITTED
            or (
                e.frechet_over_reconstruction > HOLE_OVER_RECONSTRUCTION
                and e.relative_frechet > MAX_RELATIVE_FRECHET
            )
            or e.moment_share > MOMENT_SHARE
        ),
        ("frechet_over_fitted", "frechet_over_reconstruction", "relative_frechet", "moment_share"),
        lambda e: {"prior": "autoregressive_mixture", "beta_max": max(1.0, e.beta_max)},
        f"Fréchet distance of p(z)'s samples > {HOLE_OVER_FITTED:g} x that of the best of "
        f"{', '.join(FITTED)}; or > {HOLE_OVER_RECONSTRUCTION:g} x the reconstructions' and > "
        f"{MAX_RELATIVE_FRECHET:g} x the floor; or (p(z) = N(0, I)) mean and covariance of all "
        f"codes make up > {MOMENT_SHARE:.0%} of the KL",
    ),
    Rule(
        "memorisation",
        # Distances are of pixels. Smooth samples that copy nothing are not charged (PCA-32 of test
        # images: 0.000), but nor is a memoriser that blurs (PCA-64 of training images: 0.027).
        lambda e: (
            e.near_share_low > MAX_NEAR_DUPLICATES
            or e.exact_share_low > e.held_out_exact_duplicate_rate
        ),
        (
            "near_duplicate_rate",
            "near_share_low",
            "exact_duplicate_rate",
            "held_out_exact_duplicate_rate",
        ),
        lambda e: {
            "weight_decay": 0.1,
            "epochs": max(1, e.epochs // 2),
            "beta_max": max(1.0, e.beta_max),
        },
        f"lower end of near_duplicate_rate > {MAX_NEAR_DUPLICATES:g}, or of exact_duplicate_rate "
        "> the test images' own",
    ),
    Rule(
        "nan",
        lambda e: e.epochs_not_finite or e.metrics_not_finite or e.skipped_share > MAX_SKIPPED,
        ("epochs_not_finite", "metrics_not_finite", "skipped_share"),
        lambda e: {"grad_clip": 1.0, "lr": 0.001},
        f"a loss or a metric that is not finite, or more than {MAX_SKIPPED:.0%} of the updates "
        "skipped",
    ),
)
