"""Training runs as curves: the committed one, and the experiments that dvc keeps in git."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

from genlab.core import git
from genlab.core.errors import GenlabError
from genlab.core.io import read_json
from genlab.core.tracking import HISTORY_KIND
from genlab.web import shapes
from genlab.web.components.files import Missing, fits, fresh, of_shape, stamps

Points = list[tuple[float, float]]

CURRENT = "current run"
PATIENCE = 180.0
"""Seconds without an epoch, after which a run counts as stopped."""

MOST_EXPERIMENTS = 40
"""Experiments of dvc that are looked at, the newest first."""


@dataclass(frozen=True)
class Panel:
    """A chart: the series it shows, its title, its unit, and whether a log scale suits it."""

    key: str
    title: str
    unit: str
    log: bool = False


PANELS: Mapping[str, tuple[Panel, ...]] = {
    "grids": (
        Panel("loss", "Training objective on val", "nats a grid", log=True),
        Panel("reconstruction_loss", "Reconstruction, −log p(x|z)", "nats a grid", log=True),
        Panel("kl_divergence", "KL", "nats a grid", log=True),
        Panel("beta_kl", "β · KL", "nats a grid"),
        Panel("elbo", "ELBO", "nats a grid"),
        Panel("exact_grid_accuracy", "Grids wholly right", "share"),
        Panel("pixel_accuracy", "Cells right", "share"),
        Panel("gradient_norm", "Gradient norm", "", log=True),
        Panel("learning_rate", "Learning rate", ""),
    ),
    "images": (
        Panel("loss", "Training objective on val", "nats an image"),
        Panel("reconstruction_loss", "Reconstruction, −log p(x|z)", "nats an image"),
        Panel("kl_divergence", "KL", "nats an image"),
        Panel("beta_kl", "β · KL", "nats an image"),
        Panel("elbo", "ELBO", "nats an image"),
        Panel("psnr", "PSNR", "dB"),
        Panel("mse", "Squared error", "", log=True),
        Panel("gradient_norm", "Gradient norm", "", log=True),
        Panel("learning_rate", "Learning rate", ""),
    ),
}


@dataclass(frozen=True)
class Run:
    """A training run: its curves by name, (epoch, value) each, and what it was for."""

    name: str
    why: str
    series: Mapping[str, Points]

    @property
    def epochs(self) -> int:
        """The last epoch of which a number is known."""
        ends = [int(points[-1][0]) for points in self.series.values() if points]
        return max(ends, default=0)


@dataclass(frozen=True)
class Making:
    """A run in the making: its curves so far, its folder, and when its last epoch ended."""

    run: Run
    folder: Path
    written: datetime

    @property
    def alive(self) -> bool:
        """Whether it seems to go on: nothing but the age of its last epoch tells."""
        return (datetime.now(timezone.utc) - self.written).total_seconds() < PATIENCE


def runs(root: Path, dataset: str) -> list[Run]:
    """Every run of `dataset` whose curves are known, the current one first.

    Raises Missing where there is none, and a GenlabError where a file is broken.
    """
    found = [run for run in (current(root, dataset),) if run]
    found += dvc_experiments(root, dataset)
    if not found:
        raise Missing(f"no training run of {dataset} has left its curves yet", "make repro")
    return found


def current(root: Path, dataset: str) -> Run | None:
    """The run whose series lie in `plots/DATASET/training`; None before the first."""
    folder = root / "plots" / dataset / "training" / "plots" / "metrics"
    files = sorted(folder.rglob("*.tsv"))
    if not files:
        return None
    return Run(CURRENT, "What is checked out now.", _tsv_series(folder, stamps(files)))


@lru_cache(maxsize=8)
def _tsv_series(folder: Path, _: object) -> Mapping[str, Points]:
    return {
        file.relative_to(folder).with_suffix("").as_posix(): read_tsv(file)
        for file in sorted(folder.rglob("*.tsv"))
    }


def read_tsv(file: Path) -> Points:
    """A series of dvclive: a line of names, then step and value; NaN where a value is none."""
    try:
        text = file.read_text(encoding="utf-8")
        if not text.endswith("\n"):  # a number that is cut short would still be read
            raise ValueError("its last line has no end")
        cells = [row.split("\t") for row in text.splitlines()[1:] if row.strip()]
        return [(float(step), float(value)) for step, value, *_ in cells]
    except ValueError as error:
        raise GenlabError(
            f"{file} is truncated or foreign ({error}); make it with: dvc repro train"
        ) from error


def dvc_experiments(root: Path, dataset: str) -> list[Run]:
    """Experiments that dvc keeps in git's refs."""
    listed = git.ask(
        root,
        "for-each-ref",
        "--sort=-committerdate",
        f"--count={MOST_EXPERIMENTS}",
        "--format=%(objectname) %(refname)",
        "refs/exps/*/*/*",
    )
    found: dict[str, Run] = {}
    for line in (listed or b"").decode(errors="replace").splitlines():
        commit, _, reference = line.partition(" ")
        name = reference.rpartition("/")[2]
        series = _experiment_series(root, commit, dataset)
        if series and name not in found:
            found[name] = Run(name, "An experiment of dvc.", series)
    return list(found.values())


