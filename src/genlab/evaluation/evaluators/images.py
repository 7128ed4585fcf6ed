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

from genlab.core.io import sha256
from genlab.core.progress import progress as progress_bar
from genlab.core.stats import ratio_interval, scaled_interval
from genlab.datasets.images import load_images, load_labels
from genlab.datasets.manifests import MANIFEST_FILE
from genlab.distributions.likelihoods import Gaussian
from genlab.evaluation import figures
from genlab.evaluation.diagnostics.criteria import image_verdict
from genlab.evaluation.evaluators.base import Arrays, Evaluator, Floats, Metrics
from genlab.evaluation.evaluators.sampling import SampleSet, start_sampling
from genlab.evaluation.evaluators.summary import ImageSummary
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
QUERIES = 2000  # images whose nearest training images are searched
SAMPLES_KEPT = 2000  # of the best sampler, for the gallery


@dataclass(frozen=True)
class ReferenceFeatures:
    """Features of real images, (n, f) of each split, and what they were extracted with."""

    classifier: Classifier
    train: Floats
    val: Floats
    test: Floats

    def compare(self, features: Floats, resampling: Mapping[str, int]) -> Metrics:
        """Fréchet distance, precision and recall against the test images."""
        seed = resampling["seed"]
        far = frechet.frechet(features, self.test, bootstrap=FRECHET_BOOTSTRAP, seed=seed)
        shape = manifold(features, self.test)
        intervals = {**far.pop("intervals"), **shape.pop("intervals")}
        return {**far, **shape, "intervals": intervals}


