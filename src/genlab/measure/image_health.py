"""Did an image VAE learn, and if not, what ails it? Rules over numbers only.

No rule speaks of pixels, levels or a side: they compare ratios, nats, and errors against the data's
own variance, so that they mean the same at 28 and at 64 pixels, grey or in colour. Where a
threshold was calibrated, it was on the 10,000 test images of Fashion-MNIST: on their projections
onto k principal components of the training images ("PCA-k"), on blurred ones, and on eight MLP VAEs
of 32 latents. Numbers that are None or not finite fail a criterion, and prove no disease but `nan`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.measure.collapse import Finding, Metrics, criterion, final_beta, finding, with_files

Series = Mapping[str, Sequence[float | None]]

LEVELS = 256
SIGMA_FLOOR = 0.5 / (LEVELS - 1)
"""Half a level on [0, 1]: no image of 8 bits can tell a smaller sigma."""
FITTED = ("gaussian", "gmm", "flow")
"""Samplers that were fitted to the codes of the data: what the decoder can do where codes lie."""
BOUNDS = ("loss", "reconstruction_loss", "kl_divergence")


@dataclass(frozen=True)
class Thresholds:
    """The judge's numbers. They live here, out of the reach of what is judged."""

    skill: float = 0.7
    """Least share of the mean image's squared error that is gone: what PCA-8 reaches."""
    ssim: float = 0.6
    """Least SSIM of reconstructions: PCA-32 has 0.62, PCA-16 0.53."""
    active_share: float = 0.05
    """Least share of latents that must be active: fewer, and the code is made of dead weight."""
    kl_nats: float = 1.0
    """Least KL: it bounds what z tells of x, and a nat tells no three images apart."""
    over_floor: float = 60.0
    """Greatest Fréchet distance over the floor; 60 normals on a small MLP VAE came to 44."""
    recall: float = 0.2
    """Least share of real images among the samples' neighbours: below, most kinds are missing."""
    near_share: float = 0.05
    """Greatest share of near-copies; it is 0.01 for new images by construction."""
    skipped_share: float = 0.01
    """Greatest share of updates skipped: a run is not stable by leaving out what hurts."""
    vanished_share: float = 0.1
    """A KL under this share of its early peak has fallen far; at beta 1 it was 0.23 of what it was
    at beta 0, at beta 50 0.01."""
    growth: float = 1.5
    """A KL that grew by half in the last third of a run, with the bound worsening, runs away."""
    sharpness: float = 0.6
    """Least sharpness over the test images': healthy VAEs had 0.66 to 0.78, over-regularised ones
    (SSIM below 0.5) 0.53 and 0.54, PCA-16 0.64, PCA-8 0.58, a blur of one pixel 0.52, the mean
    image 0.38."""
    sigma_over_rmse: float = 0.5
    """Least sigma over the error it stands for: fitted ones had 0.99 to 1.13. At a half, squared
    errors cost 4 times the half nat a pixel that they cost under a fitted sigma."""
    hole_ratio: float = 2.0
    """Fréchet distance of the prior's samples over a fitted sampler's: 1.1 where prior and codes
    agree, 2.4 to 4.8 where a mixture mends the samples (RAE, 1903.12436, and prototypes)."""
    hole_over_reconstruction: float = 10.0
    """The same over the reconstructions': the codes are good, and sampling loses all of it."""
    moment_share: float = 0.15
    """Greatest share of the KL spent on moments alone: 0.05 to 0.07 at beta 1, 0.24 to 0.27 at 0
    and at 0.01."""


DEFAULT = Thresholds()


def sharpness(images: npt.NDArray[np.uint8]) -> float:
    """Mean gradient magnitude of images, in [0, 1] units a pixel; 0 without an edge.

    images: (n, h, w, c) uint8, sides at least 2. The gradient is the pair of forward differences,
    for which `Thresholds.sharpness` was calibrated: central ones miss the finest detail. A blur
    takes away what is as fine as itself; it leaves the sum of slopes across a lone edge.
    """
    total, count = 0.0, 0
    for start in range(0, len(images), 1024):
        x = images[start : start + 1024].astype(np.float32) / (LEVELS - 1)
        corner = x[:, :-1, :-1]
        slopes = np.hypot(x[:, 1:, :-1] - corner, x[:, :-1, 1:] - corner)
        total, count = total + float(slopes.sum(dtype=np.float64)), count + slopes.size
    if not count:
        raise ValueError(f"sharpness needs images with sides of at least 2, got {images.shape}")
    return total / count


