"""Our image model beside the VAEs of two public libraries, at equal CPU time and by one judge.

Baselines, each trained by `baseline_worker.py` on one thread for `--seconds` of CPU time:

- `pythae-mlp`: pythae 0.1.2's `VAE` with its defaults, `pythae-conv`: with its convolutional
  networks for 28 x 28; 10 and 16 latents, the library's default and that of its examples.
- `antixk`: PyTorch-VAE's `VanillaVAE` with its published settings (`baseline_worker.VanillaVAE`).

pythae is installed into a separate folder with pydantic 1; torch and the rest are those of the
running environment.

Each baseline is trained with several learning rates for `--search-seconds`; the rates with the
lowest bits/dim and the lowest Fréchet distance on the validation split are trained at full length.
Ours and the best baselines are trained with all seeds. pythae's default loss is the squared error.
Cross-entropy serves its MLP much better here: it is a separate baseline, that of
`images.frechet_over_tuned` and `images.bpd_below_tuned`.

The judge is a classifier trained on the train split (`genlab.evaluation.metrics.features`); every
number is of 10,000 test images, and samplers are chosen on the validation split. A baseline has a
mean but no likelihood of levels: bits/dim are those of a Gaussian around its mean, discretised to
the 256 levels, with one sigma fitted on the validation split, plus the KL of one posterior draw.
(Means are rounded to levels on their way here, which changes nothing at a sigma of tens of levels.)

Finished runs are kept in `--runs`; a killed benchmark resumes with the next one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import typer
from platformdirs import user_cache_dir
from scipy import stats

import genlab
from benchmarks.baseline_runs import (
    OURS,
    PYTHAE,
    WORKER,
    Outcome,
    Settings,
    install_pythae,
    run_baseline,
    run_ours,
)
from benchmarks.harness import Bounds, Result, benchmark
from genlab.core import engine
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, sha256, write_json
from genlab.core.params import load_params
from genlab.datasets.images import load_images, load_labels
from genlab.datasets.manifests import MANIFEST_FILE
from genlab.evaluation.evaluators.images import extractor
from genlab.evaluation.metrics import frechet
from genlab.evaluation.metrics.fidelity import fidelity

Row = dict[str, Any]

DEFAULT_LOSS, TUNED_LOSS = "mse", "bce"
RATES = (1e-4, 1e-3, 3e-3)
CONTENDERS: dict[str, tuple[tuple[str, ...], tuple[float | None, ...]]] = {
    OURS: (("",), (None,)),
    "pythae-mlp": ((DEFAULT_LOSS, TUNED_LOSS), RATES),
    "pythae-conv": ((DEFAULT_LOSS,), RATES[:2]),  # its networks take 15 times as long
    "antixk": (("",), (5e-4, 1.5e-3, 5e-3)),
}
"""The losses and learning rates of each contender, the published rate among them."""
SAMPLES, SEARCH_SAMPLES = 10_000, 2_000
VERSION = 2  # raise it where the judge changes
REPORTED = (
    "cpu_seconds",
    "images_seen",
    "bits_per_dim",
    "ssim",
    "psnr",
    "frechet_normal",
    "frechet_distance",
    "relative_frechet",
)


class Judge:
    """Measures outcomes against the images of the folder `data` by the features of one classifier.

    examples: number of training images of the classifier, as in stage evaluate.
    """

    def __init__(self, data: Path, examples: int) -> None:
        self.test = np.array(load_images(data, "test"))
        self.n = min(SAMPLES, len(self.test))
        train = load_images(data, "train")
        self.classifier = extractor(data.name, data, train, load_labels(data, "train"), 0, examples)
        self.digest = self.classifier.digest
        self.accuracy = self.classifier.accuracy(self.test, load_labels(data, "test"))
        self.features = self.classifier.features(self.test)
        self.validation = self.classifier.features(load_images(data, "val"))
        self.reference = frechet.train_reference(
            self.classifier.features(train), self.features, self.n
        )

    def measure(self, outcome: Outcome) -> Row:
        """bits/dim, fidelity, and the Fréchet distances of the samplers with the chosen one."""
        bits = self.test[0].size * math.log(2)
        found = fidelity(
            self.test[: len(outcome.reconstructions)], outcome.reconstructions, bootstrap=100
        )
        samplers = {}
        for name, images in outcome.samples.items():
            features = self.classifier.features(images)
            samplers[name] = {
                "frechet_distance": frechet.distance(features[: self.n], self.features),
                "validation_frechet": frechet.distance(features, self.validation),
            }
        best = min(samplers, key=lambda name: samplers[name]["validation_frechet"])
        distance = samplers[best]["frechet_distance"]
        return {
            "bits_per_dim": float(outcome.test_nats.mean()) / bits,
            "validation_bits_per_dim": float(outcome.validation_nats.mean()) / bits,
            **{name: found[name] for name in ("mse", "psnr", "ssim")},
            "samplers": samplers,
            "best_sampler": best,
            "frechet_distance": distance,
            "frechet_normal": samplers.get("normal", {}).get("frechet_distance"),
            "relative_frechet": distance / self.reference["frechet_distance"],
            "validation_frechet": samplers[best]["validation_frechet"],
            **outcome.facts,
        }


@dataclass(frozen=True, eq=False)
class Comparison:
    """Trains and measures contenders; what is measured is kept in `runs`."""

    data: Path
    runs: Path
    judge: Judge
    environment: Path

    def run(self, settings: Settings, folder: Path) -> Outcome:
        """Train a contender and draw from it."""
        if settings.contender == OURS:
            return run_ours(settings, folder, self.data)
        return run_baseline(settings, folder, self.data, self.environment)

    def folder(self, settings: Settings) -> Path:
        """Where a run is kept; another one for other settings, data, code or judge."""
        code = [WORKER]
        if settings.contender == OURS:
            code = [*sorted((Path(genlab.__file__).parent / "vae").rglob("*.py"))]
            code.append(Path("params.yaml"))
        digests = [sha256(file) for file in (self.data / MANIFEST_FILE, *code)]
        text = json.dumps([asdict(settings), digests, self.judge.digest, VERSION])
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self.runs / f"{settings.contender}-{digest}"

    def measure(self, settings: Settings) -> Row:
        """Train and measure a contender, or read what is kept."""
        folder = self.folder(settings)
        path = folder / "measured.json"
        if not path.exists():
            row = {**asdict(settings), **self.judge.measure(self.run(settings, folder))}
            write_json(path, row)
            print(
                f"{settings.title}, seed {settings.seed}: {row['bits_per_dim']:.3f} bits/dim,"
                f" Fréchet distance {row['frechet_distance']:.2f}",
                flush=True,
            )
        row = read_json(path, producer_command=f"rm {path}; make bench")
        return dict(row)

    def search(self, tried: Sequence[Settings]) -> dict[Settings, list[str]]:
        """The best settings by each validation number, and what each was chosen for."""
        if len(tried) == 1:
            return {tried[0]: []}
        rows = [self.measure(each) for each in tried]
        chosen: dict[Settings, list[str]] = {}
        for aim in ("bits_per_dim", "frechet"):
            best = int(np.argmin([row[f"validation_{aim}"] for row in rows]))
            chosen.setdefault(tried[best], []).append(aim)
        return chosen


def summarize(runs: Sequence[Row], chosen_for: Sequence[str]) -> Row:
    """Mean and standard deviation over seeds of a contender's runs with one setting.

    None where a run lacks the number, and for the deviation of a single seed.
    """
    table = pd.DataFrame(runs)[list(REPORTED)].astype(float)
    mean, sd = table.mean(skipna=False), table.std(ddof=1, skipna=False)
    return {
        **{key: runs[0][key] for key in ("contender", "loss", "rate")},
        "chosen_for": list(chosen_for),
        "seeds": [run["seed"] for run in runs],
        "samplers": [run["best_sampler"] for run in runs],
        "mean": {key: None if math.isnan(mean[key]) else float(mean[key]) for key in REPORTED},
        "sd": {key: None if math.isnan(sd[key]) else float(sd[key]) for key in REPORTED},
        "runs": list(runs),
    }


def ratio(one: Sequence[float], other: Sequence[float]) -> tuple[float, Bounds | None]:
    """Ratio of means with its 95 % interval: Welch's for the difference of the logarithms.

    The variances of the logarithms are those of the means over their squares (delta method).
    """
    value = float(np.mean(one) / np.mean(other))
    half = welch_half_width(np.asarray(one) / np.mean(one), np.asarray(other) / np.mean(other))
    return value, None if half is None else (value * math.exp(-half), value * math.exp(half))


def difference(one: Sequence[float], other: Sequence[float]) -> tuple[float, Bounds | None]:
    """Difference of means with Welch's 95 % interval; none for a single seed."""
    value = float(np.mean(one) - np.mean(other))
    half = welch_half_width(one, other)
    return value, None if half is None else (value - half, value + half)


