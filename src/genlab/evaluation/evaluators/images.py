"""The evaluation of image models."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.io import sha256
from genlab.core.progress import progress
from genlab.core.stats import ratio_interval, scaled_interval
from genlab.datasets.images import load_images, load_labels
from genlab.datasets.manifests import MANIFEST_FILE
from genlab.distributions.likelihoods import Gaussian
from genlab.evaluation import figures
from genlab.evaluation.evaluators.base import Arrays, Evaluator, Floats, Metrics, merge
from genlab.evaluation.evaluators.sampling import SampleSet, start_sampling
from genlab.evaluation.evaluators.summary import ImageSummary
from genlab.evaluation.metrics import duplicates, fidelity, frechet, likelihood
from genlab.evaluation.metrics.features import Classifier, cached_classifier
from genlab.evaluation.metrics.inception import inception_distances
from genlab.evaluation.metrics.manifold import manifold
from genlab.vae.sampling import latents

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
LABELLED = ("fashion_mnist", "mnist", "cifar10", "celeba")
PAIRED, SAMPLED = 16, 24  # pictures in a figure
DIRECTIONS, STEPS, WALKS = 6, 9, 6  # of traversals and interpolations
FRECHET_BOOTSTRAP, UNITS_BOOTSTRAP = 30, 100
QUERIES = 2000  # images whose nearest training images are searched
SAMPLES_KEPT = 2000  # of the best sampler, for the gallery


class ImageEvaluator(Evaluator):
    """Evaluate a model of images; the sampler is picked on the validation split.

    features: (n, f) of each split, extracted by `classifier`.
    """

    train: Images
    labels: Mapping[str, Labels]
    samples: Mapping[str, SampleSet]
    classifier: Classifier
    features: Mapping[str, Floats]

    def measure(self) -> Metrics:
        """Reconstruct the test split, sample, and compare both with real images."""
        params, data, seed = self.params, self.paths.data, self.params.seed
        splits = {name: load_images(data, name) for name in ("train", "val", "test")}
        self.train, test = splits["train"], splits["test"]
        self.labels = {name: load_labels(data, name) for name in ("train", "test")}
        with start_sampling(params, data, self.checkpoint, self.model) as collect:
            # Before the draws: what needs none of them is done while they are drawn.
            self.infer(np.asarray(test))
            examples, labels = params.evaluate.extractor_examples, self.labels["train"]
            self.classifier = extractor(self.dataset.name, data, self.train, labels, seed, examples)
            self.features = {
                name: self.classifier.features(images) for name, images in splits.items()
            }
            _, known = duplicates.nearest(test[:QUERIES], self.train)
            self.samples = collect(self.train)
        metrics = {
            **self._describe_model(),
            **self._measure_reconstructions(),
            **self._measure_samples(),
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
        model, classifier = self.model, self.classifier
        spread = model.likelihood.sigma() if isinstance(model.likelihood, Gaussian) else None
        return {
            "likelihood": model.architecture.likelihood,
            "comparable": model.likelihood.comparable,
            "tokens": model.architecture.tokens,
            "sigma": None if spread is None else spread.tolist(),
            "mean_image_mse": fidelity.mean_image_mse(self.train, self.test),
            "features": {
                "task": classifier.task,
                "digest": classifier.digest,
                "accuracy": classifier.accuracy(self.test, self.labels["test"]),
            },
        }

    def _measure_reconstructions(self) -> Metrics:
        pixels = fidelity.fidelity(self.test, self.predicted, **self.resampling)
        metrics = merge(self.measure_bounds(), pixels)
        intervals, bits = metrics["intervals"], 1 / (self.test[0].size * np.log(2))
        for group in (metrics, intervals):
            group["bits_per_dim"] = group.pop("bits_per_cell")
        intervals["active_units"] = likelihood.active_units_interval(
            self.mean, bootstrap=UNITS_BOOTSTRAP, seed=self.params.seed
        )
        intervals["iwae_bits_per_dim"] = scaled_interval(intervals["neg_iwae_nats"], bits)
        features = self.classifier.features(self.predicted)
        return {
            **metrics,
            "iwae_bits_per_dim": metrics["neg_iwae_nats"] * bits,
            "reconstruction": self._compare(features),
        }

    def _measure_samples(self) -> Metrics:
        """Every sampler, compared with the reference of train against test (`floor`)."""
        # Distances fall as n grows: samples are as many as the reference's training images, and
        # those no more than the images they are compared with.
        sizes = [len(found.images) for found in self.samples.values()]
        n, known = min(len(self.test), len(self.train), *sizes), self.features
        floor = frechet.train_reference(known["train"], known["test"], n, self.params.seed)
        measure = partial(self._measure_sampler, floor=floor)
        bar = partial(progress, total=len(sizes), desc="samplers", unit="sampler")
        with ThreadPoolExecutor(self.params.threads) as pool:  # any number gives the same
            found = list(bar(pool.map(measure, self.samples.values())))
        samplers = dict(zip(self.samples, found, strict=True))
        best = min(samplers, key=lambda name: float(samplers[name]["validation_frechet"]))
        return {"floor": floor, "samplers": samplers, "best_sampler": best}

    def _measure_sampler(self, drawn: SampleSet, floor: Mapping[str, Any]) -> Metrics:
        features, key = self.classifier.features(drawn.images), "frechet_distance"
        found = self._compare(features[: floor["n"]])
        found["intervals"]["relative_frechet"] = ratio_interval(
            found[key], found["intervals"][key], floor[key], floor["intervals"][key]
        )
        return {
            "relative_frechet": found[key] / floor[key],
            # What the sampler is picked by: the test images have no say in it.
            "validation_frechet": frechet.distance(features, self.features["val"]),
            **found,
            **drawn.facts,
        }

    def _compare(self, features: Floats) -> Metrics:
        """Fréchet distance, precision and recall against the test images."""
        test, seed = self.features["test"], self.params.seed
        far = frechet.frechet(features, test, bootstrap=FRECHET_BOOTSTRAP, seed=seed)
        return merge(far, manifold(features, test))

    def summarise(self, metrics: Metrics) -> ImageSummary:
        """Select the scalars of metrics/<dataset>.json."""
        best = metrics["samplers"][metrics["best_sampler"]]
        return ImageSummary.model_validate({**metrics["memorisation"], **best, **metrics})

    def draw(self, metrics: Metrics) -> None:
        """Draw reconstructions, samples, walks through the code."""
        folder, best, mean = self.paths.plots, metrics["best_sampler"], self.mean
        truth, predicted = self.test[:PAIRED], self.predicted[:PAIRED]
        notes = [f"{value:.1f} dB" for value in fidelity.psnr(fidelity.mse(truth, predicted))]
        title = "Test images over their reconstructions"
        path = folder / "reconstructions.png"
        figures.image_pairs(path, truth, predicted, ("input", "output"), notes, title)
        tiles = {}
        for name in sorted(self.samples, key=lambda name: name != best):
            found, picked = metrics["samplers"][name], "; picked" if name == best else ""
            numbers = f"Fréchet {found['frechet_distance']:.3g}, recall {found['recall']:.2f}"
            tiles[f"{name}: {numbers}{picked}"] = self.samples[name].images[:SAMPLED]
        figures.image_samplers(folder / "samplers.png", tiles)
        steps = np.linspace(-3, 3, STEPS)
        directions, lengths = latents.principal_directions(mean, DIRECTIONS)
        walked = latents.traverse(self.model, mean[0], directions, lengths, steps)
        names = [f"direction {index + 1},\nin its SDs" for index in range(len(walked))]
        title, path = "Decoded along principal directions of the codes", folder / "traversals.png"
        figures.image_walks(path, walked, title, [f"{step:.3g}" for step in steps], names)
        ends = mean[:WALKS], mean[WALKS : 2 * WALKS]
        between, columns = latents.interpolate(self.model, *ends, STEPS), [""] * STEPS
        columns[0], columns[-1] = "from", "to"
        title, path = "Interpolations between two test images", folder / "interpolations.png"
        figures.image_walks(path, between, title, columns)

    def arrays(self, metrics: Metrics) -> Arrays:
        """Reconstructions, and samples with their nearest training images in features."""
        train, test = self.features["train"], self.features["test"]
        samples = self.samples[metrics["best_sampler"]].images[:SAMPLES_KEPT]
        rows, distances = duplicates.nearest(self.classifier.features(samples), train)
        _, train_distances = duplicates.nearest(test, train)
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
