"""Our image model beside parts of itself and models of public libraries, at equal CPU time.

Every contender of `baseline_settings` is treated alike. `--trials` settings of its SPACE are tried,
the first choices (params.yaml's or the library's) first and then others at random (Bergstra and
Bengio 2012), each with seed 0 for `--search-seconds`. The one with the lowest Fréchet distance on
the validation split is trained with every seed for `--seconds`. The clock is the CPU time of one
thread, without checks on the validation split. Our model needs the length of its schedule
beforehand, so that its seconds are close to `--seconds`; those of the others are then those of ours
with the same seed.

Samplers are draws from the prior and, where there are codes, from a mixture of normals fitted to
them by the same procedure, each at the same temperatures: of pixels where there is a causal head,
and else of latents. One is chosen by draws that are compared with the validation split; other draws
of it are compared with 10,000 test images.

Rows of finished runs are kept in `--rows`; a killed benchmark resumes with the next one. To use two
cores, run `--only ours`, then two with other contenders at a time, then one with all. All rows are
measured by the same classifier: that of stage judges, or the released one.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import pandas as pd
import typer

import genlab
from benchmarks.baseline_flow import run_normflows
from benchmarks.baseline_genlab import run_genlab
from benchmarks.baseline_outcomes import Outcome
from benchmarks.baseline_packages import PACKAGES, install
from benchmarks.baseline_results import Row, compare, latent_gain, require_same_judge, summarize
from benchmarks.baseline_settings import CONTENDERS, GENLAB, OURS, Settings, make_trials
from benchmarks.baseline_settings import describe as describe_options
from benchmarks.baseline_vae import run_pythae
from benchmarks.harness import Result, benchmark
from genlab.core import engine
from genlab.core.errors import GenlabError
from genlab.core.io import UNFINISHED, read_json, sha256, write_json
from genlab.core.params import load_params
from genlab.datasets.images import load_images, load_labels
from genlab.datasets.manifests import MANIFEST_FILE
from genlab.evaluation.metrics import frechet
from genlab.evaluation.metrics.fidelity import fidelity
from genlab.evaluation.metrics.judges import SEEDS, TrainingSet, load_judges

DRAWS = 10_000
CHOOSING_DRAWS = 1_000
SEARCH_DRAWS = 500
# Added to the seed, of which only 32 bits count
CHOOSING_SEED = 1 << 30
REPORTED_SEED = 1 << 31
VERSION = 6  # raise it where the judge changes
MAKING = UNFINISHED / "baselines"  # our model while it trains
RUNS = {"pythae": run_pythae, "pythae-mixture": run_pythae, "normflows": run_normflows}


class Judge:
    """Measure outcomes against the images of the folder `data` by the classifier of stage judges.

    judges: folder of the classifiers, of which the first one counts.
    """

    def __init__(self, data: Path, judges: Path) -> None:
        train, val, self.test = (
            np.array(load_images(data, name)) for name in ("train", "val", "test")
        )
        training_set = TrainingSet.of_dataset(data.name, train, load_labels(data, "train"))
        self.classifier = load_judges(training_set, judges)[SEEDS[0]]
        self.features = self.classifier.features(self.test)
        self.validation = self.classifier.features(val)
        self.n = min(DRAWS, len(self.test))
        train_features = self.classifier.features(train)
        self.reference = frechet.train_reference(train_features, self.features, self.n)

    def validate(self, outcome: Outcome, seed: int, draws: int) -> Row:
        """Measure bits/dim on the validation split and each sampler's distance to it."""
        distances = {}
        for name, draw in outcome.samplers.items():
            features = self.classifier.features(draw(draws, seed + CHOOSING_SEED))
            distances[name] = frechet.distance(features, self.validation)
        best = min(distances, key=lambda name: distances[name])
        return {
            "validation_bits_per_dim": self._bits_per_dim(outcome.validation_nats),
            "samplers": distances,
            "best_sampler": best,
            "validation_frechet": distances[best],
            "judge": self.classifier.digest,
            **outcome.facts,
        }

    def measure(self, outcome: Outcome, seed: int) -> Row:
        """Measure the same, and new draws of the best sampler and the test images."""
        row = self.validate(outcome, seed, CHOOSING_DRAWS)
        images = outcome.samplers[row["best_sampler"]](self.n, seed + REPORTED_SEED)
        distance = frechet.distance(self.classifier.features(images), self.features)
        reconstructions, nats = outcome.test()
        ssim = None
        if reconstructions is not None:
            ssim = fidelity(self.test, reconstructions, bootstrap=100)["ssim"]
        return {
            **row,
            "bits_per_dim": self._bits_per_dim(nats),
            "ssim": ssim,
            "frechet_distance": distance,
            "relative_frechet": distance / self.reference["frechet_distance"],
        }

    def _bits_per_dim(self, nats: npt.NDArray[np.float64] | None) -> float | None:
        return None if nats is None else float(nats.mean()) / (self.test[0].size * math.log(2))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Train and measure contenders; each run's metrics are saved as a file in `rows`."""

    data: Path
    rows: Path
    judge: Judge

    def run(self, settings: Settings) -> Outcome:
        """Train a contender and fit its samplers."""
        if settings.contender in GENLAB:
            folder = MAKING / f"{settings.contender}-{settings.seed}"
            return run_genlab(settings, folder, self.data)
        return RUNS[settings.contender](settings, self.data)

    def row(self, settings: Settings, state: str) -> Path:
        """Return the file of a run's row, which depends on settings, data and code."""
        ours = settings.contender in GENLAB
        package = Path(genlab.__file__).parent
        code = sorted(Path(__file__).parent.glob("baseline_*.py"))
        for folder in ("distributions", "vae" if ours else "vae/sampling"):
            code += sorted((package / folder).rglob("*.py"))
        digests = [sha256(file) for file in (self.data / MANIFEST_FILE, *code)]
        if ours:
            digests.append(load_params().training_digest(self.data.name))
        identity = [settings.title, settings.options, settings.seconds, settings.seed]
        text = json.dumps([identity, digests, VERSION])
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self.rows / f"{settings.contender}-{state}-{key}.json"

    def measure(self, settings: Settings, *, searching: bool = False) -> Row:
        """Train and measure a contender, or read its saved row; a search uses no test image."""
        path = self.row(settings, "validated" if searching else "measured")
        if not path.exists():
            outcome = self.run(settings)
            seed = settings.seed
            if searching:
                row = self.judge.validate(outcome, seed, SEARCH_DRAWS)
            else:
                row = self.judge.measure(outcome, seed)
            options = dict(settings.options)
            named = {"contender": settings.contender, "options": options, "seed": seed}
            write_json(path, {**named, "seconds": settings.seconds, **row})
            distance = f"Fréchet distance {row['validation_frechet']:.2f} on validation"
            print(f"{settings.title}, seed {seed}: {distance}", flush=True)
        return dict(read_json(path, producer_command=f"rm {path}; make bench"))

    def search(self, trials: Sequence[Settings]) -> Settings:
        """Return the settings with the lowest Fréchet distance on the validation split."""
        rows = [self.measure(settings, searching=True) for settings in trials]
        require_same_judge(rows)
        return trials[int(np.argmin([row["validation_frechet"] for row in rows]))]