def welch_half_width(one: npt.ArrayLike, other: npt.ArrayLike) -> float | None:
    """Half the width of the 95 % interval of a difference of means (Welch 1947)."""
    if min(np.size(one), np.size(other)) < 2:
        return None
    interval = stats.ttest_ind(one, other, equal_var=False).confidence_interval()
    return float(interval.high - interval.low) / 2


def of_group(rows: Sequence[Row], *, tuned: bool) -> list[Row]:
    """The baselines with TUNED_LOSS, or those with their default loss."""
    return [r for r in rows if r["contender"] != OURS and (r["loss"] == TUNED_LOSS) == tuned]


def best(rows: Sequence[Row], name: str) -> Row:
    """The row with the lowest mean of `name`."""
    return min(rows, key=lambda row: float(row["mean"][name]))


def leads(row: Row, rows: Sequence[Row]) -> bool:
    """Whether a row is ours or the best default baseline at something."""
    group = of_group(rows, tuned=False)
    names = ("frechet_distance", "bits_per_dim") if group else ()
    return row["contender"] == OURS or any(row is best(group, name) for name in names)


def compare(rows: Sequence[Row]) -> Iterator[Result]:
    """Ours against the baseline that is best at each; nothing where one of the two is missing."""
    ours = [row for row in rows if row["contender"] == OURS]
    for name, tuned in (("baseline", False), ("tuned", True)):
        group = of_group(rows, tuned=tuned)
        if not ours or not group:
            continue
        for key, metric, compared in (
            (f"images.frechet_over_{name}", "frechet_distance", ratio),
            (f"images.bpd_below_{name}", "bits_per_dim", difference),
        ):
            baseline = best(group, metric)
            values = [[run[metric] for run in row["runs"]] for row in (ours[0], baseline)]
            if compared is difference:
                values.reverse()
            value, interval = compared(*values)
            yield Result(key, value, interval, len(baseline["seeds"]), baseline["seeds"])


