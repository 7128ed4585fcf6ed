"""What a page shows of a dataset's last run, read from the files that the stages left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genlab.core.artifacts import read_json
from genlab.core.console import GenlabError
from genlab.measure.evaluation import best_sampler
from genlab.measure.formats import number, share
from genlab.measure.report import CAPTIONS
from genlab.measure.surprises import found_names

SHOWN = ("reconstructions", "samples_*", "training_curves", "accuracy_by_group")


@dataclass(frozen=True)
class Picture:
    """A figure and what it shows."""

    path: Path
    caption: str


@dataclass(frozen=True)
class Overview:
    """A dataset's verdict in a sentence, its key numbers, its criteria and its figures."""

    passed: bool
    sentence: str
    numbers: list[tuple[str, str]]
    criteria: list[dict[str, Any]]
    pictures: list[Picture]


def read_overview(root: Path, dataset: str) -> Overview | str:
    """The overview of `dataset`, or the sentence that says how to get one."""
    results = root / "metrics" / dataset
    try:
        metrics, verdict, diagnosis = (
            read_json(results / f"{name}.json", made_by="make repro")
            for name in ("metrics", "verdict", "diagnosis")
        )
    except GenlabError as error:
        return f"Nothing to show yet. {error}"
    found = found_names(diagnosis)
    state = "passed" if verdict["passed"] else "not passed"
    return Overview(
        passed=bool(verdict["passed"]),
        sentence=f"Verdict: {state}. Diagnosed: {', '.join(found) or 'no collapse'}.",
        numbers=_numbers(metrics),
        criteria=[
            {key: row[key] for key in ("name", "value", "threshold", "passed", "why")}
            for row in verdict["criteria"]
        ],
        pictures=[
            Picture(path, CAPTIONS.get(path.stem, path.stem.replace("_", " ")))
            for pattern in SHOWN
            for path in sorted((root / "plots" / dataset / "evaluation").glob(f"{pattern}.png"))
        ],
    )


def _numbers(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    best = best_sampler(metrics)
    return [
        ("cells right", share(metrics["pixel_accuracy"])),
        ("grids wholly right", share(metrics["exact_grid_accuracy"])),
        ("−ELBO, nats a grid", number(metrics["neg_elbo_nats"])),
        ("−ELBO over entropy", number(metrics["elbo_over_entropy"])),
        (f"legal samples ({best})", share(metrics["samplers"][best]["legal_grids"])),
    ]
