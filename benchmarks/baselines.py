"""Our image model beside the VAEs of two public libraries, at equal CPU time and by five judges.

Each baseline of `baseline_models` is tuned: as many settings of its SPACE as `--trials` says, the
library's own first and the others at random (Bergstra and Bengio 2012), are trained with seed 0 for
a tenth of the budget; those with the lowest bits/dim and the lowest Fréchet distance on the
validation split are trained for all of it, with the first of `--seeds`. The budget is the CPU
seconds that our model takes with the same seed on one thread. Ours and the best baselines, by
either number, are trained with all seeds.

Every contender has the same samplers (`baseline_runs.SAMPLERS`), fitted by the same procedure
outside of the budget. One is chosen by draws that are compared with the validation split; other
draws of it are compared with 10,000 test images. The judges are three classifiers trained with
different seeds (Fréchet distance), the kernel distance of the first one's features, and a
two-sample test. A baseline has a mean but no likelihood of levels: bits/dim are those of a Gaussian
around its mean, rounded and discretised to the 256 levels, with one sigma fitted on the validation
split, plus the KL of one posterior draw.

Rows of finished runs are kept in `--rows`; a killed benchmark resumes with the next one. To use two
cores, run `--only ours`, then two with other contenders at a time, then one with all. All rows are
measured by the same classifiers: those of stage judges, or the released ones.
"""

import hashlib
import itertools
import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import typer
from platformdirs import user_cache_dir

import genlab
from benchmarks import baseline_models, baseline_runs
from benchmarks.baseline_results import Row, compare, leads, require_same_judges, summarize
from benchmarks.baseline_runs import OURS, Outcome, Settings, run_baseline, run_ours
from benchmarks.harness import Result, benchmark
from genlab.core import engine
from genlab.core.errors import GenlabError
from genlab.core.io import UNFINISHED, read_json, sha256, write_json
from genlab.core.params import load_params
from genlab.datasets.images import load_images, load_labels
from genlab.datasets.manifests import MANIFEST_FILE
from genlab.evaluation.metrics import frechet, kid, two_sample
from genlab.evaluation.metrics.fidelity import fidelity
from genlab.evaluation.metrics.judges import SEEDS, TrainingSet, load_judges

LOSSES = ("mse", "bce")
RATES = (1e-4, 1e-3, 3e-3)
SPACE: dict[str, tuple[tuple[Any, ...], ...]] = {
    "pythae-mlp": (LOSSES, RATES, (512, 1024, 2048), (10, 32, 128)),
    "pythae-conv": (LOSSES, RATES, (128, 64, 32, 16), (16, 64, 128)),
    "antixk": (("",), (5e-3, 1.5e-3, 5e-4), (32, 16, 64), (128, 32, 256)),
}
"""Tuned of each baseline: loss, learning rate, width, latents; the library's own come first."""
DRAWS = 10_000
CHOOSING_DRAWS = 5_000
SEARCH_DRAWS = 1_000
# Added to the seed, of which only 32 bits count
CHOOSING_SEED = 1 << 30
REPORTED_SEED = 1 << 31
VERSION = 5  # raise it where the judge changes
MAKING = UNFINISHED / "baselines"  # our model while it trains


