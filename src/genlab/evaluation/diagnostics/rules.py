"""Failure diagnosis: the known collapses of a VAE, each a rule over its evidence alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from genlab.evaluation.diagnostics.criteria import (
    MAX_NEAR_DUPLICATES,
    MAX_SKIPPED,
    MIN_ACTIVE,
    MIN_KL,
)
from genlab.evaluation.diagnostics.evidence import LEVELS

SIGMA_FLOOR = 0.5 / (LEVELS - 1)
"""Half a level on [0, 1]: no image of 8 bits shows a smaller sigma."""
SHARPNESS = 0.6
"""Of the test images': healthy VAEs had 0.66 to 0.78, over-regularised ones (SSIM below 0.5) 0.53
and 0.54, PCA-16 0.64, PCA-8 0.58, a blur of one pixel 0.52, the mean image 0.38."""
HOLE_OVER_FITTED = 2.0
"""Fréchet distance of the prior's samples over a fitted sampler's: 1.1 where prior and codes agree,
2.4 to 4.8 where a mixture fixes the samples (RAE, 1903.12436, and prototypes)."""

MAX_SPIKES = 1
"""Of the training loss: one may come from an unlucky batch, the second shows a pattern."""
MAX_FALL = 0.05
"""Of the validation exact-match accuracy below its best so far."""


@dataclass(frozen=True)
class Rule:
    """A known failure: `predicate` decides on the evidence, `fix` are the recommended params.

    evidence: names of the numbers that are reported.
    """

    name: str
    predicate: Callable[[SimpleNamespace], bool]
    evidence: tuple[str, ...]
    fix: Callable[[SimpleNamespace], dict[str, Any]]


def diagnose(kind: str, evidence: SimpleNamespace) -> list[dict[str, Any]]:
    """Apply every rule of `kind`, grids or images, in the order of its table.

    Returns [{name, found, evidence, fix}]; `fix` is empty where the failure was not found.
    """
    findings = []
    for rule in GRIDS if kind == "grids" else IMAGES:
        found = bool(rule.predicate(evidence))
        values = {name: getattr(evidence, name) for name in rule.evidence}
        known = {name: None if value != value else value for name, value in values.items()}
        fix = rule.fix(evidence) if found else {}
        findings.append({"name": rule.name, "found": found, "evidence": known, "fix": fix})
    return findings


def detected_issues(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the failures that were found."""
    return [finding["name"] for finding in findings if finding["found"]]


def _collapsed(e: SimpleNamespace) -> bool:
    return bool(e.kl_nats < MIN_KL or e.active_units == 0)


def _fix_smoothing(e: SimpleNamespace) -> dict[str, Any]:
    if e.beta_max > 1:
        return {"beta_max": 1.0}
    if e.likelihood in ("bernoulli", "continuous_bernoulli", "gaussian"):
        # They weigh an error as if sigma were large; a fitted one pays for detail.
        return {"likelihood": "gaussian_analytic"}
    return {"latent_dim": 2 * e.latent_dim, "epochs": 2 * e.epochs}


POSTERIOR_COLLAPSE = Rule(
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
)


def _instability(effect: str, limit: float) -> Rule:
    """Unstable training; `effect` is what is measured on the validation split, `limit` its most."""
    return Rule(
        "training_instability",
        lambda e: (
            e.skipped_share > MAX_SKIPPED
            or e.loss_spikes > MAX_SPIKES
            or getattr(e, effect) > limit
        ),
        ("skipped_share", "loss_spikes", effect),
        lambda e: {"amsgrad": True, "lr": e.lr / 3},
    )