def select(only: str) -> list[str]:
    """The contenders that the option --only names; all where it is empty."""
    names = [name.strip() for name in only.split(",")] if only else list(CONTENDERS)
    for name in names:
        if name not in CONTENDERS:
            raise GenlabError(f"--only: no contender {name!r}; known: {', '.join(CONTENDERS)}")
    return names


@benchmark(
    "images.frechet_over_baseline",
    "images.bpd_below_baseline",
    "images.frechet_over_tuned",
    "images.bpd_below_tuned",
)
def baselines(
    seconds: Annotated[float, typer.Option(min=1, help="CPU seconds of training per run.")] = 1000,
    search_seconds: Annotated[
        float, typer.Option(min=1, help="CPU seconds of a run that chooses a learning rate.")
    ] = 40,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 3,
    only: Annotated[str, typer.Option(help="Contenders, separated by commas.")] = "",
    data: Annotated[Path, typer.Option(help="Folder that stage split wrote.")] = Path(
        "data/fashion_mnist"
    ),
    runs: Annotated[Path, typer.Option(help="Folder that finished runs are kept in.")] = Path(
        "data/.making/baselines"
    ),
    report: Annotated[Path, typer.Option(help="File of all rows.")] = Path(
        "results/baselines.json"
    ),
) -> Iterator[Result]:
    """Train baselines and ours for the same CPU time and compare them."""
    names = select(only)
    shape = load_images(data, "test").shape[1:]
    if shape != (28, 28, 1):
        raise GenlabError(f"{data}: baselines are made for 28 x 28 x 1, got {shape}; choose --data")
    environment = Path(user_cache_dir("genlab")) / PYTHAE[0].replace("==", "-")
    if any(name.startswith("pythae") for name in names):
        install_pythae(environment)
    engine.deterministic(0, 1)
    judge = Judge(data, load_params().evaluate.extractor_examples)
    comparison = Comparison(data, runs, judge, environment)
    search_seconds = min(search_seconds, seconds)
    tried = [
        [Settings(name, loss, rate, search_seconds, 0, SEARCH_SAMPLES) for rate in rates]
        for name in names
        for losses, rates in [CONTENDERS[name]]
        for loss in losses
    ]
    chosen = {
        replace(settings, seconds=seconds, samples=SAMPLES): chosen_for
        for group in tried
        for settings, chosen_for in comparison.search(group).items()
    }
    measured = {settings: [comparison.measure(settings)] for settings in chosen}
    first = {each: summarize(found, chosen[each]) for each, found in measured.items()}
    # Seed by seed, so that a machine that changes its pace does so for all.
    for seed in range(1, seeds):
        for settings, row in first.items():
            if leads(row, list(first.values())):
                measured[settings].append(comparison.measure(replace(settings, seed=seed)))
    rows = [summarize(found, chosen[each]) for each, found in measured.items()]
    searched = [comparison.measure(each) for group in tried if len(group) > 1 for each in group]
    write_json(report, describe(judge, rows, searched, seconds, search_seconds))
    print(pd.DataFrame({each.title: row["mean"] for each, row in zip(measured, rows, strict=True)}))
    yield from compare(rows)


def describe(
    judge: Judge, rows: list[Row], searched: list[Row], seconds: float, search_seconds: float
) -> Row:
    """The content of results/baselines.json."""
    keys = ("contender", "loss", "rate", "validation_bits_per_dim", "validation_frechet")
    return {
        "seconds": seconds,
        "search_seconds": search_seconds,
        "n": judge.n,
        "features": {"kind": "classifier", "digest": judge.digest, "accuracy": judge.accuracy},
        "floor": judge.reference,
        "machine": engine.machine(),
        "rows": rows,
        "search": [{key: row[key] for key in keys} for row in searched],
    }