def best_sampler(metrics: Metrics) -> str:
    """The sampler that was picked on the validation split."""
    return str(metrics["best_sampler"])


def verdict(
    metrics: Metrics,
    thresholds: Thresholds = DEFAULT,
    *,
    series: Series,
    least_accuracy: float | None = None,
) -> dict[str, Any]:
    """Every criterion with value, threshold, `passed` and why; `passed` overall is all of them.

    metrics: of an image dataset, `mean_image_mse` (of answering with the training mean) included.
    series: `skipped_updates` and `updates` of each epoch. least_accuracy: what the classifier that
    gives the features must reach, None for data where no such number is known. What was not
    measured (None, updates not counted) fails. Raises KeyError when a metric is missing.
    """
    best, copies = metrics["samplers"][best_sampler(metrics)], metrics["memorisation"]
    measured: list[tuple[str, float | None, str, float, str]] = [
        ("skill_over_mean_image", _skill(metrics), ">", thresholds.skill,
         "share of the mean image's squared error that reconstructions do not make"),
        ("ssim", metrics["ssim"], ">=", thresholds.ssim, "structural similarity"),
        ("active_share", _ratio(metrics["active_units"], metrics["latent_dim"]), ">=",
         thresholds.active_share,
         f"{metrics['active_units']} of {metrics['latent_dim']} latents vary with the image"),
        ("kl_nats", metrics["kl_nats"], ">=", thresholds.kl_nats,
         "nats of code; an upper bound of what it says about the image"),
        ("iwae_gain_nats", _difference(metrics["neg_elbo_nats"], metrics["neg_iwae_nats"]), ">=",
         -_noise(metrics), "the IWAE bound cannot be looser than the ELBO, but for the noise of "
         "taking it over fewer images"),
        _sampling(metrics, thresholds),
        ("recall", best["recall"], ">", thresholds.recall,
         f"share of test images within reach of the samples of `{best_sampler(metrics)}`"),
        ("near_copies", copies["intervals"]["near_share"]["low"], "<=", thresholds.near_share,
         "lower end of the share of samples nearer to a training image than 99 % of test images"),
        ("exact_copies", copies["intervals"]["exact_copies"]["low"], "<=",
         copies["held_out_exact_copies"],
         "lower end of the share of samples that are training images; asked: as test images"),
        ("skipped_updates", _skipped_share(series), "<", thresholds.skipped_share,
         "share of the updates that were skipped"),
    ]  # fmt: skip
    if least_accuracy is not None:
        accuracy = metrics["features"]["accuracy"]
        why = "accuracy of the classifier whose features the Fréchet distance compares"
        measured.append(("classifier_accuracy", accuracy, ">=", least_accuracy, why))
    criteria = [
        criterion(name, _finite(value), sign, asked, why)
        for name, value, sign, asked, why in measured
    ]
    return {"passed": all(c["passed"] for c in criteria), "criteria": criteria, "old_rules": []}


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

    Returns [{name, found, rule, evidence, evidence_files, cure}], in a fixed order. `cure` is the
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


def _sampling(metrics: Metrics, t: Thresholds) -> tuple[str, float | None, str, float, str]:
    """The best sampler must come near the floor, or at least beat N(0, I)."""
    over = {
        name: _ratio(found["frechet_distance"], metrics["floor"]["frechet_distance"])
        for name, found in metrics["samplers"].items()
    }
    best, normal = best_sampler(metrics), over.get("normal")
    why = f"Fréchet distance of `{best}` over that of training images"
    if best != "normal" and normal is not None and normal > t.over_floor:
        return "frechet_over_floor", over[best], "<", normal, f"{why}; asked: below N(0, I)'s"
    return "frechet_over_floor", over[best], "<=", t.over_floor, why


