"""Results of the last run of a dataset: verdict, key numbers, criteria, targets, samplers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from genlab.datasets.registry import find_dataset
from genlab.evaluation.reports.formats import number, words
from genlab.evaluation.reports.targets import benchmark_prefix, read_targets
from genlab.web.components.files import reading

Row = dict[str, Any]

NUMBERS = {
    "grids": ("pixel_accuracy", "exact_grid_accuracy", "neg_elbo_nats",
              "neg_elbo_over_entropy_bound"),
    "images": ("bits_per_dim", "ssim", "psnr"),
}  # fmt: skip
SAMPLED = {"grids": ("valid_rate",), "images": ("frechet_distance", "relative_frechet")}
"""Key numbers of a model, and of the picked sampler."""


def read_verdict(root: Path, dataset: str) -> tuple[str, str]:
    """The verdict, and the reasons for it. Raises a GenlabError before the first run."""
    criteria = read_criteria(root, dataset)
    missed = [words(row["name"]) for row in criteria if row["outcome"] == "missed"]
    with reading(root / "results" / dataset / "diagnosis.json") as diagnosis:
        names = [words(each["name"]) for each in diagnosis["diagnoses"] if each["found"]]
    met = f"{len(criteria) - len(missed)} of {len(criteria)} criteria met."
    found = f"Diagnosed: {', '.join(names)}." if names else "No collapse found."
    return "not passed" if missed else "passed", f"{met} {found}"


def read_criteria(root: Path, dataset: str) -> list[Row]:
    """Table of the verdict's criteria."""
    columns = ("name", "value", "interval", "sign", "threshold", "why")
    with reading(root / "results" / dataset / "verdict.json") as verdict:
        return [
            {"outcome": "met" if row["passed"] else "missed"} | {key: row[key] for key in columns}
            for row in verdict["criteria"]
        ]


def key_numbers(root: Path, dataset: str) -> list[tuple[str, str, str]]:
    """The numbers that say most about a dataset of its kind: label, value and 95 % interval."""
    kind = find_dataset(dataset).kind
    with reading(root / "results" / dataset / "metrics.json") as metrics:
        picked = metrics["best_sampler"]
        found = metrics["samplers"][picked]
        return [
            *((words(key), *_measured(metrics, key)) for key in NUMBERS[kind]),
            *((f"{words(key)} ({picked})", *_measured(found, key)) for key in SAMPLED[kind]),
        ]


def compare_targets(root: Path, dataset: str) -> list[Row]:
    """Table of the project's targets for a dataset, and what was measured."""
    targets = read_targets(root, benchmark_prefix(dataset))
    with reading(root / "results" / "benchmarks.json", "make bench") as found:
        return [
            {
                "description": target.description,
                "outcome": target.outcome(found.get(key, {}).get("value")),
                **{column: found.get(key, {}).get(column) for column in ("value", "interval")},
                "sign": target.sign,
                **target.model_dump(include={"target", "stretch_target"}),
            }
            for key, target in targets.items()
        ]


def compare_samplers(root: Path, dataset: str) -> list[Row]:
    """Table of samplers: every number that has an interval, with it."""
    with reading(root / "results" / dataset / "metrics.json") as metrics:
        rows = []
        for name, found in metrics["samplers"].items():
            row = {"sampler": f"{name} (picked)" if name == metrics["best_sampler"] else name}
            for key in sorted(found["intervals"]):
                row[key] = "{} ({})".format(*_measured(found, key))
            rows.append(row)
        return rows


def _measured(found: Mapping[str, Any], name: str) -> tuple[str, str]:
    """A metric and its interval, as text."""
    interval = found.get("intervals", {}).get(name)
    ends = f"{number(interval['low'])} to {number(interval['high'])}" if interval else ""
    return number(found[name]), ends