class ImageEvaluator(Evaluator):
    """Evaluate a model of images; the sampler is picked on the validation split.

    test, predicted: (n, h, w, c). mean, log_var: (n, d) posteriors of the test images.
    """

    train: Images
    test: Images
    labels: Mapping[str, Labels]
    predicted: Images
    mean: Floats
    log_var: Floats
    nats: Floats
    samples: Mapping[str, SampleSet]
    reference: ReferenceFeatures

    def measure(self) -> Metrics:
        """Reconstruct the test split, sample, and compare both with real images."""
        params, data, seed = self.params, self.paths.data, self.params.seed
        self.train, val, test = (load_images(data, name) for name in ("train", "val", "test"))
        self.check_items(test)
        self.labels = {name: load_labels(data, name) for name in ("train", "test")}
        with start_sampling(params, data, self.checkpoint, self.model) as sampling:
            self.nats, kl = inference.elbo_terms(self.model, test, seed)
            self.check_bounds(self.nats + kl)
            # Before the draws: what needs none of them is done while they are drawn.
            examples, labels = params.evaluate.extractor_examples, self.labels["train"]
            classifier = extractor(self.dataset.name, data, self.train, labels, seed, examples)
            splits = (classifier.features(images) for images in (self.train, val, test))
            self.reference = ReferenceFeatures(classifier, *splits)
            _, known = duplicates.nearest(test[:QUERIES], self.train)
            self.mean, self.log_var = inference.encode(self.model, test)
            self.test, self.predicted = np.asarray(test), inference.reconstruct(self.model, test)
            weights = inference.log_importance_weights(
                self.model, test[: params.evaluate.iwae_items], params.evaluate.iwae_samples, seed
            )
            self.samples = sampling.collect(self.model, self.train)
        resampling = {"bootstrap": params.bootstrap, "seed": seed}
        metrics = {
            **self._describe_model(),
            **self._measure_reconstructions(kl, weights, resampling),
            **self._measure_samples(resampling),
        }
        samples = self.samples[metrics["best_sampler"]].images
        _, near = duplicates.nearest(samples[:QUERIES], self.train)
        metrics["memorisation"] = duplicates.memorisation(near, known)
        metrics["sharpness"] = {
            "test": fidelity.sharpness(self.test),
            "reconstructions": fidelity.sharpness(self.predicted),
            "samples": fidelity.sharpness(samples),
        }
        order = np.random.default_rng([seed, 2]).permutation(len(self.train))
        metrics["inception"] = inception_distances(
            self.test,
            {
                "floor": self.train[np.sort(order[: len(test)])],
                "reconstruction": self.predicted,
                "samples": samples,
            },
        )
        return metrics

    def _describe_model(self) -> Metrics:
        model, classifier = self.model, self.reference.classifier
        sigma = (
            model.likelihood.sigma().tolist() if isinstance(model.likelihood, Gaussian) else None
        )
        return {
            "likelihood": model.architecture.likelihood,
            "comparable": model.likelihood.comparable,
            "tokens": model.architecture.tokens,
            "beta_max": self.facts["training"]["beta_max"],
            "sigma": sigma,
            "latent_dim": self.mean.shape[1],
            "n": len(self.test),
            "mean_image_mse": fidelity.mean_image_mse(self.train, self.test),
            "features": {
                "kind": "classifier",
                "task": classifier.task,
                "digest": classifier.digest,
                "accuracy": classifier.accuracy(self.test, self.labels["test"]),
                "n": len(self.test),
            },
        }

    def _measure_reconstructions(
        self, kl: Floats, weights: Floats, resampling: Mapping[str, int]
    ) -> Metrics:
        cells = self.test[0].size
        bound = likelihood.bound_summary(self.nats, kl, cells=cells, **resampling)
        iwae = likelihood.iwae_summary(weights, **resampling)
        pixels = fidelity.fidelity(self.test, self.predicted, **resampling)
        parts = (bound, iwae, pixels)
        intervals = {name: found for part in parts for name, found in part.pop("intervals").items()}
        intervals["bits_per_dim"] = intervals.pop("bits_per_cell")
        intervals["active_units"] = likelihood.active_units_interval(
            self.mean, bootstrap=UNITS_BOOTSTRAP, seed=resampling["seed"]
        )
        bits = 1 / (cells * np.log(2))
        intervals["iwae_bits_per_dim"] = scaled_interval(intervals["neg_iwae_nats"], bits)
        features = self.reference.classifier.features(self.predicted)
        return {
            "bits_per_dim": bound.pop("bits_per_cell"),
            **bound,
            **iwae,
            **pixels,
            "iwae_bits_per_dim": iwae["neg_iwae_nats"] * bits,
            "active_units": likelihood.active_units(self.mean),
            "aggregate": likelihood.aggregate_posterior(self.mean, self.log_var),
            "kl_per_latent": likelihood.kl_per_latent(self.mean, self.log_var),
            "reconstruction": self.reference.compare(features, resampling),
            "intervals": intervals,
        }

    def _measure_samples(self, resampling: Mapping[str, int]) -> Metrics:
        """Every sampler, compared with the reference of train against test (`floor`)."""
        # Distances fall as n grows: samples are as many as the reference's training images, and
        # those no more than the images they are compared with.
        sizes = [len(found.images) for found in self.samples.values()]
        n, reference = min(len(self.test), len(self.train), *sizes), self.reference
        floor = frechet.train_reference(reference.train, reference.test, n, resampling["seed"])
        measure = partial(_measure_sampler, reference=reference, floor=floor, resampling=resampling)
        progress = partial(progress_bar, total=len(sizes), desc="samplers", unit="sampler")
        with ThreadPoolExecutor(self.params.threads) as pool:  # any number gives the same
            found = list(progress(pool.map(measure, self.samples.values())))
        samplers = dict(zip(self.samples, found, strict=True))
        best = min(samplers, key=lambda name: float(samplers[name]["validation_frechet"]))
        return {"floor": floor, "samplers": samplers, "best_sampler": best}

    def judge(self, metrics: Metrics) -> dict[str, Any]:
        """Apply the criteria of images."""
        least = MIN_ACCURACY.get(self.dataset.name)
        return image_verdict(metrics, self.series, min_accuracy=least)

    def summarise(self, metrics: Metrics, *, passed: bool) -> ImageSummary:
        """Select the scalars of metrics/<dataset>.json."""
        best = metrics["samplers"][metrics["best_sampler"]]
        return ImageSummary(
            passed=passed,
            active_units=metrics["active_units"],
            bits_per_dim=metrics["bits_per_dim"],
            ssim=metrics["ssim"],
            psnr=metrics["psnr"],
            kl_nats=metrics["kl_nats"],
            relative_frechet=best["relative_frechet"],
            precision=best["precision"],
            recall=best["recall"],
            near_duplicate_rate=metrics["memorisation"]["near_duplicate_rate"],
        )

    def draw(self, metrics: Metrics) -> None:
        """Draw reconstructions, samples with their neighbours, walks through the code, curves."""
        folder, best, mean = self.paths.plots, metrics["best_sampler"], self.mean
        truth, predicted = self.test[:PAIRED], self.predicted[:PAIRED]
        notes = [f"{value:.1f} dB" for value in fidelity.psnr(fidelity.mse(truth, predicted))]
        title = "Test images over their reconstructions"
        path = folder / "reconstructions.png"
        figures.image_reconstructions(path, truth, predicted, title, notes)
        captions = {
            name: f"Fréchet {found['frechet_distance']:.3g}, recall {found['recall']:.2f}"
            + ("; picked" if name == best else "")
            for name, found in metrics["samplers"].items()
        }
        shown = sorted(self.samples, key=lambda name: name != best)
        tiles = {name: self.samples[name].images[:SAMPLED] for name in shown}
        figures.image_samplers(folder / "samplers.png", tiles, captions)
        samples = self.samples[best].images
        figures.image_sheet(folder / "samples.png", samples[:64], {}, f"Samples: {best}")
        queries = samples[:NEIGHBOURS]
        near, distances = duplicates.nearest(queries, self.train)
        path, title = folder / "neighbours.png", "Samples over nearest training images"
        figures.neighbours(path, queries, self.train[near], distances, title)
        figures.kl_by_latent(folder / "kl_by_latent.png", metrics["kl_per_latent"])
        steps = np.linspace(-3, 3, STEPS)
        directions, lengths = latents.principal_directions(mean, DIRECTIONS)
        walked = latents.traverse(self.model, mean[0], directions, lengths, steps)
        rows = [f"direction {index + 1},\nin its SDs" for index in range(len(walked))]
        figures.traversals(folder / "traversals.png", walked, rows, steps.tolist())
        ends = mean[:WALKS], mean[WALKS : 2 * WALKS]
        between = latents.interpolate(self.model, *ends, STEPS)
        title = "Interpolations between two test images"
        figures.interpolations(folder / "interpolations.png", between, title)
        points = PCA(2, random_state=0).fit_transform(mean[:PROJECTED])
        labels, names = self.labels["test"][:PROJECTED], list(self.dataset.labels)
        title = "Codes of test images, two principal directions"
        figures.projection(folder / "projection.png", points, labels, names, title)
        figures.training_curves(folder / "training_curves.png", self.curves, "nats per image")

    def arrays(self, metrics: Metrics) -> Arrays:
        """Reconstructions, and samples with their nearest training images in features."""
        reference = self.reference
        samples = self.samples[metrics["best_sampler"]].images[:SAMPLES_KEPT]
        features = reference.classifier.features(samples)
        rows, distances = duplicates.nearest(features, reference.train)
        _, train_distances = duplicates.nearest(reference.test, reference.train)
        return {
            "predicted": self.predicted,
            "nats": self.nats,
            "train_distances": train_distances,
            "samples": samples,
            "sample_errors": distances,
            "sample_labels": self.labels["train"][rows],
            "sample_nearest": np.stack([self.train[index] for index in rows]),
        }


def extractor(
    name: str, data: Path, train: Images, labels: Labels, seed: int, examples: int
) -> Classifier:
    """The classifier that images of a dataset are compared by; without labels where it has none."""
    known, source = labels if name in LABELLED else None, sha256(data / MANIFEST_FILE)
    return cached_classifier(name, train, known, source, seed=seed, examples=examples)


def _measure_sampler(
    drawn: SampleSet,
    reference: ReferenceFeatures,
    floor: Mapping[str, Any],
    resampling: Mapping[str, int],
) -> Metrics:
    features = reference.classifier.features(drawn.images)
    found = reference.compare(features[: floor["n"]], resampling)
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
