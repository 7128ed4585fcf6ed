"""Measuring a model of images: data and checkpoint in, evidence, metrics and pictures out."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from platformdirs import user_cache_path

from genlab.core import engine
from genlab.core.io import sha256
from genlab.core.params import Params
from genlab.datasets.image_files import MANIFEST_FILE, load_images, load_labels, split_command
from genlab.datasets.registry import Dataset
from genlab.distributions.likelihoods import Gaussian
from genlab.evaluation import image_evaluation
from genlab.evaluation.diagnostics import image_criteria as image_verdict
from genlab.evaluation.diagnostics import images as image_health
from genlab.evaluation.draws import Draws, begun
from genlab.evaluation.image_evaluation import ImageEvidence, ReferenceFeatures, features_of
from genlab.evaluation.metrics import duplicates as memorisation
from genlab.evaluation.metrics import features, inception
from genlab.evaluation.metrics.features import Classifier
from genlab.evaluation.run import EvaluationPaths, EvaluationResult, read_trained
from genlab.vae.models.vae import VAE
from genlab.vae.sampling import latents
from genlab.vae.sampling import posterior as inference

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
LABELLED = ("fashion_mnist", "mnist", "cifar10", "celeba")
LEAST_ACCURACY = {"fashion_mnist": 0.9, "mnist": 0.97}
DIRECTIONS, STEPS = 6, 9
WALKS = 6
SAMPLES_KEPT = 2000  # of the best sampler, for the gallery


def evaluate_images(params: Params, dataset: Dataset, folders: EvaluationPaths) -> str:
    """Measure the model of an image dataset; writes what `EvaluationResult` holds and returns a line."""
    trained = read_trained(folders, params)
    model = trained.model
    train, val, test = (load_images(folders.data, name) for name in ("train", "val", "test"))
    trained.require_shape(test)
    labels = {name: load_labels(folders.data, name) for name in ("train", "test")}
    known = labels["train"] if dataset.name in LABELLED else None
    shown = params.evaluate.extractor_examples
    with begun(params, folders, model) as draws:
        bounds = inference.elbo_terms(model, test, params.seed)
        trained.require_finite(bounds[0] + bounds[1])
        classifier = extractor(dataset.name, folders.data, train, known, params.seed, shown)
        # Before the draws: what needs none of them is done while they are drawn.
        seen = ReferenceFeatures.of(classifier, train, val, test, labels["test"], params.seed)
        evidence = collect(
            model, params, train, val, test, bounds, labels["test"], dataset.labels, draws
        )
    metrics = image_evaluation.measure(
        evidence,
        seen,
        beta_max=trained.facts["training"]["beta_max"],
        bootstrap=params.evaluate.bootstrap,
        seed=params.seed,
        threads=params.threads,
    )
    metrics["inception"] = _in_inception(evidence, seen, metrics["best_sampler"], params.seed)
    series = trained.series()
    accuracy = LEAST_ACCURACY.get(dataset.name)
    verdict = image_verdict.verdict(metrics, series=series, least_accuracy=accuracy)
    found = image_health.diagnose(metrics, series, evidence_files=folders.evidence_files())
    judged = EvaluationResult(metrics, verdict, {"diagnoses": found})
    judged.write(folders.metrics)
    image_evaluation.draw(folders.plots, evidence, metrics, trained.history)
    folders.keep(_arrays(evidence, seen, metrics["best_sampler"], labels["train"]))
    best = metrics["samplers"][metrics["best_sampler"]]
    return (
        f"{metrics['bits_per_dim']:.3f} bits/dim, SSIM {metrics['ssim']:.3f}, Fréchet distance"
        f" {best['frechet_distance']:.3g} ({metrics['best_sampler']}),"
        f" {best['relative_frechet']:.1f} times its floor, {judged.words()}"
    )


def collect(
    model: VAE,
    params: Params,
    train: Images,
    val: Images,
    test: Images,
    bounds: tuple[Floats, Floats],
    labels: Labels,
    names: tuple[str, ...],
    draws: Draws,
) -> ImageEvidence:
    """Everything that the model is asked for; bounds: -log p(x|z) and KL of the test images."""
    settings, seed = params.evaluate, params.seed
    mean, log_var = inference.encode(model, test)
    rows, lengths = latents.principal_directions(mean, DIRECTIONS)
    steps = np.linspace(-3, 3, STEPS)
    chosen = test[: settings.iwae_items]
    likelihood = model.likelihood
    sigma = likelihood.sigma().tolist() if isinstance(likelihood, Gaussian) else None
    return ImageEvidence(
        truth=np.asarray(test),
        predicted=inference.reconstruct(model, test),
        reconstruction=bounds[0],
        kl=bounds[1],
        log_weights=inference.log_importance_weights(model, chosen, settings.iwae_samples, seed),
        mean=mean,
        log_var=log_var,
        labels=labels,
        names=names,
        train=train,
        val=np.asarray(val),
        samples=draws.all(model, train),
        traversals=latents.traverse(model, mean[0], rows, lengths, steps),
        traversal_steps=steps.tolist(),
        interpolations=latents.interpolate(model, mean[:WALKS], mean[WALKS : 2 * WALKS], STEPS),
        tokens=model.architecture.tokens,
        likelihood=model.architecture.likelihood,
        comparable=likelihood.comparable,
        sigma=sigma,
    )


def _in_inception(
    evidence: ImageEvidence, seen: ReferenceFeatures, best: str, seed: int
) -> dict[str, Any] | None:
    """The distances that others print too, None where the weights for them are missing."""
    extract = inception.inception_extractor()
    if extract is None:
        return None
    shown = {"reconstruction": evidence.predicted, "samples": evidence.samples[best].images}
    return inception.distances(extract, evidence.train[seen.rows], evidence.truth, shown, seed)


def extractor(
    dataset: str, data: Path, train: Images, labels: Labels | None, seed: int, shown: int
) -> Classifier:
    """The classifier whose features images are compared by, trained on the train split alone.

    It depends on data, seed and its own code, not on the model: so it is kept in the user's cache,
    and every experiment on the same data looks with the same eyes.
    """
    told = [
        sha256(data / MANIFEST_FILE).encode(),
        Path(features.__file__).read_bytes(),
        f"{torch.__version__} {seed} {shown} {labels is None}".encode(),
    ]
    key = hashlib.sha256(b"\0".join(told)).hexdigest()[:24]
    path = user_cache_path("genlab") / "features" / f"{dataset}-{key}.safetensors"
    if not path.is_file():
        with engine.preserved_randomness():
            features.train_classifier(train, labels, seed=seed, shown=shown).save(path)
    return features.load_classifier(path, producer_command=f"rm {path}; {split_command(data)}")


def _arrays(
    evidence: ImageEvidence, seen: ReferenceFeatures, best: str, labels: Labels
) -> dict[str, npt.NDArray[Any]]:
    """What the gallery of failures asks for; nearest training images are those in features."""
    samples = evidence.samples[best].images[:SAMPLES_KEPT]
    near_test = memorisation.nearest(seen.test, seen.train)
    near_samples = memorisation.nearest(features_of(seen.classifier, samples), seen.train)
    return {
        "predicted": evidence.predicted,
        "nats": evidence.reconstruction,
        "train_distances": near_test.distances,
        "samples": samples,
        "sample_errors": near_samples.distances,
        "sample_labels": labels[near_samples.indices],
        "sample_nearest": np.stack([evidence.train[index] for index in near_samples.indices]),
    }
