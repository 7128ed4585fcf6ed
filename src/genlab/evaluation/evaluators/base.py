"""What the evaluation of grids and of images share: files, checkpoint, verdict, diagnosis."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core import engine
from genlab.core.errors import GenlabError
from genlab.core.io import write_json, write_npz
from genlab.core.params import Params
from genlab.datasets.registry import Dataset
from genlab.evaluation.diagnostics.rules import detected_issues, diagnose
from genlab.evaluation.evaluators.summary import Summary
from genlab.vae.models.vae import VAE
from genlab.vae.training.checkpoint import (
    decode_history,
    find_checkpoint,
    load_checkpoint,
    require_shape,
)

TRAIN = "dvc repro train"
SERIES = ("loss", "reconstruction_loss", "kl_divergence", "beta_kl", "skipped_updates", "updates")

Arrays = Mapping[str, npt.NDArray[Any]]
Floats = npt.NDArray[np.float64]
Metrics = dict[str, Any]
Series = dict[str, list[float]]


@dataclass(frozen=True)
class EvaluationPaths:
    """Where an evaluation reads and writes.

    data: of the stage split. trained: of the stage train. results: folder of metrics.json,
    verdict.json and diagnosis.json. summary: JSON file of at most ten scalars. plots: folder of the
    figures. arrays: folder of evidence.npz, for the failure gallery, and timing.json.
    """

    data: Path
    trained: Path
    results: Path
    summary: Path
    plots: Path
    arrays: Path


class Evaluator(ABC):
    """Evaluate a trained model on the test split of its dataset."""

    def __init__(self, params: Params, dataset: Dataset, paths: EvaluationPaths) -> None:
        self.params, self.dataset, self.paths = params, dataset, paths
        self.checkpoint = find_checkpoint(paths.trained.name, paths.trained)
        self.model, self.facts = load_model(self.checkpoint, params)
        self.history = decode_history(self.facts)

    def run(self) -> str:
        """Write every result and figure; returns a line about them."""
        started = time.perf_counter()
        metrics = self.measure()
        verdict = self.judge(metrics)
        findings = diagnose(self.dataset.kind, metrics, self.series)
        diagnosis = {"diagnoses": findings}
        for name, content in {
            "metrics": metrics,
            "verdict": verdict,
            "diagnosis": diagnosis,
        }.items():
            write_json(self.paths.results / f"{name}.json", content)
        summary = self.summarise(metrics, passed=verdict["passed"]).model_dump()
        write_json(self.paths.summary, summary)
        self.draw(metrics)
        write_npz(self.paths.arrays / "evidence.npz", self.arrays(metrics), kind="evaluation")
        # Beside the arrays, since it depends on the machine.
        timing = {"seconds": time.perf_counter() - started, "machine": engine.machine()}
        write_json(self.paths.arrays / "timing.json", timing)
        numbers = [f"{name} {value:.4g}" for name, value in summary.items()]
        return f"{', '.join(numbers)}; found {', '.join(detected_issues(findings)) or 'no failure'}"

    @abstractmethod
    def measure(self) -> Metrics:
        """Run the model and compute metrics.json."""

    @abstractmethod
    def judge(self, metrics: Metrics) -> dict[str, Any]:
        """verdict.json."""

    @abstractmethod
    def summarise(self, metrics: Metrics, *, passed: bool) -> Summary:
        """Select the scalars of metrics/<dataset>.json."""

    @abstractmethod
    def draw(self, metrics: Metrics) -> None:
        """Draw every figure, as PNG files in `paths.plots`."""

    @abstractmethod
    def arrays(self, metrics: Metrics) -> Arrays:
        """What the failure gallery reads."""

    @property
    def series(self) -> Series:
        """What diagnoses read of the training history."""
        return per_epoch(self.history, self.facts["training"])

    @property
    def curves(self) -> dict[str, list[float]]:
        """Every series of the training history."""
        return {name: [row[name] for row in self.history] for name in self.history[0]}

    def check_items(self, items: npt.NDArray[np.uint8]) -> None:
        """Raise a GenlabError where the checkpoint is for items of another shape."""
        require_shape(self.model, items, self.paths.data)

    def check_bounds(self, nats: Floats) -> None:
        """Raise a GenlabError where the bounds of some items, (n,), are not finite."""
        broken = int(np.count_nonzero(~np.isfinite(nats)))
        if broken:
            path, lr = self.checkpoint, self.facts["training"]["lr"]
            raise GenlabError(
                f"{path}: the bounds of {broken} of {len(nats)} test items are not finite, so the"
                f" training diverged; train again with a lower lr than {lr:g}, and grad_clip=1.0",
                path=path,
                key="lr",
            )


def load_model(checkpoint: Path, params: Params) -> tuple[VAE, dict[str, Any]]:
    """The model in the file `checkpoint`, on the device that params name, and its facts.

    Raises GenlabError where it is missing, truncated or foreign.
    """
    model, facts = load_checkpoint(checkpoint, producer_command=TRAIN)
    return model.to(engine.device(params.device)), facts


def per_epoch(history: Sequence[Mapping[str, float]], training: Mapping[str, Any]) -> Series:
    """The per-epoch series that diagnoses read, from a training history.

    The history counts skipped updates since the start; the series, those of each epoch. training:
    params; they say how many updates an epoch tries.
    """
    skipped = np.diff([row["skipped_updates"] for row in history], prepend=0.0).tolist()
    updates = float(training["samples_per_epoch"] // training["batch_size"])
    series = {name: [row[name] for row in history] for name in SERIES[:-2]}
    return {**series, "skipped_updates": skipped, "updates": [updates] * len(history)}