def select(only: str) -> list[str]:
    """Parse the option --only: the named contenders, or all where it is empty."""
    names = [name.strip() for name in only.split(",")] if only else list(CONTENDERS)
    for name in names:
        if name not in CONTENDERS:
            raise GenlabError(f"--only: no contender {name!r}; known: {', '.join(CONTENDERS)}")
    return names


def read_seeds(text: str) -> list[int]:
    """Parse the option --seeds: different seeds."""
    try:
        seeds = [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise GenlabError(f"--seeds: {error}; write numbers as 0,1,2") from None
    if min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise GenlabError(f"--seeds {text}: choose each seed once, none below 0")
    return seeds


@benchmark("images.frechet_over_baseline", "images.latent_gain")
def baselines(
    seconds: Annotated[float, typer.Option(min=1, help="CPU seconds of each training.")] = 600,
    search_seconds: Annotated[
        float, typer.Option(min=1, help="CPU seconds of each setting tried.")
    ] = 60,
    trials: Annotated[int, typer.Option(min=1, help="Settings tried of each contender.")] = 8,
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "0,1,2",
    only: Annotated[str, typer.Option(help="Contenders, separated by commas.")] = "",
    data: Annotated[Path, typer.Option(help="Folder that stage split wrote.")] = Path(
        "data/fashion_mnist"
    ),
    judges: Annotated[Path, typer.Option(help="Folder that stage judges wrote.")] = Path(
        "data/judges/fashion_mnist"
    ),
    rows: Annotated[Path, typer.Option(help="Folder of the rows of finished runs.")] = Path(
        "results/baselines"
    ),
    report: Annotated[Path, typer.Option(help="File of all rows.")] = Path(
        "results/baselines.json"
    ),
) -> Iterator[Result]:
    """Train baselines and ours for the same CPU time and compare them."""
    names = select(only)
    all_seeds = read_seeds(seeds)
    shape = load_images(data, "test").shape[1:]
    if shape != (28, 28, 1):
        raise GenlabError(f"{data}: baselines are made for 28 x 28 x 1, got {shape}; choose --data")
    for name in PACKAGES:
        if name in names:
            install(name)
    engine.make_deterministic(0, 1)
    judge = Judge(data, judges)
    comparison = Comparison(data, rows, judge)
    tried = {
        name: make_trials(name, trials, search_seconds) for name in dict.fromkeys([OURS, *names])
    }
    chosen = {name: comparison.search(of_contender) for name, of_contender in tried.items()}
    runs: dict[str, list[Row]] = {name: [] for name in names}
    # Seed by seed, so that a machine that becomes slower does so for all contenders.
    for seed in all_seeds:
        ours = comparison.measure(replace(chosen[OURS], seconds=seconds, seed=seed))
        for name in names:
            budget = seconds if name == OURS else float(ours["cpu_seconds"])
            runs[name].append(comparison.measure(replace(chosen[name], seconds=budget, seed=seed)))
    require_same_judge([row for measured in runs.values() for row in measured])
    contenders = [summarize(measured) for measured in runs.values()]
    searched = []
    for name in names:
        for settings in tried[name]:
            searched.append(comparison.measure(settings, searching=True))
    content = describe(judge, contenders, searched)
    content |= {"seconds": seconds, "search_seconds": search_seconds, "trials": trials}
    write_json(report, {**content, "params": load_params().training_digest(data.name)})
    means = {row["contender"]: row["mean"] for row in contenders}
    print(pd.DataFrame(means).T.to_string(float_format="{:.4g}".format))
    yield from compare(contenders)
    yield from latent_gain(contenders)


def describe(judge: Judge, rows: list[Row], searched: list[Row]) -> Row:
    """Describe what was measured, for results/baselines.json."""
    keys = (
        "contender", "options", "images_seen", "parameters", "validation_bits_per_dim",
        "validation_frechet",
    )  # fmt: skip
    for row in rows:
        row["settings"] = ", ".join(describe_options(row["options"]))
    return {
        "n": judge.n,
        "machine": engine.describe_machine(),
        "rows": rows,
        "search": [{key: row[key] for key in keys} for row in searched],
    }
