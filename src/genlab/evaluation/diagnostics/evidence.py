"""The numbers that criteria and diagnosis rules compare, derived from metrics and training curves.

None and infinite numbers become nan, with which no comparison holds.
"""

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from genlab.core.stats import Floats

Metrics = Mapping[str, Any]
Series = Mapping[str, Sequence[float | None]]

LEVELS = 256
FITTED = ("gaussian", "gmm", "flow")
"""Samplers that were fitted to the codes of the data: what the decoder can do where codes lie."""
BOUNDS = ("neg_elbo_nats", "reconstruction_nats", "kl_nats", "neg_iwae_nats", "mse")
LOSSES = ("loss", "reconstruction_loss", "kl_divergence")
RUNAWAY = 1.5
"""A KL that grew by half in the last third of a run, with the bound worsening, runs away."""


def finite(value: Any) -> Any:
    """Metrics with nan for every None and infinity."""
    if isinstance(value, Mapping):
        return {name: finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    if value is None or (isinstance(value, float) and math.isinf(value)):
        return math.nan
    return value


def ratio(over: float, under: float) -> float:
    """over / under, nan where `under` is not positive."""
    return float(over / under) if under > 0 else math.nan


def column(series: Series, name: str) -> Floats:
    """A per-epoch series, (epochs,), with nan for None and infinities."""
    values = np.array(series[name], dtype=np.float64)
    return np.where(np.isfinite(values), values, math.nan)


def betas(series: Series) -> Floats:
    """β of each epoch, beta_kl / kl_divergence; 0 where the KL is 0 or not finite."""
    kl, paid = column(series, "kl_divergence"), column(series, "beta_kl")
    known = np.isfinite(paid) & (kl > 0)
    return np.divide(paid, kl, out=np.zeros_like(kl), where=known)


def grid_evidence(metrics: Metrics, series: Series) -> SimpleNamespace:
    """Numbers of a grid model. Raises KeyError where a metric is missing."""
    accuracies, histogram = metrics["per_class_accuracy"], metrics["colour_histogram"]
    true, predicted, entropy = histogram["true"], histogram["predicted"], "data_entropy_bound_nats"
    dead = [c for c, a in accuracies.items() if a < 0.05 or predicted[c] < 0.1 * true[c]]
    names = ("pixel_accuracy", "skill_score", "foreground_recall", "all_black_baseline")
    return SimpleNamespace(
        **{name: metrics[name] for name in (*names, "colour_histogram_tv", entropy)},
        **_latents(metrics, series),
        predicted_black_share=predicted["0"],
        no_dominant_colour=max(predicted[colour] - true[colour] for colour in true),
        # A colour that the data lack was not learnt.
        all_colours_learnt=min(accuracies.values()) if len(accuracies) == len(true) else math.nan,
        colours=dead,
        accuracy={colour: accuracies[colour] for colour in dead},
        predicted_share={colour: predicted[colour] for colour in dead},
        skipped_updates=int(column(series, "skipped_updates").sum()),
        finite=_epochs_not_finite(series, "kl_divergence", "loss") == 0,
        kl_over_entropy=metrics["kl_nats"] / metrics[entropy],
    )


def image_evidence(metrics: Metrics, series: Series) -> SimpleNamespace:
    """Numbers of an image model. Raises KeyError where a metric is missing."""
    metrics = finite(metrics)
    copies, best = metrics["memorisation"], metrics["samplers"][metrics["best_sampler"]]
    shares = ("near_duplicate_rate", "exact_duplicate_rate", "held_out_exact_duplicate_rate")
    near, exact = (copies["intervals"][name]["low"] for name in shares[:2])
    kl, beta = column(series, "kl_divergence"), betas(series)
    early = kl[(beta < beta[-1]) & (kl >= 0)].max(initial=0.0)
    bounds = [metrics["intervals"][name] for name in ("neg_elbo_nats", "neg_iwae_nats")]
    widths = [interval["high"] - interval["low"] for interval in bounds]
    sharpness, test = metrics["sharpness"], metrics["sharpness"]["test"]
    return SimpleNamespace(
        **{name: metrics[name] for name in ("ssim", "likelihood", "beta_max")},
        **{name: copies[name] for name in shares},
        **_latents(metrics, series),
        **_sigmas(metrics),
        **_prior_frechet(metrics),
        epochs=len(series["loss"]),
        skill_over_mean_image=1 - ratio(metrics["mse"], metrics["mean_image_mse"]),
        iwae_gain_nats=metrics["neg_elbo_nats"] - metrics["neg_iwae_nats"],
        # Half width of the 95 % interval of ELBO - IWAE, taken over two sets of images.
        bound_noise=math.hypot(*np.nan_to_num(widths)) / 2,
        best_relative_frechet=ratio(best["frechet_distance"], metrics["floor"]["frechet_distance"]),
        recall=best["recall"],
        classifier_accuracy=metrics["features"]["accuracy"],
        near_share_low=near,
        exact_share_low=exact,
        kl_over_early_peak=ratio(kl[-1], early),
        rate_bound_nats=_rate_bound(metrics),
        runaway=_runs_away(kl, kl + column(series, "reconstruction_loss"), beta),
        kl_epochs_not_finite=_epochs_not_finite(series, "kl_divergence"),
        reconstructions_over_test=ratio(sharpness["reconstructions"], test),
        samples_over_test=ratio(sharpness["samples"], test),
        moment_share=_moment_share(metrics),
        epochs_not_finite=_epochs_not_finite(series, *LOSSES),
        metrics_not_finite=[name for name in BOUNDS if math.isnan(metrics[name])],
    )


def _latents(metrics: Metrics, series: Series) -> dict[str, Any]:
    """What both kinds of models have: their latents, and how their training went."""
    skipped, updates = column(series, "skipped_updates"), column(series, "updates")
    return {
        **{name: metrics[name] for name in ("kl_nats", "active_units", "latent_dim")},
        "active_share": ratio(metrics["active_units"], metrics["latent_dim"]),
        "beta": float(betas(series)[-1]),
        "skipped_share": ratio(skipped.sum(), updates.sum()),
    }


def _epochs_not_finite(series: Series, *names: str) -> int:
    """Epochs in which one of these series is not finite."""
    return int(np.isnan([column(series, name) for name in names]).any(axis=0).sum())


def _sigmas(metrics: Metrics) -> dict[str, float]:
    sigmas = np.atleast_1d(metrics["sigma"])
    sigmas = sigmas[np.isfinite(sigmas)]
    rms = math.sqrt(np.square(sigmas).mean()) if len(sigmas) else math.nan
    # A density on [0, 1] may say ln 256 per dim more than the probability of a level; what is
    # below 0 after that claims more than all there is to know.
    offset = 0.0 if metrics["comparable"] else math.log(LEVELS)
    return {
        "least_sigma": float(sigmas.min()) if len(sigmas) else math.nan,
        "sigma_over_rmse": ratio(rms, math.sqrt(metrics["mse"])),
        "level_nats_per_dim": ratio(metrics["reconstruction_nats"], _dims(metrics)) + offset,
    }


def _prior_frechet(metrics: Metrics) -> dict[str, float]:
    """Fréchet distance of p(z)'s samples over those of fitted samplers, and the like."""
    distances = {n: each["frechet_distance"] for n, each in metrics["samplers"].items()}
    normal = distances.get("normal", math.nan)
    own = distances.get("prior", normal)
    fitted = np.fmin.reduce([distances.get(name, math.nan) for name in FITTED])
    floor = metrics["floor"]["frechet_distance"]
    return {
        "normal_relative_frechet": ratio(normal, floor),
        "frechet_over_fitted": ratio(own, fitted),
        "frechet_over_reconstruction": ratio(own, metrics["reconstruction"]["frechet_distance"]),
        "relative_frechet": ratio(own, floor),
    }


def _dims(metrics: Metrics) -> float:
    """Numbers an image has, h w c: what bits per dimension were divided by."""
    # Densities may have both below 0.
    return ratio(abs(metrics["neg_elbo_nats"]), abs(metrics["bits_per_dim"]) * math.log(2))


def _rate_bound(metrics: Metrics) -> float:
    """Nats that suffice to bring any source of this variance down to this squared error.

    The rate of a Gaussian, dims / 2 ln(variance / mse), which no source of equal variance exceeds
    (Cover & Thomas, Elements of Information Theory, 2006, theorem 10.3.2 and problem 10.8); pixels
    of unlike variance share the error in proportion to it. An error below that of rounding to 8
    bits counts as rounding's. At least 10: fewer nats explode nothing. It is loose (healthy VAEs
    of Fashion-MNIST spend a twelfth of it), but what is above it is waste beyond doubt.
    """
    rounding = 1 / (12 * (LEVELS - 1) ** 2)
    left = ratio(metrics["mean_image_mse"], max(metrics["mse"], rounding))
    if not left > 0:
        return math.nan
    return float(np.maximum(10.0, _dims(metrics) / 2 * math.log(left)))


def _runs_away(kl: Floats, bound: Floats, beta: Floats) -> bool:
    """Whether a penalised KL grows, at the end of the run, faster than what it buys."""
    first = len(kl) - 1 - max(3, len(kl) // 3)
    if first < 0:
        return False
    kl, bound, beta = kl[first:], bound[first:], beta[first:]
    # A falling beta sets the KL free on purpose (a cyclical schedule).
    held = (beta[:-1] > 0) & (beta[:-1] <= beta[1:] * (1 + 1e-6))
    rising = (np.diff(bound) > 0) & (np.diff(kl) > 0)
    return bool((held & rising).all() and kl[-1] > RUNAWAY * kl[0])


def _moment_share(metrics: Metrics) -> float:
    """KL(N(mean, cov) of all codes || N(0, I)) over the mean KL from N(0, I).

    The mean KL of q(z|x) is the information in the code plus KL(q(z) || p(z)) (Hoffman & Johnson
    2016), and that is at least the KL of q(z)'s moments: the share lies between 0 and 1. nan where
    p(z) is another, since the KL that is reported is then not the one from N(0, I).
    """
    whole = math.fsum(np.nan_to_num(metrics["kl_per_latent"]))
    drift = ratio(metrics["kl_nats"] - whole, whole)
    nats = metrics["aggregate"]["aggregate_gaussian_kl"]
    return ratio(nats * metrics["latent_dim"], whole) if abs(drift) <= 0.05 else math.nan
