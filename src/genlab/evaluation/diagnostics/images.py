"""What ails an image VAE: the known diseases, each a rule over numbers (see `image_rules`).

They are looked for in metrics and in the epochs of the training, and found or not.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from genlab.evaluation.diagnostics.grids import Finding, Metrics, final_beta, finding, with_files
from genlab.evaluation.diagnostics.image_rules import (
    DEFAULT,
    LEVELS,
    Series,
    Thresholds,
    above,
    below,
    column,
    difference,
    finite,
    ratio,
    skill,
    skipped_share,
)

SIGMA_FLOOR = 0.5 / (LEVELS - 1)
"""Half a level on [0, 1]: no image of 8 bits can tell a smaller sigma."""
FITTED = ("gaussian", "gmm", "flow")
"""Samplers that were fitted to the codes of the data: what the decoder can do where codes lie."""
BOUNDS = ("loss", "reconstruction_loss", "kl_divergence")


def diagnose(
    metrics: Metrics,
    series: Series,
    thresholds: Thresholds = DEFAULT,
    *,
    evidence_files: Sequence[str] = ("metrics.json", "training.json"),
) -> list[Finding]:
    """The eight known diseases, each looked for by a numeric rule, found or not.

    metrics: as for `verdict`. series: per-epoch `loss`, `reconstruction_loss`, `kl_divergence`,
    `beta_kl` and, where known, `skipped_updates` and `updates`, both of the epoch alone; None
    stands for a number that was not finite.

    Returns [{name, found, rule, evidence, evidence_files, fix}], in a fixed order. `fix` is the
    params that mend it, empty when it was not found. Raises KeyError when a metric is missing.
    """
    findings = [
        _posterior_collapse(metrics, thresholds),
        _kl_vanishing(metrics, series, thresholds),
        _kl_exploding(metrics, series, thresholds),
        _over_smoothing(metrics, series, thresholds),
        _sigma_collapse(metrics, thresholds),
        _prior_hole(metrics, thresholds),
        _memorisation(metrics, series, thresholds),
        _nan(metrics, series, thresholds),
    ]
    for one in findings:
        one["evidence"] = {name: _json(value) for name, value in one["evidence"].items()}
    return with_files(findings, evidence_files)


def _collapsed(metrics: Metrics, t: Thresholds) -> bool:
    return below(metrics["kl_nats"], t.kl_nats) or metrics["active_units"] == 0


def _posterior_collapse(metrics: Metrics, t: Thresholds) -> Finding:
    # KL bounds the information between image and code from above: under 1 nat the code cannot tell
    # three images apart.
    evidence = {name: metrics[name] for name in ("kl_nats", "active_units", "latent_dim")}
    return finding(
        "posterior_collapse",
        _collapsed(metrics, t),
        f"kl_nats < {t.kl_nats:g} or active_units == 0",
        evidence,
        {"beta_max": min(1.0, metrics["beta_max"]), "beta_schedule": "linear"}
        | {"beta_delay": 0.25, "beta_warmup": 0.5, "free_bits": 0.05},
    )


def _kl_vanishing(metrics: Metrics, series: Series, t: Thresholds) -> Finding:
    kl, beta = column(series, "kl_divergence"), _betas(series)
    early = [value for value, b in zip(kl, beta, strict=True) if b < beta[-1] and value >= 0]
    left, gained = ratio(kl[-1], max(early, default=0.0)), skill(metrics)
    active = ratio(metrics["active_units"], metrics["latent_dim"])
    # Every warm-up takes most of a free KL away. It is a disease when the pictures went with it.
    lost = below(left, t.vanished_share) and below(gained, t.skill)
    return finding(
        "partial_collapse",
        not _collapsed(metrics, t) and (lost or below(active, t.active_share)),
        "no posterior collapse, but: as beta rose, KL fell below "
        f"{t.vanished_share:.0%} of its peak and skill over the mean image is < {t.skill:g}; or "
        f"active_units < {t.active_share:.0%} of the latents",
        {
            "kl_nats": metrics["kl_nats"],
            "kl_over_early_peak": left,
            "skill_over_mean_image": gained,
            "active_share": active,
            "beta": beta[-1],
        },
        {"beta_max": min(1.0, metrics["beta_max"]), "beta_warmup": 0.5, "free_bits": 0.05},
    )


def _kl_exploding(metrics: Metrics, series: Series, t: Thresholds) -> Finding:
    kl, beta = finite(metrics["kl_nats"]), _betas(series)[-1]
    needed, infinite = _rate_bound(metrics), _infinite(series, ("kl_divergence",))
    # At beta 0 nothing holds the KL and its growth is no disease.
    wasteful = beta > 0 and kl is not None and needed is not None and kl > needed
    runaway = _runs_away(series, t)
    fix: dict[str, Any] = {"grad_clip": 1.0, "lr": 0.001} if infinite or runaway else {}
    if wasteful or runaway:
        fix |= {"beta_max": max(1.0, metrics["beta_max"]), "beta_schedule": "constant"}
    return finding(
        "kl_explosion",
        bool(infinite) or wasteful or runaway,
        "a KL that is not finite; or (beta > 0) kl_nats > dims / 2 x ln(mean_image_mse / mse), "
        "enough for any source of that variance at that error; or (beta > 0) KL grew more than "
        f"{t.growth:g} times over the last third of the run, KL and -ELBO rising at every epoch",
        {
            "kl_nats": metrics["kl_nats"],
            "rate_bound_nats": needed,
            "beta": beta,
            "epochs_not_finite": infinite,
            "runaway": runaway,
        },
        fix,
    )


def _over_smoothing(metrics: Metrics, series: Series, t: Thresholds) -> Finding:
    test = metrics["sharpness"]["test"]
    of = {name: ratio(metrics["sharpness"][name], test) for name in ("reconstructions", "samples")}
    if metrics["beta_max"] > 1:
        fix: dict[str, Any] = {"beta_max": 1.0}
    elif metrics["likelihood"] in ("bernoulli", "continuous_bernoulli", "gaussian"):
        # They weigh an error as if sigma were large; a fitted one pays for detail.
        fix = {"likelihood": "gaussian_analytic"}
    else:
        fix = {"latent_dim": 2 * metrics["latent_dim"], "epochs": 2 * len(series["loss"])}
    return finding(
        "over_smoothing",
        any(below(ratio, t.sharpness) for ratio in of.values()),
        f"mean gradient of reconstructions or of samples < {t.sharpness:g} of the test images'",
        {"reconstructions_over_test": of["reconstructions"], "samples_over_test": of["samples"]}
        | {"ssim": metrics["ssim"], "likelihood": metrics["likelihood"]},
        fix,
    )


def _sigma_collapse(metrics: Metrics, t: Thresholds) -> Finding:
    sigmas = [float(s) for s in metrics["sigma"] or () if finite(s) is not None]
    least, rms = min(sigmas, default=None), math.sqrt(float(np.mean(np.square(sigmas or [0.0]))))
    mse = finite(metrics["mse"])
    relative = ratio(rms, None if mse is None else math.sqrt(mse)) if sigmas else None
    dims, nats = _dims(metrics), finite(metrics["reconstruction_nats"])
    # A density on [0, 1] may say ln 256 a dim more than the probability of a level; what is below
    # 0 after that claims more than all there is to know.
    offset = 0.0 if metrics["comparable"] else math.log(LEVELS)
    level_nats = None if dims is None or nats is None else nats / dims + offset
    return finding(
        "sigma_collapse",
        (least is not None and least <= 1.05 * SIGMA_FLOOR)
        or below(relative, t.sigma_over_rmse)
        or below(level_nats, 0.0),
        f"sigma at its floor, {SIGMA_FLOOR:.4f}; or sigma < {t.sigma_over_rmse:g} x the root of "
        "mse; or -log p(x|z) of 256 levels < 0 nats a dim",
        {"least_sigma": least, "sigma_over_rmse": relative, "level_nats_per_dim": level_nats},
        {"likelihood": "discretized_logistic_mixture"}
        if metrics["likelihood"] == "gaussian_analytic"
        else {"likelihood": "gaussian_analytic"},
    )


def _prior_hole(metrics: Metrics, t: Thresholds) -> Finding:
    samplers = metrics["samplers"]
    distances = {name: finite(found["frechet_distance"]) for name, found in samplers.items()}
    own = distances.get("prior", distances.get("normal"))
    fitted = [d for name in FITTED if (d := distances.get(name)) is not None]
    over_fitted = ratio(own, min(fitted, default=None))
    over_reconstruction = ratio(own, metrics["reconstruction"]["frechet_distance"])
    over_floor, moments = ratio(own, metrics["floor"]["frechet_distance"]), _moment_share(metrics)
    lossy = above(over_reconstruction, t.hole_over_reconstruction)
    return finding(
        "prior_hole",
        above(over_fitted, t.hole_ratio)
        or (lossy and above(over_floor, t.over_floor))
        or above(moments, t.moment_share),
        f"Fréchet distance of p(z)'s samples > {t.hole_ratio:g} x that of the best of "
        f"{', '.join(FITTED)}; or > {t.hole_over_reconstruction:g} x the reconstructions' and > "
        f"{t.over_floor:g} x the floor; or (p(z) = N(0, I)) mean and covariance of all codes make "
        f"up > {t.moment_share:.0%} of the KL",
        {
            "frechet_over_fitted": over_fitted,
            "frechet_over_reconstruction": over_reconstruction,
            "relative_frechet": over_floor,
            "moment_share": moments,
        },
        {"prior": "autoregressive_mixture", "beta_max": max(1.0, metrics["beta_max"])},
    )


def _memorisation(metrics: Metrics, series: Series, t: Thresholds) -> Finding:
    found = metrics["memorisation"]
    near, exact = (
        found["intervals"][name]["low"] for name in ("near_duplicate_rate", "exact_duplicate_rate")
    )
    held_out = found["held_out_exact_duplicate_rate"]
    # Distances are of pixels. Smooth samples that copy nothing are not charged (PCA-32 of test
    # images: 0.000), but nor is a memoriser that blurs (PCA-64 of training images: 0.027).
    return finding(
        "memorisation",
        above(near, t.near_duplicate_rate) or above(difference(exact, held_out), 0.0),
        f"lower end of near_duplicate_rate > {t.near_duplicate_rate:g}, or of exact_duplicate_rate > the test images' own",
        {"near_duplicate_rate": found["near_duplicate_rate"], "near_share_low": near}
        | {
            "exact_duplicate_rate": found["exact_duplicate_rate"],
            "held_out_exact_duplicate_rate": held_out,
        }
        | {"median_ratio": found.get("median_ratio")},
        {"weight_decay": 0.1, "epochs": max(1, len(series["loss"]) // 2)}
        | {"beta_max": max(1.0, metrics["beta_max"])},
    )


def _nan(metrics: Metrics, series: Series, t: Thresholds) -> Finding:
    epochs, skipped = _infinite(series, BOUNDS), skipped_share(series)
    names = ("neg_elbo_nats", "reconstruction_nats", "kl_nats", "neg_iwae_nats", "mse")
    broken = [name for name in names if finite(metrics[name]) is None]
    return finding(
        "nan",
        bool(epochs) or bool(broken) or above(skipped, t.skipped_share),
        "a loss or a metric that is not finite, or more than "
        f"{t.skipped_share:.0%} of the updates skipped",
        {"epochs_not_finite": epochs, "metrics_not_finite": broken, "skipped_share": skipped},
        {"grad_clip": 1.0, "lr": 0.001},
    )


def _json(value: Any) -> Any:
    return finite(value) if isinstance(value, float) else value


def _betas(series: Series) -> list[float]:
    """β of each epoch; 0 where it cannot be read off."""
    kl, paid = column(series, "kl_divergence"), column(series, "beta_kl")
    pairs = zip(kl, paid, strict=True)
    return [final_beta({"kl_divergence": [a], "beta_kl": [b]}) for a, b in pairs]


def _infinite(series: Series, names: Sequence[str]) -> int:
    """Epochs in which one of these numbers is not finite."""
    rows = zip(*(column(series, name) for name in names), strict=True)
    return sum(not all(math.isfinite(value) for value in row) for row in rows)


def _dims(metrics: Metrics) -> float | None:
    """Numbers an image has, h w c: what bits a dimension were divided by."""
    nats, bits = finite(metrics["neg_elbo_nats"]), finite(metrics["bits_per_dim"])
    if nats is None or bits is None:
        return None
    return ratio(abs(nats), abs(bits) * math.log(2))  # densities may have both below 0


def _rate_bound(metrics: Metrics) -> float | None:
    """Nats that suffice to bring any source of this variance down to this squared error.

    The rate of a Gaussian, dims / 2 ln(variance / mse), which no source of equal variance exceeds
    (Cover & Thomas, Elements of Information Theory, 2006, theorem 10.3.2 and problem 10.8); pixels
    of unlike variance share the error in proportion to it. An error below that of rounding to 8
    bits counts as rounding's. At least 10: fewer nats explode nothing. It is loose (healthy VAEs
    of Fashion-MNIST spend a twelfth of it), but what is above it is waste beyond doubt.
    """
    dims, variance = _dims(metrics), finite(metrics["mean_image_mse"])
    mse = finite(metrics["mse"])
    if dims is None or variance is None or mse is None or variance <= 0:
        return None
    rounding = 1 / (12 * (LEVELS - 1) ** 2)
    return max(10.0, dims / 2 * math.log(variance / max(mse, rounding)))


def _runs_away(series: Series, t: Thresholds) -> bool:
    """Whether a penalised KL grows, at the end of the run, faster than what it buys."""
    kl, beta = column(series, "kl_divergence"), _betas(series)
    bound = [a + b for a, b in zip(kl, column(series, "reconstruction_loss"), strict=True)]
    first = len(kl) - 1 - max(3, len(kl) // 3)
    # A falling beta sets the KL free on purpose (a cyclical schedule).
    if first < 0 or not all(0 < a <= b * (1 + 1e-6) for a, b in pairwise(beta[first:])):
        return False
    rising = all(a < b for values in (bound, kl) for a, b in pairwise(values[first:]))
    return rising and kl[-1] > t.growth * kl[first]


def _moment_share(metrics: Metrics) -> float | None:
    """KL(N(mean, cov) of all codes || N(0, I)) over the mean KL from N(0, I).

    None where p(z) is another.

    The mean KL of q(z|x) is the information in the code plus KL(q(z) || p(z)) (Hoffman & Johnson
    2016), and that is at least the KL of q(z)'s moments: the share lies between 0 and 1.
    """
    whole = finite(sum(finite(kl) or 0.0 for kl in metrics["kl_per_latent"]))
    # Under a learned p(z), the KL that is reported is not the one from N(0, I).
    drift = ratio(difference(metrics["kl_nats"], whole), whole)
    if drift is None or abs(drift) > 0.05:
        return None
    nats = finite(metrics["aggregate"]["aggregate_gaussian_kl"])
    return None if nats is None else ratio(nats * metrics["latent_dim"], whole)
