"""Failure diagnosis: rules for the known failures of a VAE, over its evidence alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from genlab.evaluation.diagnostics.criteria import MAX_PRIOR_OVER_POSTERIOR, MAX_SKIPPED

MIN_KL = 1.0
"""Minimum nats of the KL, which bounds the information of z about x: 1 nat cannot tell three items
apart."""
MAX_CORRELATION = 0.1
"""Maximum correlation of neighbouring pixels' errors, which p(x|z) takes to be independent, given z
and with a causal head the earlier pixels. Errors are from the mean of the likeliest component."""
MAX_NOISE_MISMATCH = 2.0
"""Maximum ratio of the likelihood's noise to the errors, or its inverse."""

MAX_SPIKES = 1
"""Maximum spikes of the training loss: one may come from an unlucky batch."""
MAX_FALL = 0.05
"""Maximum fall of the validation exact-match accuracy below its best so far."""


@dataclass(frozen=True)
class DiagnosisRule:
    """A known failure, how to detect it, and how to fix it.

    predicate: whether the evidence shows the failure. evidence: names of the numbers to report.
    fix: the recommended params.
    """

    name: str
    predicate: Callable[[SimpleNamespace], bool]
    evidence: tuple[str, ...]
    fix: Callable[[SimpleNamespace], dict[str, Any]]


def diagnose(family: str, evidence: SimpleNamespace) -> list[dict[str, Any]]:
    """Apply the rules of a family of datasets, grids, own_grids or images, in their order.

    Returns [{name, found, evidence, fix}]; `fix` is empty where the failure was not found, and
    undefined evidence is None.
    """
    findings = []
    for rule in RULES[family]:
        detected = bool(rule.predicate(evidence))
        reported = {}
        for name in rule.evidence:
            value = getattr(evidence, name)
            undefined = value != value  # nan; not every value is a float
            reported[name] = None if undefined else value
        fix = rule.fix(evidence) if detected else {}
        findings.append({"name": rule.name, "found": detected, "evidence": reported, "fix": fix})
    return findings


def detected_issues(findings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the detected failures."""
    return [finding["name"] for finding in findings if finding["found"]]


def _instability(effect: str, limit: float) -> DiagnosisRule:
    """Rule of unstable training, whose `effect` on validation must not exceed `limit`."""
    return DiagnosisRule(
        "training_instability",
        lambda e: (
            e.skipped_share > MAX_SKIPPED
            or e.loss_spikes > MAX_SPIKES
            or getattr(e, effect) > limit
        ),
        ("skipped_share", "loss_spikes", effect),
        lambda e: {"amsgrad": True, "lr": e.lr / 3},
    )


GRIDS: tuple[DiagnosisRule, ...] = (
    DiagnosisRule(
        "posterior_collapse",
        lambda e: e.kl_nats < MIN_KL or e.active_units == 0,
        ("kl_nats", "active_units", "latent_dim"),
        lambda e: {
            "beta_max": min(1.0, e.beta_max),
            "beta_schedule": "linear",
            "beta_delay": 0.25,
            "beta_warmup": 0.5,
            "free_bits": 0.05,
        },
    ),
    _instability("deepest_fall", MAX_FALL),
    DiagnosisRule(
        "all_black_collapse",
        lambda e: e.skill_score < 0.1 and e.foreground_recall < 0.5,
        ("skill_score", "foreground_recall", "predicted_black_share", "all_black_baseline"),
        lambda e: {"beta_schedule": "linear", "beta_delay": 0.3, "beta_warmup": 0.15},
    ),
    DiagnosisRule(
        "kl_explosion",
        lambda e: (
            e.epochs_not_finite or (e.beta > 0 and e.kl_nats > 10 * e.data_entropy_bound_nats)
        ),
        ("kl_nats", "data_entropy_bound_nats", "beta", "epochs_not_finite"),
        lambda e: {"grad_clip": 1.0, "lr": 0.001, "beta_warmup": 0.1},
    ),
    DiagnosisRule(
        "dead_colours",
        # Colours of accuracy < 0.05, or predicted on less than a tenth of their true share.
        lambda e: bool(e.accuracy_of_dead),
        ("accuracy_of_dead",),
        lambda e: {"class_balance_exponent": 0.5, "focal_gamma": 2.0},
    ),
    DiagnosisRule(
        "over_regularisation",
        # A code of fewer nats than half the data's entropy cannot identify a grid.
        lambda e: e.beta > 0 and e.kl_over_entropy < 0.5 and e.skill_score < 0.9,
        ("beta", "kl_nats", "kl_over_entropy", "skill_score"),
        lambda e: {"beta_max": min(1.0, e.beta / 2), "free_bits": 0.05},
    ),
)

IMAGES: tuple[DiagnosisRule, ...] = (
    _instability("objective_spikes", 0),
    DiagnosisRule(
        # The decoder explains images without z: the code holds too little to identify an image.
        # The number of active latents does not tell: under a learned prior, their scale is free.
        "posterior_collapse",
        lambda e: e.kl_nats < e.items_nats,
        ("kl_nats", "items_nats", "causal_channels", "beta"),
        lambda e: {"beta_max": 1.0} if e.beta_max > 1 else {"free_bits": 0.2},
    ),
    DiagnosisRule(
        "prior_posterior_mismatch",
        lambda e: e.prior_over_posterior > MAX_PRIOR_OVER_POSTERIOR,
        ("prior_over_posterior", "relative_frechet_prior", "relative_frechet_posterior"),
        lambda e: (
            {"prior": "autoregressive_mixture"}
            if e.prior == "standard"
            else {"prior_width": 2 * e.prior_width}
        ),
    ),
    DiagnosisRule(
        "pixel_independence",
        lambda e: e.residual_correlation > MAX_CORRELATION,
        ("residual_correlation", "causal_channels"),
        lambda e: {"causal_channels": 2 * e.causal_channels or 32},
    ),
    DiagnosisRule(
        "likelihood_scale",
        lambda e: e.noise_mismatch > MAX_NOISE_MISMATCH,
        ("noise_mismatch", "likelihood"),
        lambda e: {
            "likelihood": "gaussian_analytic"
            if e.likelihood == "discretized_logistic_mixture"
            else "discretized_logistic_mixture"
        },
    ),
    DiagnosisRule(
        "nan",
        lambda e: bool(e.epochs_not_finite),
        ("epochs_not_finite",),
        lambda e: {"grad_clip": 1.0, "lr": 0.001},
    ),
)

OWN_GRIDS = (
    *(rule for rule in GRIDS if rule.name not in ("kl_explosion", "over_regularisation")),
    DiagnosisRule(
        "kl_explosion",
        lambda e: e.epochs_not_finite or (e.beta > 0 and e.kl_nats > 10 * e.context_nats),
        ("kl_nats", "context_nats", "beta", "epochs_not_finite"),
        lambda e: {"grad_clip": 1.0, "lr": 0.001, "beta_warmup": 0.1},
    ),
)
"""Rules for grids of unknown entropy, with which no rule compares a code.

The nats of a table of counts are more than the entropy, so a KL of ten times these is too much.
"""
RULES = {"grids": GRIDS, "own_grids": OWN_GRIDS, "images": IMAGES}
