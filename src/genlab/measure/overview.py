"""What a page shows of a dataset's last run, read from the files that the stages left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genlab.core.artifacts import read_json
from genlab.core.console import GenlabError
from genlab.datasets.registry import dataset as find_dataset
from genlab.measure.evaluation import best_sampler
from genlab.measure.formats import number, share, words
from genlab.measure.report import kind_of
from genlab.measure.surprises import found_names

SHOWN = {
    "grids": ("reconstructions", "samples_*", "training_curves", "accuracy_by_group"),
    "images": ("reconstructions", "samplers", "training_curves", "kl_by_latent"),
}
"""Figures of the evaluation, by the dataset's kind, in the order of the page."""


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
        kind = find_dataset(dataset).kind
        metrics, verdict, diagnosis = (
            read_json(results / f"{name}.json", made_by="make repro")
            for name in ("metrics", "verdict", "diagnosis")
        )
    except GenlabError as error:
        return f"Nothing to show yet. {error}"
    found = found_names(diagnosis)
    captions = kind_of(dataset).captions
    state = "passed" if verdict["passed"] else "not passed"
    return Overview(
        passed=bool(verdict["passed"]),
        sentence=f"Verdict: {state}. Diagnosed: {', '.join(found) or 'no collapse'}.",
        numbers=NUMBERS[kind](metrics),
        criteria=[
            {key: row[key] for key in ("name", "value", "threshold", "passed", "why")}
            for row in verdict["criteria"]
        ],
        pictures=[
            Picture(path, captions.get(path.stem, words(path.stem)))
            for pattern in SHOWN[kind]
            for path in sorted((root / "plots" / dataset / "evaluation").glob(f"{pattern}.png"))
        ],
    )


def _of_grids(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    best = best_sampler(metrics)
    return [
        ("cells right", share(metrics["pixel_accuracy"])),
        ("grids wholly right", share(metrics["exact_grid_accuracy"])),
        ("−ELBO, nats a grid", number(metrics["neg_elbo_nats"])),
        ("−ELBO over entropy", number(metrics["elbo_over_entropy"])),
        (f"legal samples ({best})", share(metrics["samplers"][best]["legal_grids"])),
    ]


def _of_images(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    best = metrics["best_sampler"]
    found = metrics["samplers"][best]
    scale = "bits/dim" if metrics["comparable"] else "bits/dim (own scale)"
    return [
        (scale, number(metrics["bits_per_dim"])),
        ("SSIM", number(metrics["ssim"])),
        ("Fréchet distance", number(found["frechet_distance"])),
        ("over its floor", number(found["frechet_over_floor"])),
        ("sampler", words(best)),
    ]


NUMBERS = {"grids": _of_grids, "images": _of_images}
