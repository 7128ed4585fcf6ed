"""Base class of evaluators: inference, bounds, verdict, diagnosis and the files they write."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core import engine
from genlab.core.errors import GenlabError
from genlab.core.io import write_json, write_npz
from genlab.core.params import Params
from genlab.core.params.catalogue import Dataset
from genlab.core.stats import Floats
from genlab.evaluation import figures
from genlab.evaluation.diagnostics.criteria import check_criteria
from genlab.evaluation.diagnostics.evidence import collect_evidence
from genlab.evaluation.diagnostics.rules import detected_issues, diagnose
from genlab.evaluation.evaluators.models import load_model
from genlab.evaluation.evaluators.summary import Summary
from genlab.evaluation.figures.curves import mark_epochs
from genlab.evaluation.metrics import likelihood
from genlab.vae.models.vae import Items
from genlab.vae.sampling import posterior as inference
from genlab.vae.sampling.importance import log_importance_weights
from genlab.vae.sampling.posterior import Inference
from genlab.vae.training.checkpoint import decode_history, find_checkpoint, require_shape

Arrays = Mapping[str, npt.NDArray[Any]]
Metrics = dict[str, Any]


@dataclass(frozen=True)
class EvaluationPaths:
    """Paths that an evaluation reads and writes.

    data: output of stage split. judges: output of stage judges, which images need. trained: output
    of stage train. results: folder of metrics.json, verdict.json and diagnosis.json. summary: JSON
    file of at most ten scalars. plots: folder of the figures. arrays: folder of evidence.npz, which
    the failure gallery reads, and of timing.json.
    """

    data: Path
    judges: Path
    trained: Path
    results: Path
    summary: Path
    plots: Path
    arrays: Path


class Evaluator(ABC):
    """Evaluate a trained model on the test split of its dataset.

    test: items, (n, ...). inferred: bounds, codes and reconstructions of the test items.
    log_weights: (m, k), see `likelihood.iwae`.
    """

    test: Items
    inferred: Inference
    log_weights: Floats

    def __init__(self, params: Params, dataset: Dataset, paths: EvaluationPaths) -> None:
        self.params = params
        self.dataset = dataset
        self.paths = paths
        self.checkpoint = find_checkpoint(paths.trained.name, paths.trained)
        self.model, self.facts = load_model(self.checkpoint, params)
        self.training: dict[str, Any] = self.facts["training"]
        self.resampling = {"bootstrap": params.bootstrap, "seed": params.seed}

    def run(self) -> str:
        """Write every result and figure; return a one-line summary."""
        started = time.perf_counter()
        family = self.dataset.family
        history = decode_history(self.facts)
        curves = {name: [row[name] for row in history] for name in history[0]}
        metrics = self.measure()
        updates = self.training["samples_per_epoch"] // self.training["batch_size"]
        evidence = collect_evidence(family, metrics, curves, updates)
        verdict = check_criteria(family, evidence)
        findings = diagnose(family, evidence)
        if limits := self.list_limits():
            verdict["limits"] = limits
        summary = self.summarise({**metrics, "passed": verdict["passed"]}).model_dump()
        results = self.paths.results
        write_json(results / "metrics.json", metrics)
        write_json(results / "verdict.json", verdict)
        write_json(results / "diagnosis.json", {"diagnoses": findings})
        write_json(self.paths.summary, summary)
        self.draw_figures(metrics)
        unit = f"nats per {self.dataset.kind.removesuffix('s')}"
        marks = mark_epochs(self.facts["phases"], self.facts["best_epoch"], len(history))
        path = self.paths.plots / "training_curves.png"
        figures.draw_training_curves(path, curves, unit, marks)
        arrays = self.collect_arrays(metrics)
        write_npz(self.paths.arrays / "evidence.npz", arrays, kind="evaluation")
        # Not among the results, since it depends on the machine.
        timing = {"seconds": time.perf_counter() - started, "machine": engine.describe_machine()}
        write_json(self.paths.arrays / "timing.json", timing)
        numbers = [f"{name} {value:.4g}" for name, value in summary.items()]
        issues = ", ".join(detected_issues(findings)) or "no failure"
        return f"{verdict['summary']}; {', '.join(numbers)}; detected: {issues}"

    def list_limits(self) -> list[str]:
        """Warnings about metrics that the user's own data are too few for, a sentence each."""
        return []

    @abstractmethod
    def measure(self) -> Metrics:
        """Run the model and compute metrics.json."""

    @abstractmethod
    def summarise(self, metrics: Metrics) -> Summary:
        """Select the scalars of metrics/<dataset>.json."""

    @abstractmethod
    def draw_figures(self, metrics: Metrics) -> None:
        """Draw every figure but the training curves, as PNG files in `paths.plots`."""

    @abstractmethod
    def collect_arrays(self, metrics: Metrics) -> Arrays:
        """Collect the arrays that the failure gallery reads, by name."""

    def infer(self, test: Items) -> None:
        """Compute bounds, codes and reconstructions of the test items.

        Raises GenlabError where the checkpoint is for items of another shape, or where bounds are
        not finite.
        """
        settings = self.params.evaluate
        seed = self.params.seed
        require_shape(self.model, test, self.paths.data)
        self.test = test
        self.inferred = inference.infer(self.model, test, seed)
        finite = np.isfinite(self.inferred.nats + self.inferred.kl)
        if not finite.all():
            path = self.checkpoint
            lr = self.training["lr"]
            diverged = int(np.count_nonzero(~finite))
            raise GenlabError(
                f"{path}: the bounds of {diverged} of {len(test)} test items are not finite, so the"
                f" training diverged; train again with a lower lr than {lr:g}, and grad_clip=1.0",
                path=path,
                key="lr",
            )
        self.log_weights = log_importance_weights(
            self.model, test[: settings.iwae_items], settings.iwae_samples, seed
        )

    def measure_bounds(self) -> Metrics:
        """Compute the ELBO and IWAE bounds with `intervals`, and the number of active latents."""
        inferred = self.inferred
        return merge(
            likelihood.bound_summary(inferred.nats, inferred.kl, **self.resampling),
            likelihood.iwae_summary(self.log_weights, **self.resampling),
            likelihood.token_summary(inferred.token_kl),
            {
                "active_units": likelihood.active_units(inferred.mean),
                "latent_dim": inferred.mean.shape[1],
                "beta_max": self.training["beta_max"],
            },
        )


def merge(*groups: Metrics) -> Metrics:
    """Merge groups of metrics into one, with the `intervals` of all."""
    metrics: Metrics = {}
    intervals: Metrics = {}
    for group in groups:
        metrics.update(group)
        intervals.update(group.get("intervals", {}))
    metrics["intervals"] = intervals
    return metrics