def _collapsed(metrics: Metrics, t: Thresholds) -> bool:
    return _below(metrics["kl_nats"], t.kl_nats) or metrics["active_units"] == 0


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
    kl, beta = _column(series, "kl_divergence"), _betas(series)
    early = [value for value, b in zip(kl, beta, strict=True) if b < beta[-1] and value >= 0]
    left, skill = _ratio(kl[-1], max(early, default=0.0)), _skill(metrics)
    active = _ratio(metrics["active_units"], metrics["latent_dim"])
    # Every warm-up takes most of a free KL away. It is a disease when the pictures went with it.
    lost = _below(left, t.vanished_share) and _below(skill, t.skill)
    return finding(
        "kl_vanishing",
        not _collapsed(metrics, t) and (lost or _below(active, t.active_share)),
        "no posterior collapse, but: as beta rose, KL fell below "
        f"{t.vanished_share:.0%} of its peak and skill over the mean image is < {t.skill:g}; or "
        f"active_units < {t.active_share:.0%} of the latents",
        {
            "kl_nats": metrics["kl_nats"],
            "kl_over_early_peak": left,
            "skill_over_mean_image": skill,
            "active_share": active,
            "beta": beta[-1],
        },
        {"beta_max": min(1.0, metrics["beta_max"]), "beta_warmup": 0.5, "free_bits": 0.05},
    )


def _kl_exploding(metrics: Metrics, series: Series, t: Thresholds) -> Finding:
    kl, beta = _finite(metrics["kl_nats"]), _betas(series)[-1]
    needed, infinite = _rate_bound(metrics), _infinite(series, ("kl_divergence",))
    # At beta 0 nothing holds the KL and its growth is no disease.
    wasteful = beta > 0 and kl is not None and needed is not None and kl > needed
    runaway = _runs_away(series, t)
    cure: dict[str, Any] = {"grad_clip": 1.0, "lr": 0.001} if infinite or runaway else {}
    if wasteful or runaway:
        cure |= {"beta_max": max(1.0, metrics["beta_max"]), "beta_schedule": "constant"}
    return finding(
        "kl_exploding",
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
        cure,
    )


def _over_smoothing(metrics: Metrics, series: Series, t: Thresholds) -> Finding:
    test = metrics["sharpness"]["test"]
    of = {name: _ratio(metrics["sharpness"][name], test) for name in ("reconstructions", "samples")}
    if metrics["beta_max"] > 1:
        cure: dict[str, Any] = {"beta_max": 1.0}
    elif metrics["likelihood"] in ("bernoulli", "continuous_bernoulli", "gaussian"):
        # They weigh an error as if sigma were large; a fitted one pays for detail.
        cure = {"likelihood": "gaussian_analytic"}
    else:
        cure = {"latent_dim": 2 * metrics["latent_dim"], "epochs": 2 * len(series["loss"])}
    return finding(
        "over_smoothing",
        any(_below(ratio, t.sharpness) for ratio in of.values()),
        f"mean gradient of reconstructions or of samples < {t.sharpness:g} of the test images'",
        {"reconstructions_over_test": of["reconstructions"], "samples_over_test": of["samples"]}
        | {"ssim": metrics["ssim"], "likelihood": metrics["likelihood"]},
        cure,
    )


def _sigma_collapse(metrics: Metrics, t: Thresholds) -> Finding:
    sigmas = [float(s) for s in metrics["sigma"] or () if _finite(s) is not None]
    least, rms = min(sigmas, default=None), math.sqrt(float(np.mean(np.square(sigmas or [0.0]))))
    mse = _finite(metrics["mse"])
    relative = _ratio(rms, None if mse is None else math.sqrt(mse)) if sigmas else None
    dims, nats = _dims(metrics), _finite(metrics["reconstruction_nats"])
    # A density on [0, 1] may say ln 256 a dim more than the probability of a level; what is below
    # 0 after that claims more than all there is to know.
    offset = 0.0 if metrics["comparable"] else math.log(LEVELS)
    level_nats = None if dims is None or nats is None else nats / dims + offset
    return finding(
        "sigma_collapse",
        (least is not None and least <= 1.05 * SIGMA_FLOOR)
        or _below(relative, t.sigma_over_rmse)
        or _below(level_nats, 0.0),
        f"sigma at its floor, {SIGMA_FLOOR:.4f}; or sigma < {t.sigma_over_rmse:g} x the root of "
        "mse; or -log p(x|z) of 256 levels < 0 nats a dim",
        {"least_sigma": least, "sigma_over_rmse": relative, "level_nats_per_dim": level_nats},
        {"likelihood": "discretized_logistic_mixture"}
        if metrics["likelihood"] == "gaussian_analytic"
        else {"likelihood": "gaussian_analytic"},
    )


