"""All the numbers and pictures of an image experiment, from arrays.

`image_run` asks the model for the arrays; what they mean is decided here, out of its reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA
from tqdm import tqdm

from genlab.core.stats import ratio_interval, scaled_interval
from genlab.evaluation import figures
from genlab.evaluation.draws import Figure
from genlab.evaluation.metrics import duplicates as memorisation
from genlab.evaluation.metrics import fidelity, frechet, likelihood
from genlab.evaluation.metrics.features import Classifier
from genlab.evaluation.metrics.manifold import manifold

Images = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
PAIRED, SAMPLED, NEIGHBOURS = 16, 24, 16  # pictures in a figure
PROJECTED = 3000
FRECHET_BOOTSTRAP = 30
UNITS_BOOTSTRAP = 100
QUERIES = 2000  # images whose nearest training images are looked for
SEVERAL_PERCENT = (5, 95)


@dataclass(frozen=True)
class ImageEvidence:
    """What a model did with held-out images; n test images, d latents.

    truth, predicted: (n, h, w, c). reconstruction, kl: (n,) nats, -log p(x|z) and KL at one z.
    log_weights: (m, k), see `likelihood.iwae`. mean, log_var: (n, d) posteriors. labels: (n,).
    train, val: images of those splits. samples: what each sampler drew. traversals, interpolations:
    (rows, steps, h, w, c). sigma: of a Gaussian likelihood, per channel.
    """

    truth: Images
    predicted: Images
    reconstruction: Floats
    kl: Floats
    log_weights: Floats
    mean: Floats
    log_var: Floats
    labels: npt.NDArray[np.int64]
    names: Sequence[str]
    train: Images
    val: Images
    samples: Mapping[str, Figure]
    traversals: Images
    traversal_steps: Sequence[float]
    interpolations: Images
    tokens: int
    likelihood: str
    comparable: bool
    sigma: Sequence[float] | None


@dataclass(frozen=True)
class ReferenceFeatures:
    """Features of the images that everything is compared with, (n, f) each.

    train: of the whole split; rows: as many of them as there are test images.
    """

    classifier: Classifier
    accuracy: float
    train: Floats
    rows: npt.NDArray[np.int64]
    val: Floats
    test: Floats
    neighbours: memorisation.Neighbours  # nearest training image of each of QUERIES test images

    @classmethod
    def of(
        cls,
        classifier: Classifier,
        train: Images,
        val: Images,
        test: Images,
        labels: npt.NDArray[np.int64],
        seed: int,
    ) -> ReferenceFeatures:
        """Look at the splits; as many training images as test images are chosen by `seed`.

        labels: of the test images, (n,).
        """
        rng = np.random.default_rng([seed, 2])
        known = labels if classifier.layout.task == "labels" else None
        return cls(
            classifier=classifier,
            accuracy=classifier.accuracy(test, known),
            train=features_of(classifier, train),
            rows=np.sort(rng.permutation(len(train))[: len(test)]),
            val=features_of(classifier, val),
            test=features_of(classifier, test),
            neighbours=memorisation.nearest(test[:QUERIES], train),
        )


def measure(
    evidence: ImageEvidence,
    seen: ReferenceFeatures,
    *,
    beta_max: float,
    bootstrap: int,
    seed: int,
    threads: int = 1,
) -> dict[str, Any]:
    """metrics.json: flat numbers, nested groups, and `intervals` of the flat ones.

    threads: samplers that are measured at a time; any number gives the same.
    """
    e, resampling = evidence, {"bootstrap": bootstrap, "seed": seed}
    cells = e.truth[0].size
    bound = likelihood.bound_summary(
        e.reconstruction + e.kl, e.reconstruction, e.kl, cells=cells, **resampling
    )
    iwae = likelihood.iwae_summary(e.log_weights, **resampling)
    right = fidelity.fidelity(e.truth, e.predicted, **resampling)
    active, _ = likelihood.active_units(e.mean)
    intervals = {**bound.pop("intervals"), **iwae.pop("intervals"), **right.pop("intervals")}
    intervals["bits_per_dim"] = intervals.pop("bits_per_cell")
    intervals["active_units"] = likelihood.active_units_interval(
        e.mean, bootstrap=UNITS_BOOTSTRAP, seed=seed
    )
    bits = 1 / (cells * np.log(2))
    intervals["iwae_bits_per_dim"] = scaled_interval(intervals["neg_iwae_nats"], bits)
    # Distances fall as n grows: samples are as many as the floor's training images, and those no
    # more than the images they are held against.
    compared = min(len(e.truth), len(e.train), *(len(one.images) for one in e.samples.values()))
    floor = frechet.floor(seen.train, seen.test, compared, seed)
    measured = partial(_sampler_metrics, seen=seen, floor=floor, resampling=resampling)
    bar = partial(tqdm, total=len(e.samples), desc="samplers", unit="sampler")
    with ThreadPoolExecutor(threads) as pool:
        samplers = dict(zip(e.samples, bar(pool.map(measured, e.samples.values())), strict=True))
    best = min(samplers, key=lambda name: float(samplers[name]["validation_frechet"]))
    queries = e.samples[best].images[:QUERIES]
    return {
        "likelihood": e.likelihood,
        "comparable": e.comparable,
        "neg_elbo_nats": bound["neg_elbo_nats"],
        "reconstruction_nats": bound["reconstruction_nats"],
        "kl_nats": bound["kl_nats"],
        "bits_per_dim": bound["bits_per_cell"],
        "neg_iwae_nats": iwae["neg_iwae_nats"],
        "iwae_bits_per_dim": iwae["neg_iwae_nats"] * bits,
        # The bound that IWAE's is to be held against: of the same images.
        "importance_neg_elbo_nats": -float(e.log_weights.mean()),
        "iwae_samples": iwae["iwae_samples"],
        "iwae_items": iwae["n"],
        "active_units": active,
        "latent_dim": e.mean.shape[1],
        "tokens": e.tokens,
        "beta_max": beta_max,
        "n": len(e.truth),
        "mse": right["mse"],
        "psnr": right["psnr"],
        "ssim": right["ssim"],
        "mean_image_mse": _mean_image_mse(e.train, e.truth),
        "sharpness": {
            "test": fidelity.sharpness(e.truth),
            "reconstructions": fidelity.sharpness(e.predicted),
            "samples": fidelity.sharpness(e.samples[best].images),
        },
        "aggregate": _aggregate(e.mean, e.log_var),
        "sigma": None if e.sigma is None else list(e.sigma),
        "features": {
            "kind": "classifier",
            "task": seen.classifier.layout.task,
            "digest": seen.classifier.digest,
            "accuracy": seen.accuracy,
            "n": len(e.truth),
        },
        "floor": floor,
        "reconstruction": _compared(features_of(seen.classifier, e.predicted), seen, resampling),
        "best_sampler": best,
        "samplers": samplers,
        "memorisation": memorisation.memorisation(
            memorisation.nearest(queries, e.train), seen.neighbours, **resampling
        ),
        "kl_per_latent": kl_per_latent(e.mean, e.log_var),
        "intervals": intervals,
    }


def kl_per_latent(mean: Floats, log_var: Floats) -> list[float]:
    """KL of each latent's posterior from N(0, 1), mean over images, nats, greatest first."""
    kl = 0.5 * (np.square(mean) + np.exp(log_var) - 1 - log_var).mean(axis=0)
    return [float(value) for value in np.sort(kl)[::-1]]


