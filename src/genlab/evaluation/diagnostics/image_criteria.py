"""Did an image VAE learn? A criterion a line, over numbers only (see `image_rules`)."""

import math
from typing import Any

from genlab.evaluation.diagnostics.grids import Metrics, criterion
from genlab.evaluation.diagnostics.image_rules import (
    DEFAULT,
    Series,
    Thresholds,
    best_sampler,
    difference,
    finite,
    ratio,
    skill,
    skipped_share,
)


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
        ("skill_over_mean_image", skill(metrics), ">", thresholds.skill,
         "share of the mean image's squared error that reconstructions do not make"),
        ("ssim", metrics["ssim"], ">=", thresholds.ssim, "structural similarity"),
        ("active_share", ratio(metrics["active_units"], metrics["latent_dim"]), ">=",
         thresholds.active_share,
         f"{metrics['active_units']} of {metrics['latent_dim']} latents vary with the image"),
        ("kl_nats", metrics["kl_nats"], ">=", thresholds.kl_nats,
         "nats of code; an upper bound of what it says about the image"),
        ("iwae_gain_nats", difference(metrics["neg_elbo_nats"], metrics["neg_iwae_nats"]), ">=",
         -_noise(metrics), "the IWAE bound cannot be looser than the ELBO, but for the noise of "
         "taking it over fewer images"),
        _sampling(metrics, thresholds),
        ("recall", best["recall"], ">", thresholds.recall,
         f"share of test images within reach of the samples of `{best_sampler(metrics)}`"),
        ("near_copies", copies["intervals"]["near_duplicate_rate"]["low"], "<=", thresholds.near_duplicate_rate,
         "lower end of the share of samples nearer to a training image than 99 % of test images"),
        ("exact_duplicate_rate", copies["intervals"]["exact_duplicate_rate"]["low"], "<=",
         copies["held_out_exact_duplicate_rate"],
         "lower end of the share of samples that are training images; asked: as test images"),
        ("skipped_updates", skipped_share(series), "<", thresholds.skipped_share,
         "share of the updates that were skipped"),
    ]  # fmt: skip
    if least_accuracy is not None:
        accuracy = metrics["features"]["accuracy"]
        why = "accuracy of the classifier whose features the Fréchet distance compares"
        measured.append(("classifier_accuracy", accuracy, ">=", least_accuracy, why))
    criteria = [
        criterion(name, finite(value), sign, asked, why)
        for name, value, sign, asked, why in measured
    ]
    return {"passed": all(c["passed"] for c in criteria), "criteria": criteria, "old_rules": []}


def _sampling(metrics: Metrics, t: Thresholds) -> tuple[str, float | None, str, float, str]:
    """The best sampler must come near the floor, or at least beat N(0, I)."""
    over = {
        name: ratio(found["frechet_distance"], metrics["floor"]["frechet_distance"])
        for name, found in metrics["samplers"].items()
    }
    best, normal = best_sampler(metrics), over.get("normal")
    why = f"Fréchet distance of `{best}` over that of training images"
    if best != "normal" and normal is not None and normal > t.over_floor:
        return "relative_frechet", over[best], "<", normal, f"{why}; asked: below N(0, I)'s"
    return "relative_frechet", over[best], "<=", t.over_floor, why


def _noise(metrics: Metrics) -> float:
    """Half width of the 95 % interval of ELBO - IWAE, taken over two sets of images, nats."""
    intervals = metrics["intervals"]
    both = [intervals[name] for name in ("neg_elbo_nats", "neg_iwae_nats")]
    widths = [difference(interval["high"], interval["low"]) or 0.0 for interval in both]
    return math.hypot(*widths) / 2