def _prior_hole(metrics: Metrics, t: Thresholds) -> Finding:
    samplers = metrics["samplers"]
    distances = {name: _finite(found["frechet_distance"]) for name, found in samplers.items()}
    own = distances.get("prior", distances.get("normal"))
    fitted = [d for name in FITTED if (d := distances.get(name)) is not None]
    over_fitted = _ratio(own, min(fitted, default=None))
    over_reconstruction = _ratio(own, metrics["reconstruction"]["frechet_distance"])
    over_floor, moments = _ratio(own, metrics["floor"]["frechet_distance"]), _moment_share(metrics)
    lossy = _above(over_reconstruction, t.hole_over_reconstruction)
    return finding(
        "prior_hole",
        _above(over_fitted, t.hole_ratio)
        or (lossy and _above(over_floor, t.over_floor))
        or _above(moments, t.moment_share),
        f"Fréchet distance of p(z)'s samples > {t.hole_ratio:g} x that of the best of "
        f"{', '.join(FITTED)}; or > {t.hole_over_reconstruction:g} x the reconstructions' and > "
        f"{t.over_floor:g} x the floor; or (p(z) = N(0, I)) mean and covariance of all codes make "
        f"up > {t.moment_share:.0%} of the KL",
        {
            "frechet_over_fitted": over_fitted,
            "frechet_over_reconstruction": over_reconstruction,
            "frechet_over_floor": over_floor,
            "moment_share": moments,
        },
        {"prior": "autoregressive", "prior_width": 128, "beta_max": max(1.0, metrics["beta_max"])},
    )