@lru_cache(maxsize=4 * MOST_EXPERIMENTS)
def _experiment_series(root: Path, commit: str, dataset: str) -> Mapping[str, Points]:
    """The curves of a commit; none where it was run for another dataset and changed nothing."""
    path = f"results/{dataset}/training.json"
    said = git.ask(root, "show", f"{commit}:{path}")
    before = git.ask(root, "show", f"{commit}^:{path}")
    if said is None or said == before:
        return {}
    try:
        found = json.loads(said)
    except ValueError:
        return {}
    return _from_summary(found) if fits(found, shapes.Training) else {}


def newest(root: Path, dataset: str) -> Making | None:
    """The run in the making that logged last; None where there is none.

    Raises a GenlabError where its history is broken.
    """
    found = list(root.glob(f"data/.making/{dataset}-*/history.json"))
    if not found:
        return None
    history = max(found, key=lambda file: file.stat().st_mtime)
    written = datetime.fromtimestamp(history.stat().st_mtime, timezone.utc)
    return Making(in_the_making(history), history.parent, written)


@fresh(keep=8)
def in_the_making(history: Path) -> Run:
    """What a run in the making has logged so far."""
    producer_command = "a training run from the start"
    found = read_json(history, producer_command=producer_command, kind=HISTORY_KIND)
    saved = of_shape(history, found, shapes.History, producer_command)
    series: dict[str, Points] = {}
    for row in saved["rows"]:
        for name, value in row["values"].items():
            series.setdefault(name, []).append((float(row["epoch"]), float(value)))
    return Run(history.parent.name, "A run in the making.", series)


def chosen_curves(found: Sequence[Run], names: Sequence[str], key: str) -> dict[str, Points]:
    """The curves of one series, of the runs called `names`, in that order."""
    by_name = {run.name: run for run in found}
    curves = {name: by_name[name].series.get(key, []) for name in names if name in by_name}
    return {name: points for name, points in curves.items() if points}


def _from_summary(training: Mapping[str, Any]) -> Mapping[str, Points]:
    """Curves of a training.json, and the ELBO, which they add up to."""
    series = {
        name: [(float(i), math.nan if v is None else float(v)) for i, v in enumerate(values, 1)]
        for name, values in training.get("series", {}).items()
    }
    halves = [series.get(name) for name in ("reconstruction_loss", "kl_divergence")]
    if halves[0] and halves[1]:
        pairs = zip(halves[0], halves[1], strict=False)  # as far as both are known
        series["elbo"] = [(epoch, -(nats + kl)) for (epoch, nats), (_, kl) in pairs]
    return series


def pictures(folder: Path) -> dict[str, Path]:
    """Reconstructions by epoch, `epoch 10` and so on, `best` last."""
    found = {path.stem.rpartition("_")[2]: path for path in folder.glob("reconstructions_*.png")}
    epochs = {f"epoch {int(k)}": v for k, v in sorted(found.items()) if k.isdigit()}
    return epochs | ({"best": found["best"]} if "best" in found else {})
