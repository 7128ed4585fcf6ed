"""The evaluation of image models."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA
from tqdm import tqdm

from genlab.core.io import sha256
from genlab.core.stats import ratio_interval, scaled_interval
from genlab.datasets.image_files import load_images, load_labels
from genlab.datasets.manifests import MANIFEST_FILE
from genlab.distributions.likelihoods import Gaussian
from genlab.evaluation import figures
from genlab.evaluation.diagnostics.criteria import image_verdict
from genlab.evaluation.evaluators.base import Arrays, Evaluator, Floats, Metrics
from genlab.evaluation.evaluators.sampling import SampleSet, start_sampling
from genlab.evaluation.metrics import duplicates, fidelity, frechet, likelihood
from genlab.evaluation.metrics.features import Classifier, cached_classifier
from genlab.evaluation.metrics.inception import inception_distances
from genlab.evaluation.metrics.manifold import manifold
from genlab.vae.sampling import latents
from genlab.vae.sampling import posterior as inference

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
LABELLED = ("fashion_mnist", "mnist", "cifar10", "celeba")
MIN_ACCURACY = {"fashion_mnist": 0.9, "mnist": 0.97}
PAIRED, SAMPLED, NEIGHBOURS = 16, 24, 16  # pictures in a figure
DIRECTIONS, STEPS, WALKS = 6, 9, 6  # of traversals and interpolations
PROJECTED = 3000
FRECHET_BOOTSTRAP, UNITS_BOOTSTRAP = 30, 100
QUERIES = 2000  # images whose nearest training images are looked for
SAMPLES_KEPT = 2000  # of the best sampler, for the gallery


@dataclass(frozen=True)
class ImageEvidence:
    """What a model did with held-out images; n test images, d latents.

    truth, predicted: (n, h, w, c). reconstruction, kl: (n,) nats, -log p(x|z) and KL at one z.
    log_weights: (m, k), see `likelihood.iwae`. mean, log_var: (n, d) posteriors. train: images of
    that split. samples: of each sampler. facts: further entries of metrics.json about the model.
    """

    truth: Images
    predicted: Images
    reconstruction: Floats
    kl: Floats
    log_weights: Floats
    mean: Floats
    log_var: Floats
    train: Images
    samples: Mapping[str, SampleSet]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class ReferenceFeatures:
    """Features of the images that everything is compared with, (n, f) each.

    train: of the whole split; rows: as many of them as there are test images. neighbours: the
    nearest training image of each of QUERIES test images.
    """

    classifier: Classifier
    accuracy: float
    train: Floats
    rows: npt.NDArray[np.int64]
    val: Floats
    test: Floats
    neighbours: duplicates.Neighbours

    @classmethod
    def extract(
        cls,
        classifier: Classifier,
        train: Images,
        val: Images,
        test: Images,
        labels: Labels,
        seed: int,
    ) -> ReferenceFeatures:
        """Extract features of the splits. labels: of the test images, (n,)."""
        rng = np.random.default_rng([seed, 2])
        known = labels if classifier.layout.task == "labels" else None
        return cls(
            classifier=classifier,
            accuracy=classifier.accuracy(test, known),
            train=classifier.features(train),
            rows=np.sort(rng.permutation(len(train))[: len(test)]),
            val=classifier.features(val),
            test=classifier.features(test),
            neighbours=duplicates.nearest(test[:QUERIES], train),
        )


class ImageEvaluator(Evaluator):
    """Evaluate a model of images; the sampler is picked on the validation split."""

    evidence: ImageEvidence
    reference: ReferenceFeatures
    labels: Mapping[str, Labels]

    def measure(self) -> Metrics:
        """Reconstruct the test split, sample, and compare both with real images."""
        params, data, seed = self.params, self.paths.data, self.params.seed
        train, val, test = (load_images(data, name) for name in ("train", "val", "test"))
        self.check_items(test)
        self.labels = {name: load_labels(data, name) for name in ("train", "test")}
        with start_sampling(params, data, self.checkpoint, self.model) as sampling:
            nats, kl = inference.elbo_terms(self.model, test, seed)
            self.check_bounds(nats + kl)
            # Before the draws: what needs none of them is done while they are drawn.
            classifier = extractor(
                self.dataset.name,
                data,
                train,
                self.labels["train"],
                seed,
                params.evaluate.extractor_examples,
            )
            self.reference = ReferenceFeatures.extract(
                classifier, train, val, test, self.labels["test"], seed
            )
            mean, log_var = inference.encode(self.model, test)
            settings, weighed = params.evaluate, test[: params.evaluate.iwae_items]
            self.evidence = ImageEvidence(
                truth=np.asarray(test),
                predicted=inference.reconstruct(self.model, test),
                reconstruction=nats,
                kl=kl,
                log_weights=inference.log_importance_weights(
                    self.model, weighed, settings.iwae_samples, seed
                ),
                mean=mean,
                log_var=log_var,
                train=train,
                samples=sampling.collect(self.model, train),
                facts=self._model_facts(),
            )
        resampling = {"bootstrap": params.evaluate.bootstrap, "seed": seed}
        metrics = measure_images(self.evidence, self.reference, params.threads, **resampling)
        best = self.evidence.samples[metrics["best_sampler"]].images
        metrics["inception"] = inception_distances(
            train[self.reference.rows],
            self.evidence.truth,
            {"reconstruction": self.evidence.predicted, "samples": best},
            seed,
        )
        return metrics

    def _model_facts(self) -> dict[str, Any]:
        model, likelihood = self.model, self.model.likelihood
        sigma = likelihood.sigma().tolist() if isinstance(likelihood, Gaussian) else None
        return {
            "likelihood": model.architecture.likelihood,
            "comparable": likelihood.comparable,
            "tokens": model.architecture.tokens,
            "beta_max": self.facts["training"]["beta_max"],
            "sigma": sigma,
        }

    def judge(self, metrics: Metrics) -> dict[str, Any]:
        """Apply the criteria of images."""
        least = MIN_ACCURACY.get(self.dataset.name)
        return image_verdict(metrics, self.series, min_accuracy=least)

    def summarise(self, metrics: Metrics) -> dict[str, Any]:
        """Ten scalars with `passed`."""
        best = metrics["samplers"][metrics["best_sampler"]]
        names = ("bits_per_dim", "ssim", "psnr", "kl_nats", "active_units")
        return {
            **{name: metrics[name] for name in names},
            **{name: best[name] for name in ("relative_frechet", "precision", "recall")},
            "near_duplicate_rate": metrics["memorisation"]["near_duplicate_rate"],
        }

    def draw(self, metrics: Metrics) -> None:
        """Draw reconstructions, samples with their neighbours, walks through the code, curves."""
        folder, evidence = self.paths.plots, self.evidence
        draw_images(folder, evidence, metrics)
        mean, steps = evidence.mean, np.linspace(-3, 3, STEPS)
        directions, lengths = latents.principal_directions(mean, DIRECTIONS)
        walked = latents.traverse(self.model, mean[0], directions, lengths, steps)
        rows = [f"direction {index + 1},\nin its SDs" for index in range(len(walked))]
        figures.traversals(folder / "traversals.png", walked, rows, steps.tolist())
        ends = mean[:WALKS], mean[WALKS : 2 * WALKS]
        between = latents.interpolate(self.model, *ends, STEPS)
        title = "On the way between two test images"
        figures.interpolations(folder / "interpolations.png", between, title)
        points = PCA(2, random_state=0).fit_transform(mean[:PROJECTED])
        labels, names = self.labels["test"][:PROJECTED], list(self.dataset.labels)
        title = "Codes of test images, two principal directions"
        figures.projection(folder / "projection.png", points, labels, names, title)
        figures.training_curves(folder / "training_curves.png", self.curves, "nats per image")

    def arrays(self, metrics: Metrics) -> Arrays:
        """Reconstructions, and samples with their nearest training images in features."""
        evidence, reference = self.evidence, self.reference
        samples = evidence.samples[metrics["best_sampler"]].images[:SAMPLES_KEPT]
        near = duplicates.nearest(reference.classifier.features(samples), reference.train)
        return {
            "predicted": evidence.predicted,
            "nats": evidence.reconstruction,
            "train_distances": duplicates.nearest(reference.test, reference.train).distances,
            "samples": samples,
            "sample_errors": near.distances,
            "sample_labels": self.labels["train"][near.indices],
            "sample_nearest": np.stack([evidence.train[index] for index in near.indices]),
        }


def extractor(
    name: str, data: Path, train: Images, labels: Labels, seed: int, examples: int
) -> Classifier:
    """The classifier that images of a dataset are compared by; without labels where it has none."""
    return cached_classifier(
        name,
        train,
        labels if name in LABELLED else None,
        sha256(data / MANIFEST_FILE),
        seed=seed,
        examples=examples,
    )


def measure_images(
    evidence: ImageEvidence,
    reference: ReferenceFeatures,
    threads: int = 1,
    *,
    bootstrap: int,
    seed: int,
) -> Metrics:
    """metrics.json: flat numbers, nested groups, and `intervals` of the flat ones.

    threads: samplers that are measured at a time; any number gives the same.
    """
    e, resampling = evidence, {"bootstrap": bootstrap, "seed": seed}
    # Distances fall as n grows: samples are as many as the floor's training images, and those no
    # more than the images they are held against.
    compared = min(len(e.truth), len(e.train), *(len(one.images) for one in e.samples.values()))
    floor = frechet.train_reference(reference.train, reference.test, compared, seed)
    measure = partial(_measure_sampler, reference=reference, floor=floor, resampling=resampling)
    progress = partial(tqdm, total=len(e.samples), desc="samplers", unit="sampler")
    with ThreadPoolExecutor(threads) as pool:
        found = list(progress(pool.map(measure, e.samples.values())))
    samplers = dict(zip(e.samples, found, strict=True))
    best = min(samplers, key=lambda name: float(samplers[name]["validation_frechet"]))
    samples = e.samples[best].images
    near = duplicates.nearest(samples[:QUERIES], e.train)
    classifier = reference.classifier
    return {
        **e.facts,
        **_bounds_and_fidelity(e, resampling),
        "latent_dim": e.mean.shape[1],
        "n": len(e.truth),
        "mean_image_mse": fidelity.mean_image_mse(e.train, e.truth),
        "sharpness": {
            "test": fidelity.sharpness(e.truth),
            "reconstructions": fidelity.sharpness(e.predicted),
            "samples": fidelity.sharpness(samples),
        },
        "aggregate": likelihood.aggregate_posterior(e.mean, e.log_var),
        "features": {
            "kind": "classifier",
            "task": classifier.layout.task,
            "digest": classifier.digest,
            "accuracy": reference.accuracy,
            "n": len(e.truth),
        },
        "floor": floor,
        "reconstruction": _compare(classifier.features(e.predicted), reference, resampling),
        "best_sampler": best,
        "samplers": samplers,
        "memorisation": duplicates.memorisation(near, reference.neighbours, **resampling),
        "kl_per_latent": likelihood.kl_per_latent(e.mean, e.log_var),
    }


def _bounds_and_fidelity(e: ImageEvidence, resampling: Mapping[str, int]) -> Metrics:
    cells = e.truth[0].size
    bound = likelihood.bound_summary(
        e.reconstruction + e.kl, e.reconstruction, e.kl, cells=cells, **resampling
    )
    iwae = likelihood.iwae_summary(e.log_weights, **resampling)
    pixels = fidelity.fidelity(e.truth, e.predicted, **resampling)
    parts = (bound, iwae, pixels)
    intervals = {name: found for part in parts for name, found in part.pop("intervals").items()}
    intervals["bits_per_dim"] = intervals.pop("bits_per_cell")
    intervals["active_units"] = likelihood.active_units_interval(
        e.mean, bootstrap=UNITS_BOOTSTRAP, seed=resampling["seed"]
    )
    bits = 1 / (cells * np.log(2))
    intervals["iwae_bits_per_dim"] = scaled_interval(intervals["neg_iwae_nats"], bits)
    return {
        "bits_per_dim": bound.pop("bits_per_cell"),
        **bound,
        **iwae,
        **pixels,
        "iwae_bits_per_dim": iwae["neg_iwae_nats"] * bits,
        # The bound that IWAE's is to be held against: of the same images.
        "importance_neg_elbo_nats": -float(e.log_weights.mean()),
        "active_units": likelihood.active_units(e.mean),
        "intervals": intervals,
    }


def _measure_sampler(
    drawn: SampleSet,
    reference: ReferenceFeatures,
    floor: Mapping[str, Any],
    resampling: Mapping[str, int],
) -> Metrics:
    features = reference.classifier.features(drawn.images)
    found = _compare(features[: floor["n"]], reference, resampling)
    key = "frechet_distance"
    found["intervals"]["relative_frechet"] = ratio_interval(
        found[key], found["intervals"][key], floor[key], floor["intervals"][key]
    )
    return {
        "relative_frechet": found[key] / floor[key],
        # What the sampler is picked by: the test images have no say in it.
        "validation_frechet": frechet.distance(features, reference.val),
        **found,
        **drawn.facts,
    }


def _compare(
    features: Floats, reference: ReferenceFeatures, resampling: Mapping[str, int]
) -> Metrics:
    """Fréchet distance, precision, recall, density, coverage against the test images."""
    seed = resampling["seed"]
    far = frechet.frechet(features, reference.test, bootstrap=FRECHET_BOOTSTRAP, seed=seed)
    shape = manifold(features, reference.test, **resampling)
    intervals = {**far.pop("intervals"), **shape.pop("intervals")}
    return {**far, **shape, "intervals": intervals}


def draw_images(folder: Path, evidence: ImageEvidence, metrics: Metrics) -> None:
    """The figures that need no model, as PNG files in `folder`."""
    e, best, pairs = evidence, metrics["best_sampler"], slice(0, PAIRED)
    psnr = fidelity.psnr(fidelity.mse(e.truth[pairs], e.predicted[pairs]))
    figures.image_reconstructions(
        folder / "reconstructions.png",
        e.truth[pairs],
        e.predicted[pairs],
        "Test images over their reconstructions",
        [f"{value:.1f} dB" for value in psnr],
    )
    captions = {
        name: f"Fréchet {found['frechet_distance']:.3g}, recall {found['recall']:.2f}"
        + ("; picked" if name == best else "")
        for name, found in metrics["samplers"].items()
    }
    shown = sorted(e.samples, key=lambda name: name != best)
    images = {name: e.samples[name].images for name in shown}
    tiles = {name: found[:SAMPLED] for name, found in images.items()}
    figures.image_samplers(folder / "samplers.png", tiles, captions)
    figures.image_sheet(folder / "samples.png", images[best][:64], {}, f"Samples: {best}")
    queries = images[best][:NEIGHBOURS]
    near = duplicates.nearest(queries, e.train)
    nearest, title = e.train[near.indices], "Samples over their nearest training images"
    figures.neighbours(folder / "neighbours.png", queries, nearest, near.distances, title)
    figures.kl_by_latent(folder / "kl_by_latent.png", metrics["kl_per_latent"])