class Judge:
    """Measure outcomes against the images of the folder `data` by the classifiers of stage judges.

    judges: folder of these classifiers.
    """

    def __init__(self, data: Path, judges: Path) -> None:
        train, val, self.test = (
            np.array(load_images(data, name)) for name in ("train", "val", "test")
        )
        training_set = TrainingSet.of_dataset(data.name, train, load_labels(data, "train"))
        self.classifiers = load_judges(training_set, judges)
        self.digests = [classifier.digest for classifier in self.classifiers]
        self.features = [classifier.features(self.test) for classifier in self.classifiers]
        first = self.classifiers[0]
        self.validation = first.features(val)
        self.n = min(DRAWS, len(self.test))
        self.reference = frechet.train_reference(first.features(train), self.features[0], self.n)

    def validate(self, outcome: Outcome, seed: int, draws: int) -> Row:
        """Measure bits/dim on the validation split and each sampler's distance to it."""
        first = self.classifiers[0]
        distances = {}
        for name, draw in outcome.samplers.items():
            features = first.features(draw(draws, seed + CHOOSING_SEED))
            distances[name] = frechet.distance(features, self.validation)
        best = min(distances, key=lambda name: distances[name])
        return {
            "validation_bits_per_dim": self._bits_per_dim(outcome.validation_nats),
            "samplers": distances,
            "best_sampler": best,
            "validation_frechet": distances[best],
            "judges": self.digests,
            **outcome.facts,
        }

    def measure(self, outcome: Outcome, seed: int) -> Row:
        """Measure the same, and every judge's metrics of new draws of the best sampler."""
        row = self.validate(outcome, seed, CHOOSING_DRAWS)
        images = outcome.samplers[row["best_sampler"]](self.n, seed + REPORTED_SEED)
        features = [classifier.features(images) for classifier in self.classifiers]
        distances = list(map(frechet.distance, features, self.features))
        reconstructions, nats = outcome.test()
        pixels = fidelity(self.test, reconstructions, bootstrap=100)
        classified = two_sample.two_sample_test(images, self.test, seed=seed)
        return {
            **row,
            "bits_per_dim": self._bits_per_dim(nats),
            **{name: pixels[name] for name in ("mse", "psnr", "ssim")},
            "frechet_distance": distances[0],
            **{f"frechet_{seed}": distances[seed] for seed in SEEDS[1:]},
            "relative_frechet": distances[0] / self.reference["frechet_distance"],
            "kid": kid.kid(features[0], self.features[0])["kid"],
            "discriminator_accuracy": classified["discriminator_accuracy"],
        }

    def _bits_per_dim(self, nats: npt.NDArray[np.float64]) -> float:
        return float(nats.mean()) / (self.test[0].size * math.log(2))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Train and measure contenders; each run's metrics are saved as a file in `rows`."""

    data: Path
    rows: Path
    judge: Judge

    def run(self, settings: Settings) -> Outcome:
        """Train a contender and fit its samplers."""
        if settings.contender == OURS:
            return run_ours(settings, MAKING / str(settings.seed), self.data)
        return run_baseline(settings, self.data)

    def row(self, settings: Settings, state: str) -> Path:
        """Return the file of a run's row, which depends on settings, data and code."""
        code = [Path(module.__file__) for module in (baseline_models, baseline_runs)]
        package = Path(genlab.__file__).parent
        digests = []
        ours = settings.contender == OURS
        for folder in ("distributions", "vae" if ours else "vae/sampling"):
            code += sorted((package / folder).rglob("*.py"))
        if ours:
            digests.append(load_params().training_digest(self.data.name))
        digests += [sha256(file) for file in (self.data / MANIFEST_FILE, *code)]
        text = json.dumps([asdict(settings), digests, VERSION])
        key = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self.rows / f"{settings.contender}-{state}-{key}.json"

    def measure(self, settings: Settings, *, searching: bool = False) -> Row:
        """Train and measure a contender, or read its saved row; a search uses no test image."""
        path = self.row(settings, "validated" if searching else "measured")
        if not path.exists():
            outcome = self.run(settings)
            seed = settings.seed
            if searching:
                row = self.judge.validate(outcome, seed, settings.samples)
            else:
                row = self.judge.measure(outcome, seed)
            write_json(path, {**asdict(settings), **row})
            bits = f"{row['validation_bits_per_dim']:.3f} bits/dim"
            text = f"{bits}, Fréchet distance {row['validation_frechet']:.2f} on validation"
            print(f"{settings.title}, seed {seed}: {text}", flush=True)
        return dict(read_json(path, producer_command=f"rm {path}; make bench"))

    def search(self, trials: Sequence[Settings]) -> dict[Settings, list[str]]:
        """Find the best settings by each validation metric, and for which each was chosen."""
        rows = [self.measure(settings, searching=True) for settings in trials]
        require_same_judges(rows)
        chosen: dict[Settings, list[str]] = {}
        for aim in ("bits_per_dim", "frechet"):
            best = int(np.argmin([row[f"validation_{aim}"] for row in rows]))
            chosen.setdefault(trials[best], []).append(aim)
        return chosen


def make_trials(contender: str, trials: int, seconds: float) -> list[Settings]:
    """List the library's own setting, then others of its space in a random order."""
    default, *variants = (
        Settings(contender, *values, seconds=seconds, samples=SEARCH_DRAWS)
        for values in itertools.product(*SPACE[contender])
    )
    return [default, *random.Random(0).sample(variants, min(trials - 1, len(variants)))]


