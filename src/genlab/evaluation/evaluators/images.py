"""Evaluation of image models."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

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
from genlab.evaluation.evaluators.image_samples import (
    SampleSet,
    choose_sampler,
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

FIGURE_PAIRS = 16  # of input and reconstruction
FIGURE_SAMPLES = 24  # per sampler
INTERPOLATIONS = 6
INTERPOLATION_STEPS = 9
FRECHET_BOOTSTRAP = 100
QUERIES = 2000  # images whose nearest training images are searched; samples for the gallery


class ImageEvaluator(Evaluator):
    """Evaluate a model of images; temperature and sampler are chosen on the validation split.

    judges: one per classifier of stage judges. The first one gives the headline, and the features
    of precision, recall and KID.
    """

    train: Images
    labels: Mapping[str, Labels]
    samples: Mapping[str, SampleSet]
    judges: list[FeatureJudge]

    def list_limits(self) -> list[str]:
        """Warnings about metrics that the user's own data are too few for, a sentence each."""
        if not self.dataset.source:
            return []
        counts = {name: len(load_labels(self.paths.data, name)) for name in ("val", "test")}
        return describe_limits(counts, "images")

    def measure(self) -> Metrics:
        """Reconstruct the test split, sample, and compare both with real images."""
        params = self.params
        data = self.paths.data
        splits = {name: load_images(data, name) for name in ("train", "val", "test")}
        self.train = splits["train"]
        test = splits["test"]
        require_shape(self.model, test, data)
        self.labels = {name: load_labels(data, name) for name in ("train", "test")}
        training_set = TrainingSet.of_dataset(self.dataset.name, self.train, self.labels["train"])
        classifiers = load_judges(
            training_set, self.paths.judges, examples=params.evaluate.extractor_examples
        )
        with start_sampling(params, data, self.checkpoint, self.model) as draw_samples:
            # While samplers are fitted in other processes, compute what needs no samples.
            self.infer(np.asarray(test))
            self.judges = [
                FeatureJudge(classifier, splits, params.evaluate.image_samples)
                for classifier in progress(classifiers, desc="judges", unit="classifier")
            ]
            metrics = {**self._describe_model(), **self._measure_reconstructions()}
            _, test_distances = duplicates.find_nearest(test[:QUERIES], self.train)
            self.samples = draw_samples(self.judges[0].validation_frechet)
        metrics |= self._measure_samples()
        samples = self.samples[metrics["best_sampler"]].images
        _, distances = duplicates.find_nearest(samples[:QUERIES], self.train)
        metrics["memorisation"] = duplicates.measure_memorisation(distances, test_distances)
        return metrics

    def _describe_model(self) -> Metrics:
        """Settings of the model, and metrics of its fit that need no samples."""
        model = self.model
        architecture = model.architecture
        test = self.test[:QUERIES]
        mean = self.inferred.mean[:QUERIES]
        predicted = inference.predict_pixels(model, test, mean)
        sigma = model.likelihood.sigma() if isinstance(model.likelihood, Gaussian) else None
        return {
            "likelihood": architecture.likelihood,
            "comparable": model.likelihood.comparable,
            "causal_channels": architecture.causal_channels,
            "prior": architecture.prior,
            "prior_width": architecture.prior_width,
            "tokens": architecture.tokens,
            "sigma": None if sigma is None else sigma.tolist(),
            "noise_mismatch": inference.noise_mismatch(model, test, mean, self.params.seed),
            "residual_correlation": fidelity.error_correlation(test, predicted),
            "context_model_bits": reference_models.context_model_bits(self.train, self.test),
            "pca_ssim": reference_models.pca_ssim(self.train, self.test),
            "judges": {
                str(seed): self._describe_judge(judge) for seed, judge in enumerate(self.judges)
            },
        }

    def _describe_judge(self, judge: FeatureJudge) -> Metrics:
        """Task, weights and test accuracy of a classifier, and its reference distance."""
        classifier = judge.classifier
        return {
            "task": classifier.task,
            "digest": classifier.digest,
            "accuracy": classifier.accuracy(self.test, self.labels["test"]),
            "floor": judge.reference["frechet_distance"],
        }

    def _measure_reconstructions(self) -> Metrics:
        """Bounds in nats and in bits per dimension, and the fidelity of reconstructions."""
        pixels = fidelity.fidelity(self.test, self.inferred.predicted, **self.resampling)
        metrics = merge(self.measure_bounds(), pixels)
        intervals = metrics["intervals"]
        bits = 1 / (self.test[0].size * np.log(2))
        for name, nats in (
            ("bits_per_dim", "neg_elbo_nats"),
            ("iwae_bits_per_dim", "neg_iwae_nats"),
        ):
            metrics[name] = metrics[nats] * bits
            intervals[name] = scale_interval(intervals[nats], bits)
        features = self.judges[0].classifier.features(self.inferred.predicted)
        return {**metrics, "reconstruction": self._compare(features)}

    def _measure_samples(self) -> Metrics:
        """Compare samples with test images, relative to the distance of training images (`floor`).

        The number of threads does not change the result.
        """
        best = choose_sampler(self.samples)
        with engine.torch_threads(1), ThreadPoolExecutor(self.params.threads) as pool:
            results = pool.map(self._measure_sampler, self.samples.values())
            total = len(self.samples)
            rows = list(progress(results, total=total, desc="samplers", unit="sampler"))
        samplers = dict(zip(self.samples, rows, strict=True))
        discriminator = two_sample_test(self.samples[best].images, self.test, seed=self.params.seed)
        samplers[best] = merge(samplers[best], discriminator)
        return {
            "floor": self.judges[0].reference,
            "samplers": samplers,
            "best_sampler": best,
        }

    def _measure_sampler(self, samples: SampleSet) -> Metrics:
        """Compare the samples of one sampler with the test images by every judge."""
        key = "frechet_distance"
        first = self.judges[0]
        floor = first.reference
        metrics = self._compare(first.classifier.features(samples.images[: first.n]))
        metrics["intervals"]["relative_frechet"] = ratio_interval(
            metrics[key], metrics["intervals"][key], floor[key], floor["intervals"][key]
        )
        metrics["relative_frechet"] = metrics[key] / floor[key]
        by_judge = {"0": {name: metrics[name] for name in (key, "relative_frechet")}}
        for seed, judge in enumerate(self.judges[1:], start=1):
            by_judge[str(seed)] = judge.distance(samples.images)
        return {
            "temperature": samples.temperature,
            "validation_frechet": samples.validation_frechet,
            "judges": by_judge,
            **metrics,
            **samples.facts,
        }

    def _compare(self, features: Floats) -> Metrics:
        """Fréchet distance, KID, precision and recall against the test images."""
        test = self.judges[0].features["test"]
        seed = self.params.seed
        resampled, radii = self._reference
        frechet_metrics = frechet.frechet(
            features, test, bootstrap=FRECHET_BOOTSTRAP, seed=seed, resampled=resampled
        )
        kid_metrics = kid(features, test, seed=seed)
        return merge(kid_metrics, frechet_metrics, manifold(features, test, real_radii=radii))

    @cached_property
    def _reference(self) -> tuple[list[frechet.FeatureGaussian], Floats]:
        """Resamples and radii of the test images, which all sets of samples are compared with."""
        test = self.judges[0].features["test"]
        resampled = frechet.resample_reference(
            test, bootstrap=FRECHET_BOOTSTRAP, seed=self.params.seed
        )
        return resampled, squared_radii(test)

    def summarise(self, metrics: Metrics) -> ImageSummary:
        """Select the scalars of metrics/<dataset>.json."""
        best = metrics["samplers"][metrics["best_sampler"]]
        return ImageSummary.model_validate({**metrics["memorisation"], **best, **metrics})

    def draw_figures(self, metrics: Metrics) -> None:
        """Draw reconstructions, samples and interpolations."""
        self._draw_reconstructions()
        self._draw_samples(metrics)
        self._draw_interpolations()

    def _draw_reconstructions(self) -> None:
        truth = self.test[:FIGURE_PAIRS]
        predicted = self.inferred.predicted[:FIGURE_PAIRS]
        notes = [f"{value:.1f} dB" for value in fidelity.psnr(fidelity.mse(truth, predicted))]
        path = self.paths.plots / "reconstructions.png"
        title = "Test images over their reconstructions"
        figures.draw_image_pairs(path, truth, predicted, notes, title)

    def _draw_samples(self, metrics: Metrics) -> None:
        """Draw samples of every sampler, the best one first."""
        best = metrics["best_sampler"]
        samples = {}
        for name in sorted(self.samples, key=lambda name: name != best):
            row = metrics["samplers"][name]
            title = f"{label_sampler(name, row['temperature'])}:"
            title += f" Fréchet {row['frechet_distance']:.3g}, recall {row['recall']:.2f}"
            if name == best:
                title += "; picked"
            samples[title] = self.samples[name].images[:FIGURE_SAMPLES]
        figures.draw_image_samplers(self.paths.plots / "samplers.png", samples)

    def _draw_interpolations(self) -> None:
        mean = self.inferred.mean
        starts = mean[:INTERPOLATIONS]
        ends = mean[INTERPOLATIONS : 2 * INTERPOLATIONS]
        images = latents.interpolate(self.model, starts, ends, INTERPOLATION_STEPS)
        columns = ["from", *[""] * (INTERPOLATION_STEPS - 2), "to"]
        path = self.paths.plots / "interpolations.png"
        figures.draw_image_walks(path, images, "Interpolations between two test images", columns)

    def collect_arrays(self, metrics: Metrics) -> Arrays:
        """Collect reconstructions, and samples with their nearest training images in features."""
        judge = self.judges[0]
        train = judge.features["train"]
        samples = self.samples[metrics["best_sampler"]].images[:QUERIES]
        rows, distances = duplicates.find_nearest(judge.classifier.features(samples), train)
        _, train_distances = duplicates.find_nearest(judge.features["test"], train)
        return {
            "predicted": self.inferred.predicted,
            "nats": self.inferred.nats,
            "train_distances": train_distances,
            "samples": samples,
            "sample_errors": distances,
            "sample_labels": self.labels["train"][rows],
            "sample_nearest": np.stack([self.train[index] for index in rows]),
        }


def label_sampler(name: str, temperature: float | None) -> str:
    """Name a sampler, with the temperature of its pixels where that is not 1."""
    return name if temperature in (None, 1) else f"{name} at pixel temperature {temperature:g}"
