"""The evaluation of image models."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

import numpy as np

from genlab.core import engine
from genlab.core.progress import progress
from genlab.core.stats import Floats, ratio_interval, scale_interval
from genlab.datasets.images import Images, Labels, load_images, load_labels
from genlab.datasets.splits import describe_limits
from genlab.distributions.likelihoods import Gaussian
from genlab.evaluation import figures
from genlab.evaluation.evaluators.base import Arrays, Evaluator, Metrics, merge
from genlab.evaluation.evaluators.feature_judge import FeatureJudge
from genlab.evaluation.evaluators.sampling import (
    SampleSet,
    best_sampler,
    start_sampling,
)
from genlab.evaluation.evaluators.summary import ImageSummary
from genlab.evaluation.metrics import duplicates, fidelity, frechet, reference_models
from genlab.evaluation.metrics.judges import TrainingSet, load_judges
from genlab.evaluation.metrics.kid import kid
from genlab.evaluation.metrics.manifold import manifold, squared_radii
from genlab.evaluation.metrics.two_sample import two_sample_test
from genlab.vae.sampling import latents
from genlab.vae.sampling import posterior as inference
from genlab.vae.training.checkpoint import require_shape

PAIRED, SAMPLED = 16, 24  # pictures in a figure
STEPS, WALKS = 9, 6  # of interpolations
FRECHET_BOOTSTRAP = 100
QUERIES = 2000  # images whose nearest training images are searched; samples for the gallery


class ImageEvaluator(Evaluator):
    """Evaluate a model of images; temperature and sampler are chosen on the validation split.

    judges: by the classifiers of stage judges; the first one is the headline, and its features are
    those of precision, recall and KID.
    """

    train: Images
    labels: Mapping[str, Labels]
    samples: Mapping[str, SampleSet]
    judges: list[FeatureJudge]

    def list_limits(self) -> list[str]:
        """Which figures a set of one's own of this size cannot carry, a sentence each."""
        if not self.dataset.source:
            return []
        counts = {name: len(load_labels(self.paths.data, name)) for name in ("val", "test")}
        return describe_limits(counts, "images")

    def measure(self) -> Metrics:
        """Reconstruct the test split, sample, and compare both with real images."""
        params, data = self.params, self.paths.data
        splits = {name: load_images(data, name) for name in ("train", "val", "test")}
        self.train, test = splits["train"], splits["test"]
        require_shape(self.model, test, data)
        self.labels = {name: load_labels(data, name) for name in ("train", "test")}
        shown = TrainingSet.of_dataset(self.dataset.name, self.train, self.labels["train"])
        classifiers = load_judges(
            shown, self.paths.judges, examples=params.evaluate.extractor_examples
        )
        with start_sampling(params, data, self.checkpoint, self.model) as draw_samples:
            # Before the draws: what needs none of them is done while samplers are fitted.
            self.infer(np.asarray(test))
            self.judges = [
                FeatureJudge(classifier, splits, params.evaluate.image_samples)
                for classifier in progress(classifiers, desc="judges", unit="classifier")
            ]
            metrics = {**self._describe_model(), **self._measure_reconstructions()}
            _, held_out = duplicates.find_nearest(test[:QUERIES], self.train)
            self.samples = draw_samples(self.judges[0].validation_frechet)
        metrics |= self._measure_samples()
        samples = self.samples[metrics["best_sampler"]].images
        _, near = duplicates.find_nearest(samples[:QUERIES], self.train)
        metrics["memorisation"] = duplicates.measure_memorisation(near, held_out)
        return metrics

    def _describe_model(self) -> Metrics:
        model, some = self.model, slice(0, QUERIES)
        test, mean = self.test[some], self.inferred.mean[some]
        architecture, comparable = model.architecture, model.likelihood.comparable
        spread = model.likelihood.sigma() if isinstance(model.likelihood, Gaussian) else None
        return {
            "likelihood": architecture.likelihood,
            "comparable": comparable,
            "causal_channels": architecture.causal_channels,
            "prior": architecture.prior,
            "prior_width": architecture.prior_width,
            "tokens": architecture.tokens,
            "sigma": None if spread is None else spread.tolist(),
            "noise_mismatch": inference.noise_mismatch(model, test, mean, self.params.seed),
            "error_correlation": fidelity.error_correlation(test, self.inferred.predicted[some]),
            "context_model_bits": reference_models.context_model_bits(self.train, self.test),
            "pca_ssim": reference_models.pca_ssim(self.train, self.test),
            "judges": {str(seed): self._describe_judge(j) for seed, j in enumerate(self.judges)},
        }

    def _describe_judge(self, judge: FeatureJudge) -> Metrics:
        classifier = judge.classifier
        return {
            "task": classifier.task,
            "digest": classifier.digest,
            "accuracy": classifier.accuracy(self.test, self.labels["test"]),
            "floor": judge.reference["frechet_distance"],
        }

    def _measure_reconstructions(self) -> Metrics:
        pixels = fidelity.fidelity(self.test, self.inferred.predicted, **self.resampling)
        metrics = merge(self.measure_bounds(), pixels)
        intervals, bits = metrics["intervals"], 1 / (self.test[0].size * np.log(2))
        for name, nats in (
            ("bits_per_dim", "neg_elbo_nats"),
            ("iwae_bits_per_dim", "neg_iwae_nats"),
        ):
            metrics[name] = metrics[nats] * bits
            intervals[name] = scale_interval(intervals[nats], bits)
        features = self.judges[0].classifier.features(self.inferred.predicted)
        return {**metrics, "reconstruction": self._compare(features)}

    def _measure_samples(self) -> Metrics:
        """Every sampler, compared with the reference of train against test (`floor`)."""
        best = best_sampler(self.samples)
        bar = partial(progress, total=len(self.samples), desc="samplers", unit="sampler")
        # Any number of threads gives the same.
        with engine.torch_threads(1), ThreadPoolExecutor(self.params.threads) as pool:
            found = list(bar(pool.map(self._measure_sampler, self.samples.values())))
        samplers = dict(zip(self.samples, found, strict=True))
        tested = two_sample_test(self.samples[best].images, self.test, seed=self.params.seed)
        samplers[best] = merge(samplers[best], tested)
        return {
            "floor": self.judges[0].reference,
            "samplers": samplers,
            "best_sampler": best,
        }

    def _measure_sampler(self, drawn: SampleSet) -> Metrics:
        first, key = self.judges[0], "frechet_distance"
        features, floor = first.classifier.features(drawn.images[: first.n]), first.reference
        found = self._compare(features)
        others = {str(seed): j.distance(drawn.images) for seed, j in enumerate(self.judges) if seed}
        found["intervals"]["relative_frechet"] = ratio_interval(
            found[key], found["intervals"][key], floor[key], floor["intervals"][key]
        )
        found["relative_frechet"] = found[key] / floor[key]
        own = {name: found[name] for name in (key, "relative_frechet")}
        return {
            "temperature": drawn.temperature,
            "validation_frechet": drawn.validation_frechet,
            "judges": {"0": own, **others},
            **found,
            **drawn.facts,
        }

    def _compare(self, features: Floats) -> Metrics:
        """Fréchet distance, KID, precision and recall against the test images."""
        test, seed = self.judges[0].features["test"], self.params.seed
        resampled, radii = self._reference
        options = {"bootstrap": FRECHET_BOOTSTRAP, "seed": seed}
        far = frechet.frechet(features, test, resampled=resampled, **options)
        near = kid(features, test, seed=seed)
        return merge(near, far, manifold(features, test, real_radii=radii))

    @cached_property
    def _reference(self) -> tuple[list[frechet.FeatureGaussian], Floats]:
        """Of the test images what all sets of samples are compared with: resamples and radii."""
        test, seed = self.judges[0].features["test"], self.params.seed
        resampled = frechet.resample_reference(test, bootstrap=FRECHET_BOOTSTRAP, seed=seed)
        return resampled, squared_radii(test)

    def summarise(self, metrics: Metrics) -> ImageSummary:
        """Select the scalars of metrics/<dataset>.json."""
        best = metrics["samplers"][metrics["best_sampler"]]
        return ImageSummary.model_validate({**metrics["memorisation"], **best, **metrics})

    def draw(self, metrics: Metrics) -> None:
        """Draw reconstructions, samples and interpolations."""
        folder, best, mean = self.paths.plots, metrics["best_sampler"], self.inferred.mean
        truth, predicted = self.test[:PAIRED], self.inferred.predicted[:PAIRED]
        notes = [f"{value:.1f} dB" for value in fidelity.psnr(fidelity.mse(truth, predicted))]
        title = "Test images over their reconstructions"
        path = folder / "reconstructions.png"
        figures.draw_image_pairs(path, truth, predicted, notes, title)
        tiles = {}
        for name in sorted(self.samples, key=lambda name: name != best):
            found, picked = metrics["samplers"][name], "; picked" if name == best else ""
            numbers = f"Fréchet {found['frechet_distance']:.3g}, recall {found['recall']:.2f}"
            tiles[f"{label(name, found)}: {numbers}{picked}"] = self.samples[name].images[:SAMPLED]
        figures.draw_image_samplers(folder / "samplers.png", tiles)
        ends = mean[:WALKS], mean[WALKS : 2 * WALKS]
        between, columns = latents.interpolate(self.model, *ends, STEPS), [""] * STEPS
        columns[0], columns[-1] = "from", "to"
        title, path = "Interpolations between two test images", folder / "interpolations.png"
        figures.draw_image_walks(path, between, title, columns)

    def arrays(self, metrics: Metrics) -> Arrays:
        """Reconstructions, and samples with their nearest training images in features."""
        first, name = self.judges[0], metrics["best_sampler"]
        train, test = first.features["train"], first.features["test"]
        samples = self.samples[name].images[:QUERIES]
        rows, distances = duplicates.find_nearest(first.classifier.features(samples), train)
        _, train_distances = duplicates.find_nearest(test, train)
        return {
            "predicted": self.inferred.predicted,
            "nats": self.inferred.nats,
            "train_distances": train_distances,
            "samples": samples,
            "sample_errors": distances,
            "sample_labels": self.labels["train"][rows],
            "sample_nearest": np.stack([self.train[index] for index in rows]),
        }


def label(name: str, found: Mapping[str, Any]) -> str:
    """The name of a sampler, with the temperature of its pixels where that is not 1."""
    temperature = found["temperature"]
    return name if temperature in (None, 1) else f"{name} at pixel temperature {temperature:g}"