def draw(
    folder: Path,
    evidence: ImageEvidence,
    metrics: Mapping[str, Any],
    history: Sequence[Mapping[str, float]],
) -> None:
    """Every figure of the evaluation, as PNG files in `folder`."""
    e, best = evidence, metrics["best_sampler"]
    pairs = slice(0, PAIRED)
    psnr = fidelity.psnr(fidelity.mse(e.truth[pairs], e.predicted[pairs]))
    figures.image_reconstructions(
        folder / "reconstructions.png",
        e.truth[pairs],
        e.predicted[pairs],
        "Test images over their reconstructions",
        [f"{value:.1f} dB" for value in psnr],
    )
    shown = sorted(e.samples, key=lambda name: name != best)
    figures.image_samplers(
        folder / "samplers.png",
        {name: e.samples[name].images[:SAMPLED] for name in shown},
        {name: _caption(metrics["samplers"][name], name == best) for name in shown},
    )
    figures.image_sheet(folder / "samples.png", e.samples[best].images[:64], {}, f"Samples: {best}")
    rows = [f"direction {index + 1},\nin its SDs" for index in range(len(e.traversals))]
    figures.traversals(folder / "traversals.png", e.traversals, rows, e.traversal_steps)
    figures.interpolations(
        folder / "interpolations.png", e.interpolations, "On the way between two test images"
    )
    queries = e.samples[best].images[:NEIGHBOURS]
    near = memorisation.nearest(queries, e.train)
    figures.neighbours(
        folder / "neighbours.png", queries, e.train[near.indices], near.distances,
        "Samples over their nearest training images",
    )  # fmt: skip
    points = PCA(2, random_state=0).fit_transform(e.mean[:PROJECTED])
    figures.projection(
        folder / "projection.png", points, e.labels[:PROJECTED], list(e.names),
        "Codes of test images, two principal directions",
    )  # fmt: skip
    figures.kl_by_latent(folder / "kl_by_latent.png", metrics["kl_per_latent"])
    curves = {name: [row[name] for row in history] for name in history[0]}
    figures.training_curves(folder / "training_curves.png", curves, "nats per image")