def _memorisation(metrics: Metrics, series: Series, t: Thresholds) -> Finding:
    found = metrics["memorisation"]
    near, exact = (found["intervals"][name]["low"] for name in ("near_share", "exact_copies"))
    held_out = found["held_out_exact_copies"]
    # Distances are of pixels. Smooth samples that copy nothing are not charged (PCA-32 of test
    # images: 0.000), but nor is a memoriser that blurs (PCA-64 of training images: 0.027).
    return finding(
        "memorisation",
        _above(near, t.near_share) or _above(_difference(exact, held_out), 0.0),
        f"lower end of near_share > {t.near_share:g}, or of exact_copies > the test images' own",
        {"near_share": found["near_share"], "near_share_low": near}
        | {"exact_copies": found["exact_copies"], "held_out_exact_copies": held_out}
        | {"median_ratio": found.get("median_ratio")},
        {"weight_decay": 0.1, "epochs": max(1, len(series["loss"]) // 2)}
        | {"beta_max": max(1.0, metrics["beta_max"])},
    )


def _nan(metrics: Metrics, series: Series, t: Thresholds) -> Finding:
    epochs, skipped = _infinite(series, BOUNDS), _skipped_share(series)
    names = ("neg_elbo_nats", "reconstruction_nats", "kl_nats", "neg_iwae_nats", "mse")
    broken = [name for name in names if _finite(metrics[name]) is None]
    return finding(
        "nan",
        bool(epochs) or bool(broken) or _above(skipped, t.skipped_share),
        "a loss or a metric that is not finite, or more than "
        f"{t.skipped_share:.0%} of the updates skipped",
        {"epochs_not_finite": epochs, "metrics_not_finite": broken, "skipped_share": skipped},
        {"grad_clip": 1.0, "lr": 0.001},
    )


def _finite(value: Any) -> float | None:
    """The number, or None for what is none: JSON has null where a number was not finite."""
    return float(value) if value is not None and math.isfinite(value) else None


def _json(value: Any) -> Any:
    return _finite(value) if isinstance(value, float) else value


def _below(value: Any, threshold: float) -> bool:
    number = _finite(value)
    return number is not None and number < threshold


def _above(value: Any, threshold: float) -> bool:
    number = _finite(value)
    return number is not None and number > threshold


def _ratio(above: Any, below: Any) -> float | None:
    top, bottom = _finite(above), _finite(below)
    return None if top is None or bottom is None or bottom <= 0 else top / bottom


def _difference(one: Any, other: Any) -> float | None:
    left, right = _finite(one), _finite(other)
    return None if left is None or right is None else left - right


def _column(series: Series, name: str) -> list[float]:
    return [math.nan if value is None else float(value) for value in series[name]]


def _betas(series: Series) -> list[float]:
    """β of each epoch; 0 where it cannot be read off."""
    kl, paid = _column(series, "kl_divergence"), _column(series, "beta_kl")
    pairs = zip(kl, paid, strict=True)
    return [final_beta({"kl_divergence": [a], "beta_kl": [b]}) for a, b in pairs]


def _infinite(series: Series, names: Sequence[str]) -> int:
    """Epochs in which one of these numbers is not finite."""
    rows = zip(*(_column(series, name) for name in names), strict=True)
    return sum(not all(math.isfinite(value) for value in row) for row in rows)


def _skipped_share(series: Series) -> float | None:
    """Share of the run's updates that were skipped; None where they were not counted."""
    if "skipped_updates" not in series or "updates" not in series:
        return None
    return _ratio(sum(_column(series, "skipped_updates")), sum(_column(series, "updates")))


def _skill(metrics: Metrics) -> float | None:
    """Share of the mean image's squared error that is gone: 1 is exact, 0 the mean image."""
    left = _ratio(metrics["mse"], metrics["mean_image_mse"])
    return None if left is None else 1 - left


def _noise(metrics: Metrics) -> float:
    """Half width of the 95 % interval of ELBO - IWAE, taken over two sets of images, nats."""
    intervals = metrics["intervals"]
    both = [intervals[name] for name in ("neg_elbo_nats", "neg_iwae_nats")]
    widths = [_difference(interval["high"], interval["low"]) or 0.0 for interval in both]
    return math.hypot(*widths) / 2


def _dims(metrics: Metrics) -> float | None:
    """Numbers an image has, h w c: what bits a dimension were divided by."""
    nats, bits = _finite(metrics["neg_elbo_nats"]), _finite(metrics["bits_per_dim"])
    if nats is None or bits is None:
        return None
    return _ratio(abs(nats), abs(bits) * math.log(2))  # densities may have both below 0


def _rate_bound(metrics: Metrics) -> float | None:
    """Nats that suffice to bring any source of this variance down to this squared error.

    The rate of a Gaussian, dims / 2 ln(variance / mse), which no source of equal variance exceeds
    (Cover & Thomas, Elements of Information Theory, 2006, theorem 10.3.2 and problem 10.8); pixels
    of unlike variance share the error in proportion to it. An error below that of rounding to 8
    bits counts as rounding's. At least 10: fewer nats explode nothing. It is loose (healthy VAEs
    of Fashion-MNIST spend a twelfth of it), but what is above it is waste beyond doubt.
    """
    dims, variance = _dims(metrics), _finite(metrics["mean_image_mse"])
    mse = _finite(metrics["mse"])
    if dims is None or variance is None or mse is None or variance <= 0:
        return None
    rounding = 1 / (12 * (LEVELS - 1) ** 2)
    return max(10.0, dims / 2 * math.log(variance / max(mse, rounding)))


def _runs_away(series: Series, t: Thresholds) -> bool:
    """Whether a penalised KL grows, at the end of the run, faster than what it buys."""
    kl, beta = _column(series, "kl_divergence"), _betas(series)
    bound = [a + b for a, b in zip(kl, _column(series, "reconstruction_loss"), strict=True)]
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
    whole = _finite(sum(_finite(kl) or 0.0 for kl in metrics["kl_per_latent"]))
    # Under a learned p(z), the KL that is reported is not the one from N(0, I).
    drift = _ratio(_difference(metrics["kl_nats"], whole), whole)
    if drift is None or abs(drift) > 0.05:
        return None
    nats = _finite(metrics["aggregate"]["moment_nats"])
    return None if nats is None else _ratio(nats * metrics["latent_dim"], whole)