GRIDS: tuple[Rule, ...] = (
    POSTERIOR_COLLAPSE,
    _instability("deepest_fall", MAX_FALL),
    Rule(
        "all_black_collapse",
        lambda e: e.skill_score < 0.1 and e.foreground_recall < 0.5,
        ("skill_score", "foreground_recall", "predicted_black_share", "all_black_baseline"),
        lambda e: {"network": "mixer", "patch": 2},
    ),
    Rule(
        "kl_explosion",
        lambda e: (
            e.epochs_not_finite or (e.beta > 0 and e.kl_nats > 10 * e.data_entropy_bound_nats)
        ),
        ("kl_nats", "data_entropy_bound_nats", "beta", "epochs_not_finite"),
        lambda e: {"grad_clip": 1.0, "lr": 0.001, "beta_warmup": 0.1},
    ),
    Rule(
        "dead_colours",
        # Colours of accuracy < 0.05, or predicted on less than a tenth of their true share.
        lambda e: bool(e.accuracy_of_dead),
        ("accuracy_of_dead",),
        lambda e: {"class_balance_exponent": 0.5, "focal_gamma": 2.0, "network": "mixer"},
    ),
    Rule(
        "over_regularisation",
        # A code of fewer nats than half the data's entropy cannot name the grid.
        lambda e: e.beta > 0 and e.kl_over_entropy < 0.5 and e.skill_score < 0.9,
        ("beta", "kl_nats", "kl_over_entropy", "skill_score"),
        lambda e: {"beta_max": min(1.0, e.beta / 2), "free_bits": 0.05},
    ),
)

IMAGES: tuple[Rule, ...] = (
    POSTERIOR_COLLAPSE,
    _instability("objective_spikes", 0),
    Rule(
        "partial_collapse",
        lambda e: e.active_share < MIN_ACTIVE and not _collapsed(e),
        ("kl_nats", "skill_over_mean_image", "active_share", "beta"),
        lambda e: {"beta_max": min(1.0, e.beta_max), "beta_warmup": 0.5, "free_bits": 0.05},
    ),
    Rule(
        "kl_explosion",
        # At beta 0 nothing holds the KL, and its growth is no failure.
        lambda e: e.beta > 0 and e.kl_nats > e.rate_bound_nats,
        ("kl_nats", "rate_bound_nats", "beta"),
        lambda e: {"beta_max": max(1.0, e.beta_max), "beta_schedule": "constant"},
    ),
    Rule(
        "over_smoothing",
        lambda e: e.reconstructions_over_test < SHARPNESS or e.samples_over_test < SHARPNESS,
        ("reconstructions_over_test", "samples_over_test", "ssim", "likelihood"),
        _fix_smoothing,
    ),
    Rule(
        "sigma_collapse",
        lambda e: e.least_sigma <= 1.05 * SIGMA_FLOOR or e.level_nats_per_dim < 0,
        ("least_sigma", "level_nats_per_dim"),
        lambda e: {
            "likelihood": "discretized_logistic_mixture"
            if e.likelihood == "gaussian_analytic"
            else "gaussian_analytic"
        },
    ),
    Rule(
        "prior_hole",
        lambda e: e.frechet_over_fitted > HOLE_OVER_FITTED,
        ("frechet_over_fitted",),
        lambda e: {"prior": "autoregressive_mixture", "beta_max": max(1.0, e.beta_max)},
    ),
    Rule(
        "memorisation",
        # Distances are of pixels. Smooth samples that copy nothing are not charged (PCA-32 of test
        # images: 0.000), but nor is a memoriser that blurs (PCA-64 of training images: 0.027).
        lambda e: (
            e.near_duplicate_rate_low > MAX_NEAR_DUPLICATES
            or e.exact_share_low > e.held_out_exact_duplicate_rate
        ),
        (
            "near_duplicate_rate",
            "near_duplicate_rate_low",
            "exact_duplicate_rate",
            "held_out_exact_duplicate_rate",
        ),
        lambda e: {
            "weight_decay": 0.1,
            "epochs": max(1, e.epochs // 2),
            "beta_max": max(1.0, e.beta_max),
        },
    ),
    Rule(
        "nan",
        lambda e: bool(e.epochs_not_finite),
        ("epochs_not_finite",),
        lambda e: {"grad_clip": 1.0, "lr": 0.001},
    ),
)
