"""What measuring has in common for grids and images: its folders, its checkpoint, its verdict."""

from __future__ import annotations

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
from genlab.evaluation.diagnostics.anomalies import detected_issues
from genlab.evaluation.grid_evaluation import series
from genlab.vae.models.vae import VAE
from genlab.vae.training.checkpoint import (
    decode_history,
    find_checkpoint,
    load_checkpoint,
    require_shape,
)

TRAIN = "dvc repro train"


@dataclass(frozen=True)
class EvaluationPaths:
    """Where a measurement reads and writes; `arrays` is for the gallery of failures."""

    data: Path
    trained: Path
    metrics: Path
    plots: Path
    arrays: Path

    def evidence_files(self) -> list[str]:
        """What a diagnosis points at."""
        return [str(self.metrics / "metrics.json"), str(self.plots / "training_curves.png")]

    def keep(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write what the gallery of failures asks for."""
        write_npz(self.arrays / "evidence.npz", arrays, kind="evaluation")

    def time(self, seconds: float) -> None:
        """Write how long it took: beside the arrays, since it depends on the machine."""
        write_json(self.arrays / "timing.json", {"seconds": seconds, "machine": engine.machine()})


@dataclass(frozen=True)
class Trained:
    """A checkpoint in evaluation mode, what is known of its training, and its epochs."""

    model: VAE
    facts: Mapping[str, Any]
    history: list[dict[str, float]]
    data: Path
    checkpoint: Path

    @property
    def updates_an_epoch(self) -> int:
        """Updates that training tried in each epoch."""
        training = self.facts["training"]
        updates: int = training["samples_per_epoch"] // training["batch_size"]
        return updates

    def series(self) -> dict[str, list[float]]:
        """The per-epoch series that diagnoses read."""
        return series(self.history, self.updates_an_epoch)

    def require_finite(self, nats: npt.NDArray[np.float64]) -> None:
        """Raise a GenlabError where the bounds of some items, (n,), are not finite."""
        broken = int(np.count_nonzero(~np.isfinite(nats)))
        if broken:
            raise GenlabError(
                f"{self.checkpoint}: the bounds of {broken} of {len(nats)} test items are not"
                f" finite, so the training diverged; train again with a lower lr than"
                f" {self.facts['training']['lr']:g}, and grad_clip=1.0"
            )

    def require_shape(self, items: npt.NDArray[np.uint8]) -> None:
        """Raise a GenlabError where the checkpoint is for items of another shape."""
        require_shape(self.model, items, self.data)


@dataclass(frozen=True)
class EvaluationResult:
    """metrics.json, verdict.json and diagnosis.json."""

    metrics: Mapping[str, Any]
    verdict: Mapping[str, Any]
    diagnosis: Mapping[str, Any]

    def write(self, folder: Path) -> None:
        """Write all three into `folder`."""
        for name in ("metrics", "verdict", "diagnosis"):
            write_json(folder / f"{name}.json", getattr(self, name))

    def words(self) -> str:
        """Verdict and findings, as a line of output ends."""
        found = ", ".join(detected_issues(self.diagnosis)) or "no collapse"
        passed = "passed" if self.verdict["passed"] else "not passed"
        return f"verdict {passed}, found {found}"


def read_trained(folders: EvaluationPaths, params: Params) -> Trained:
    """The checkpoint that is to be measured, on the device that params name.

    Raises GenlabError where it is missing, truncated or foreign.
    """
    path = find_checkpoint(folders.trained.name, folders.trained)
    model, facts = load_checkpoint(path, producer_command=TRAIN)
    model = model.to(engine.device(params.device))
    return Trained(model, facts, decode_history(facts), folders.data, path)