def _caption(found: Mapping[str, Any], best: bool) -> str:
    words = f"Fréchet {found['frechet_distance']:.3g}, recall {found['recall']:.2f}"
    return f"{words}; picked" if best else words


def features_of(classifier: Classifier, images: Images) -> Floats:
    """Features of images, (n, f), in the precision that covariances take."""
    return classifier.features(images).astype(np.float64)


def _sampler_metrics(
    drawn: Figure, seen: ReferenceFeatures, floor: Mapping[str, Any], resampling: Mapping[str, int]
) -> dict[str, Any]:
    features = features_of(seen.classifier, drawn.images)
    found = _compared(features[: floor["n"]], seen, resampling)
    key = "frechet_distance"
    found["intervals"]["relative_frechet"] = ratio_interval(
        found[key], found["intervals"][key], floor[key], floor["intervals"][key]
    )
    return {
        "relative_frechet": found[key] / floor[key],
        # What the sampler is picked by: the test images have no say in it.
        "validation_frechet": frechet.distance(features, seen.val),
        **found,
        **drawn.facts,
    }


def _compared(
    features: Floats, seen: ReferenceFeatures, resampling: Mapping[str, int]
) -> dict[str, Any]:
    """Fréchet distance, precision, recall, density, coverage against the test images."""
    far = frechet.frechet(features, seen.test, bootstrap=FRECHET_BOOTSTRAP, seed=resampling["seed"])
    shape = manifold(features, seen.test, **resampling)
    intervals = {**far.pop("intervals"), **shape.pop("intervals")}
    return {**far, **shape, "intervals": intervals}


def _mean_image_mse(train: Images, test: Images) -> float:
    """What answering with the mean training image would cost: the data's variance."""
    total = np.zeros(train.shape[1:], dtype=np.float64)
    for start in range(0, len(train), fidelity.CHUNK):
        total += train[start : start + fidelity.CHUNK].sum(axis=0, dtype=np.int64)
    mean = np.clip(np.round(total / len(train)), 0, 255).astype(np.uint8)
    answers = np.broadcast_to(mean, test.shape)
    return float(fidelity.mse(test, answers).mean())


def _aggregate(mean: Floats, log_var: Floats) -> dict[str, float]:
    """How far the codes of all images together are from N(0, I).

    `aggregate_std_p05`, `aggregate_std_p95`: 5th and 95th percentile over latents of their standard deviation;
    `aggregate_gaussian_kl`: KL of a normal of the codes' mean and covariance from N(0, I), nats a latent.
    """
    centre = mean.mean(axis=0)
    covariance = np.cov(mean.T) + np.diag(np.exp(log_var).mean(axis=0))
    std = np.sqrt(np.diag(covariance))
    _, log_det = np.linalg.slogdet(covariance)
    nats = 0.5 * (np.trace(covariance) + centre @ centre - len(centre) - log_det)
    low, high = np.percentile(std, SEVERAL_PERCENT)
    return {
        "aggregate_std_p05": float(low),
        "aggregate_std_p95": float(high),
        "aggregate_gaussian_kl": float(nats / len(centre)),
    }
