"""What evaluators of grids and of images share: inference, bounds, verdict, diagnosis, files."""

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
from genlab.evaluation.metrics import likelihood
from genlab.vae.sampling import posterior as inference
from genlab.vae.sampling.posterior import Inference
from genlab.vae.training.checkpoint import decode_history, find_checkpoint, require_shape

Arrays = Mapping[str, npt.NDArray[Any]]
Items = npt.NDArray[np.uint8]
Metrics = dict[str, Any]


@dataclass(frozen=True)
class EvaluationPaths:
    """Where an evaluation reads and writes.

    data: of the stage split. judges: of the stage judges, which images need. trained: of the stage
    train. results: folder of metrics.json, verdict.json and diagnosis.json. summary: JSON file of
    at most ten scalars. plots: folder of the figures. arrays: folder of evidence.npz, for the
    failure gallery, and timing.json.
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

    test: (n, ...) items. inferred: what the model says of them. log_weights: (m, k), see
    `likelihood.iwae`.
    """

    test: Items
    inferred: Inference
    log_weights: Floats

    def __init__(self, params: Params, dataset: Dataset, paths: EvaluationPaths) -> None:
        self.params, self.dataset, self.paths = params, dataset, paths
        self.checkpoint = find_checkpoint(paths.trained.name, paths.trained)
        self.model, self.facts = load_model(self.checkpoint, params)
        self.training: dict[str, Any] = self.facts["training"]
        self.resampling = {"bootstrap": params.bootstrap, "seed": params.seed}

    def run(self) -> str:
        """Write every result and figure; returns a line about them."""
        started = time.perf_counter()
        kind, history, training = self.dataset.family, decode_history(self.facts), self.training
        curves = {name: [row[name] for row in history] for name in history[0]}
        metrics = self.measure()
        updates = training["samples_per_epoch"] // training["batch_size"]
        evidence = collect_evidence(kind, metrics, curves, updates)
        verdict, findings = check_criteria(kind, evidence), diagnose(kind, evidence)
        if limits := self.list_limits():
            verdict["limits"] = limits
        summary = self.summarise({**metrics, "passed": verdict["passed"]}).model_dump()
        results = self.paths.results
        write_json(results / "metrics.json", metrics)
        write_json(results / "verdict.json", verdict)
        write_json(results / "diagnosis.json", {"diagnoses": findings})
        write_json(self.paths.summary, summary)
        self.draw(metrics)
        unit = f"nats per {self.dataset.kind.removesuffix('s')}"
        figures.draw_training_curves(self.paths.plots / "training_curves.png", curves, unit)
        write_npz(self.paths.arrays / "evidence.npz", self.arrays(metrics), kind="evaluation")
        # Beside the arrays, since it depends on the machine.
        timing = {"seconds": time.perf_counter() - started, "machine": engine.describe_machine()}
        write_json(self.paths.arrays / "timing.json", timing)
        numbers = [f"{name} {value:.4g}" for name, value in summary.items()]
        found = ", ".join(detected_issues(findings)) or "no failure"
        return f"{verdict['summary']}; {', '.join(numbers)}; found {found}"

    def list_limits(self) -> list[str]:
        """Which figures a set of one's own of this size cannot carry, a sentence each."""
        return []

    @abstractmethod
    def measure(self) -> Metrics:
        """Run the model and compute metrics.json."""

    @abstractmethod
    def summarise(self, metrics: Metrics) -> Summary:
        """Select the scalars of metrics/<dataset>.json."""

    @abstractmethod
    def draw(self, metrics: Metrics) -> None:
        """Draw every figure but the training curves, as PNG files in `paths.plots`."""

    @abstractmethod
    def arrays(self, metrics: Metrics) -> Arrays:
        """What the failure gallery reads."""

    def infer(self, test: Items) -> None:
        """Bound, encode and reconstruct the test items.

        Raises a GenlabError where the checkpoint is for items of another shape, or where bounds are
        not finite.
        """
        model, settings, seed = self.model, self.params.evaluate, self.params.seed
        require_shape(model, test, self.paths.data)
        self.test = test
        found = self.inferred = inference.infer(model, test, seed)
        broken = int(np.count_nonzero(~np.isfinite(found.nats + found.kl)))
        if broken:
            path, lr = self.checkpoint, self.training["lr"]
            raise GenlabError(
                f"{path}: the bounds of {broken} of {len(test)} test items are not finite, so the"
                f" training diverged; train again with a lower lr than {lr:g}, and grad_clip=1.0",
                path=path,
                key="lr",
            )
        self.log_weights = inference.log_importance_weights(
            model, test[: settings.iwae_items], settings.iwae_samples, seed
        )

    def measure_bounds(self) -> Metrics:
        """ELBO and IWAE bound with `intervals`, active latents."""
        found = self.inferred
        return merge(
            likelihood.bound_summary(found.nats, found.kl, **self.resampling),
            likelihood.iwae_summary(self.log_weights, **self.resampling),
            likelihood.token_summary(found.token_kl),
            {
                "active_units": likelihood.active_units(found.mean),
                "latent_dim": found.mean.shape[1],
                "beta_max": self.training["beta_max"],
            },
        )


def merge(*parts: Metrics) -> Metrics:
    """Several groups of metrics as one, with the `intervals` of all."""
    intervals = {name: found for part in parts for name, found in part.get("intervals", {}).items()}
    return {**{key: value for part in parts for key, value in part.items()}, "intervals": intervals}
