"""What the last run of a dataset found: verdict, diagnoses, key numbers with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from genlab.core.errors import GenlabError
from genlab.datasets.registry import find_dataset
from genlab.evaluation.reports.formats import number, share, words
from genlab.web import shapes
from genlab.web.components.files import json_at

REPRO = "make repro"
Interval = tuple[float, float]
Metrics = Mapping[str, Any]
SHAPES = {
    "metrics": shapes.Metrics,
    "verdict": shapes.Verdict,
    "diagnosis": shapes.Diagnosis,
}


class Number(NamedTuple):
    """A key number as it is shown, with its 95 % interval where one was measured."""

    label: str
    shown: str
    interval: str = ""


@dataclass(frozen=True)
class Results:
    """A dataset's metrics, verdict and diagnosis, read from `results/DATASET/`."""

    dataset: str
    metrics: Metrics
    verdict: Mapping[str, Any]
    diagnosis: Mapping[str, Any]

    @property
    def passed(self) -> bool:
        return bool(self.verdict["passed"])

    @property
    def found(self) -> list[Mapping[str, Any]]:
        """Diagnoses that hold."""
        return [each for each in self.diagnosis["diagnoses"] if each["found"]]

    @property
    def sentence(self) -> str:
        """Verdict and diagnoses in a line."""
        criteria = self.verdict["criteria"]
        met = sum(bool(row["passed"]) for row in criteria)
        names = ", ".join(words(each["name"]) for each in self.found)
        found = f"Diagnosed: {names}." if names else "No collapse found."
        return f"{met} of {len(criteria)} criteria met. {found}"

    @property
    def numbers(self) -> list[Number]:
        """The numbers that say most about the dataset's kind."""
        return NUMBERS[find_dataset(self.dataset).kind](self.metrics)

    @property
    def fix(self) -> Mapping[str, Any]:
        """Params that a diagnosis names as its fix; empty where there is none."""
        return next((each["fix"] for each in self.found if each["fix"]), {})

    @property
    def sampler(self) -> str:
        """The sampler that was picked, on other draws than those that are reported."""
        return str(self.metrics["best_sampler"])


def read_results(root: Path, dataset: str) -> Results:
    """The results of `dataset`. Raises Missing before the first run, a GenlabError on a bad one."""
    folder = root / "results" / dataset
    parts = {
        name: json_at(folder / f"{name}.json", shape, producer_command=REPRO)
        for name, shape in SHAPES.items()
    }
    found = Results(dataset, **parts)
    try:
        _ = found.sentence, found.numbers
    except (KeyError, TypeError, ValueError) as error:
        lacks = f"no {error} there" if isinstance(error, KeyError) else "a number is missing there"
        raise GenlabError(
            f"{folder}: {lacks}, the files are of an older run; make them with: {REPRO}"
        ) from error
    return found


def interval_of(found: Mapping[str, Any], name: str) -> Interval | None:
    """(low, high) of a metric that stands beside its `intervals`; None where there is none."""
    entry = found.get("intervals", {}).get(name)
    if not entry or entry.get("low") is None or entry.get("high") is None:
        return None
    return float(entry["low"]), float(entry["high"])


def range_words(interval: Interval | None, show: Callable[[float], str] = number) -> str:
    """An interval as text, "" for None."""
    return "" if interval is None else f"{show(interval[0])} to {show(interval[1])}"


def _number(
    label: str, found: Metrics, name: str, show: Callable[[float | None], str] = number
) -> Number:
    return Number(label, show(found[name]), range_words(interval_of(found, name), show))


def _of_grids(metrics: Metrics) -> list[Number]:
    picked = metrics["best_sampler"]
    return [
        _number("cells right", metrics, "pixel_accuracy", share),
        _number("grids wholly right", metrics, "exact_grid_accuracy", share),
        _number("−ELBO, nats a grid", metrics, "neg_elbo_nats"),
        _number("−ELBO over entropy", metrics, "neg_elbo_over_entropy_bound"),
        _number(f"legal samples ({picked})", metrics["samplers"][picked], "valid_rate", share),
    ]


def _of_images(metrics: Metrics) -> list[Number]:
    picked = metrics["best_sampler"]
    scale = "bits/dim" if metrics["comparable"] else "bits/dim (own scale)"
    found = metrics["samplers"][picked]
    return [
        _number(scale, metrics, "bits_per_dim"),
        _number("SSIM", metrics, "ssim"),
        _number("PSNR, dB", metrics, "psnr"),
        _number(f"Fréchet distance ({words(picked)})", found, "frechet_distance"),
        _number("over its floor", found, "relative_frechet"),
    ]


NUMBERS: Mapping[str, Callable[[Metrics], list[Number]]] = {
    "grids": _of_grids,
    "images": _of_images,
}