def select(only: str) -> list[str]:
    """Parse the option --only: the named contenders, or all where it is empty."""
    contenders = [OURS, *SPACE]
    names = [name.strip() for name in only.split(",")] if only else contenders
    for name in names:
        if name not in contenders:
            raise GenlabError(f"--only: no contender {name!r}; known: {', '.join(contenders)}")
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


@benchmark(
    "images.frechet_over_baseline",
    "images.bpd_below_baseline",
    "images.discriminator_accuracy",
    "images.discriminator_below_baseline",
    "images.judges_agree",
)
def baselines(
    search_seconds: Annotated[
        float, typer.Option(min=0, help="CPU seconds of each setting tried; 0 = a tenth of ours.")
    ] = 0,
    trials: Annotated[int, typer.Option(min=1, help="Settings tried of each baseline.")] = 12,
    epochs: Annotated[int, typer.Option(min=0, help="Epochs of ours; 0 = the params'.")] = 0,
    seeds: Annotated[
        str, typer.Option(help="Seeds, separated by commas; the first one is of every contender.")
    ] = "0,1,2,3,4",
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
    first_seed, *other_seeds = read_seeds(seeds)
    shape = load_images(data, "test").shape[1:]
    if shape != (28, 28, 1):
        raise GenlabError(f"{data}: baselines are made for 28 x 28 x 1, got {shape}; choose --data")
    if any(name.startswith("pythae") for name in names):
        package = baseline_models.PYTHAE[0].replace("==", "-")
        baseline_models.install_pythae(Path(user_cache_dir("genlab")) / package)
    engine.make_deterministic(0, 1)
    judge = Judge(data, judges)
    comparison = Comparison(data, rows, judge)
    ours = Settings(OURS, epochs=epochs)
    chosen: dict[Settings, list[str]] = {ours: []} if OURS in names else {}

    def budget(seed: int) -> float:
        return float(comparison.measure(replace(ours, seed=seed))["cpu_seconds"])

    search_seconds = search_seconds or budget(first_seed) / 10
    tried = [make_trials(name, trials, search_seconds) for name in names if name != OURS]
    for trials_of_one in tried:
        for settings, aims in comparison.search(trials_of_one).items():
            chosen[replace(settings, samples=DRAWS)] = aims

    def measure(settings: Settings, seed: int) -> Row:
        seconds = 0.0 if settings.contender == OURS else budget(seed)
        return comparison.measure(replace(settings, seconds=seconds, seed=seed))

    measured = {settings: [measure(settings, first_seed)] for settings in chosen}
    require_same_judges([runs[0] for runs in measured.values()])
    first = {settings: summarize(runs, chosen[settings]) for settings, runs in measured.items()}
    leading = [settings for settings, row in first.items() if leads(row, list(first.values()))]
    # Seed by seed, so that a machine that becomes slower does so for all contenders.
    for seed in other_seeds:
        rows_of_seed = {settings: measure(settings, seed) for settings in leading}
        require_same_judges(list(rows_of_seed.values()))
        for settings, row in rows_of_seed.items():
            measured[settings].append(row)
    contenders = [summarize(runs, chosen[settings]) for settings, runs in measured.items()]
    searched = []
    for trials_of_one in tried:
        for settings in trials_of_one:
            searched.append(comparison.measure(settings, searching=True))
    trained = load_params().training_digest(data.name)
    write_json(report, describe(judge, contenders, searched, search_seconds, trained))
    means = {}
    for settings, row in zip(measured, contenders, strict=True):
        means[settings.title] = row["mean"]
    print(pd.DataFrame(means).T.to_string(float_format="{:.4g}".format))
    yield from compare(contenders)


def describe(
    judge: Judge, rows: list[Row], searched: list[Row], search_seconds: float, params: str
) -> Row:
    """Make the content of results/baselines.json. params: digest of our training's params."""
    keys = ("contender", *Settings.TUNED, "images_seen", "parameters")
    numbers = ("validation_bits_per_dim", "validation_frechet")
    return {
        "search_seconds": search_seconds,
        "params": params,
        "n": judge.n,
        "machine": engine.describe_machine(),
        "rows": rows,
        "search": [{key: row[key] for key in (*keys, *numbers)} for row in searched],
    }
