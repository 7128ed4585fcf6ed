"""Ours beside the VAEs that people reach for, on the same machine, data, CPU-seconds and judge.

Baselines, each trained by `baseline_worker.py` on one thread for `--seconds` of CPU time:

- `pythae-mlp`: pythae 0.1.2's `VAE` as it comes, `pythae-conv`: the same with the convolutional
  networks it brings for 28 x 28; 10 and 16 latents, its default and that of its MNIST examples.
- `antixk`: PyTorch-VAE's `VanillaVAE` from its published settings (see `baseline_worker.Vanilla`).

pythae goes into a folder of its own with pydantic 1 (`pip install --no-deps --target`); torch and
the rest are those of the running environment, which stays as it is.

A baseline gets the best of its learning rates. All are run with the first seed for `--search-seconds`,
and the one with the fewest bits/dim and that with the least Fréchet distance, both on the
validation split, go on with the first seed at full length: as two rows, should they differ. Of
the baselines as they come, those that lead in one of both are run with the other seeds too, and so are
ours.

pythae's loss is the squared error unless one says otherwise; `images.frechet_over_baseline` and
`images.bpd_below_baseline` are about baselines as they come. Cross-entropy serves its MLP much better here:
it takes part as a baseline of its own, in `images.frechet_over_tuned` and `images.bpd_below_tuned`.

The judge is one for all: a classifier trained on the train split (`genlab.evaluation.metrics.features`), test
images, n = 10,000. A sampler is picked on the validation split. bits/dim of a baseline: it has a mean
but no likelihood of levels, so a Gaussian with one sigma is put around its mean and discretised to
the 256 levels; sigma is fitted afterwards, on the validation split; to the nats of one posterior
draw's reconstruction its KL is added. (Means are rounded to levels on their way here, which at such
a sigma, tens of levels, moves nothing that is printed.)

Finished runs are kept in `--output`; a killed run goes on with the next one.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
import typer
from platformdirs import user_cache_dir
from scipy import stats
from scipy.optimize import minimize_scalar

import genlab
from benchmarks.baseline_worker import KEYS, KIND, VALIDATED
from benchmarks.harness import Result, benchmark
from genlab.core import engine
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, read_npz, sha256, write_json
from genlab.core.params import Params, load_params
from genlab.datasets.image_files import LEVELS, MANIFEST_FILE, load_images, load_labels
from genlab.datasets.registry import find_dataset
from genlab.distributions.likelihoods import HALF_LEVEL, Gaussian
from genlab.evaluation.evaluators.images import extractor
from genlab.evaluation.metrics import frechet
from genlab.evaluation.metrics.fidelity import fidelity
from genlab.evaluation.metrics.manifold import manifold
from genlab.vae.sampling import posterior as inference
from genlab.vae.sampling import samplers
from genlab.vae.training.batches import epoch_generator
from genlab.vae.training.run import load_items
from genlab.vae.training.tasks import Task, make_task
from genlab.vae.training.trainer import Trainer

Images = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Row = dict[str, Any]

REQUIREMENTS = ("pythae==0.1.2", "pydantic<2", "cloudpickle>=2.1", "imageio")
INSTALLED = "installed.json"
WORKER = Path(__file__).with_name("baseline_worker.py")
COMMAND = "python benchmarks/run.py baselines"
OURS = "ours"
DEFAULT_LOSS, TUNED_LOSS = "mse", "bce"
SAMPLER_SHARE = 0.2  # of the seconds of ours, for fitting what its draws are thinned by
TIMED = 8  # updates that the pace is taken from
SAMPLES, SEARCHED, MANIFOLD_N, CHUNK = 10_000, 2_000, 2_000, 1_000
MEASURED, VERSION = "peer_measured", 1  # raise the version where the judge changes


@dataclass(frozen=True)
class Settings:
    """One run. loss, rate: empty and None where the contender has its own.

    samples: how many each sampler draws, and how many test images are looked at.
    """

    contender: str
    loss: str
    rate: float | None
    seconds: float
    seed: int
    samples: int


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run hands to the judge.

    reconstructions: of the test images; samples: a set a sampler; uint8 (n, h, w, c). *_nats: minus
    the ELBO of each image over 256 levels at one posterior draw, (n,). facts: cpu_seconds,
    images_seen, updates, parameters, and what else is worth keeping.
    """

    reconstructions: Images
    samples: dict[str, Images]
    validation_nats: Floats
    test_nats: Floats
    facts: dict[str, Any]


@dataclass(frozen=True)
class Contender:
    """Who takes part: how it is run, in the folder of that run, and what is tried of it.

    code: files and folders of Python; where they change, runs that were kept count no more.
    """

    name: str
    run: Callable[[Settings, Path], Outcome]
    code: tuple[Path, ...]
    losses: tuple[str, ...] = ("",)
    rates: tuple[float | None, ...] = (None,)

    def tried(self, seconds: float, seed: int, samples: int) -> list[Settings]:
        """Every combination of loss and rate."""
        pairs = [(loss, rate) for loss in self.losses for rate in self.rates]
        return [Settings(self.name, loss, rate, seconds, seed, samples) for loss, rate in pairs]


def install(folder: Path) -> None:
    """Put pythae and what it needs into `folder`, once; whole or not at all.

    Raises a GenlabError of one line where pip cannot, or where `folder` holds something else.
    """
    if installed(folder):
        return
    if folder.exists() and any(folder.iterdir()) and not (folder / INSTALLED).exists():
        raise GenlabError(
            f"{folder} holds something else than pythae; choose an empty folder: --environment"
        )
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--target", str(part), *REQUIREMENTS]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise GenlabError(
            f"pip could not install {REQUIREMENTS[0]} ({_last_line(done.stderr)}); connect to a"
            " package index, or name a folder that has it: --environment"
        )
    write_json(part / INSTALLED, list(REQUIREMENTS))
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(part, folder)


def installed(folder: Path) -> bool:
    """Whether `folder` holds what `install` puts there."""
    mark = folder / INSTALLED
    return mark.exists() and read_json(mark, producer_command=COMMAND) == list(REQUIREMENTS)


def run_peer(settings: Settings, folder: Path, *, data: Path, environment: Path) -> Outcome:
    """Train the baseline of `settings` in a process of its own, or read what it left in `folder`."""
    output = folder / "run.npz"
    if not output.exists():
        job = {**asdict(settings), "data": str(data.resolve())}
        write_json(folder / "job.json", job)
        library = Path(genlab.__file__).parents[1]
        path = os.pathsep.join(str(each.resolve()) for each in (environment, library))
        done = subprocess.run(
            [sys.executable, str(WORKER), str(folder / "job.json"), str(output)],
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise GenlabError(
                f"{folder}: {settings.contender} failed ({_last_line(done.stderr)}); mend it, or"
                " leave it out: --only"
            )
    found = read_npz(output, kind=KIND, keys=KEYS, producer_command=f"rm {output}; {COMMAND}")
    test = load_images(data, "test")[: settings.samples]
    images = {"val": load_images(data, "val")[:VALIDATED], "test": test}
    sigma = fitted_sigma(images["val"], found["val_means"])
    nats = {
        split: found[f"{split}_kl"] + gaussian_nats(images[split], found[f"{split}_means"], sigma)
        for split in images
    }
    samples = {name: found[name] for name in ("normal", "gmm")}
    facts = {**json.loads(str(found["facts"])), "sigma": sigma}
    return Outcome(found["reconstructions"], samples, nats["val"], nats["test"], facts)


def run_ours(settings: Settings, folder: Path, *, data: Path) -> Outcome:
    """Train the default model of params.yaml on one thread, for as many epochs as the CPU-seconds
    are thought to hold, and draw from it.

    The fit of a discriminator is training too: SAMPLER_SHARE of the seconds are left for it.
    """
    params = load_params().with_overrides(seed=settings.seed, threads=1, device="cpu")
    params = params.for_dataset(data.name)
    engine.deterministic(params.seed, 1)
    _, train, val = load_items(params, find_dataset(data.name), data)
    task = make_task(params, data.name, train, LEVELS)
    left = settings.seconds * (1 - SAMPLER_SHARE)
    epochs = max(1, round(left / _seconds_an_epoch(params, task, val, folder)))
    params = params.with_overrides(epochs=epochs)
    # A run that was killed is begun again: its CPU-seconds would be counted in part alone.
    shutil.rmtree(folder / "making", ignore_errors=True)
    trainer = Trainer(params, task, val, folder / "making")
    start = time.process_time()
    model = trainer.run(lambda *_: None)
    trained = time.process_time() - start
    test = load_images(data, "test")[: settings.samples]
    seed, fitted = settings.seed, 0.0
    nats = [sum(inference.elbo_terms(model, x, seed)) for x in (val[:VALIDATED], test)]
    samples = {}
    for name in samplers.names(model):
        if name in ("accepted", "prior"):
            start = time.process_time()
            sampler = samplers.fit(model, name, train, seed, settings.samples)
            fitted += time.process_time() - start
            samples[name] = samplers.sample(model, sampler, settings.samples, seed)
    facts = {
        "cpu_seconds": trained + fitted,
        "sampler_seconds": fitted,
        "images_seen": trainer.progress.updates * params.batch_size,
        "updates": trainer.progress.updates,
        "parameters": sum(model.parameter_counts().values()),
    }
    trainer.forget()
    return Outcome(inference.reconstruct(model, test), samples, nats[0], nats[1], facts)


def _seconds_an_epoch(params: Params, task: Task, val: Images, folder: Path) -> float:
    """CPU-seconds that an epoch takes, from a few updates and one validation."""
    trainer = Trainer(params, task, val, folder / "timing")
    generator, batches = epoch_generator(params.seed, 0), trainer.batches(0)
    for _ in range(TIMED):  # the first updates are slower
        trainer.update(next(batches), params.beta_max, generator)
    start = time.process_time()
    for _ in range(TIMED):
        trainer.update(next(batches), params.beta_max, generator)
    update = (time.process_time() - start) / TIMED
    start = time.process_time()
    trainer.validate(params.beta_max)
    return update * trainer.updates_an_epoch + time.process_time() - start


def fitted_sigma(images: Images, means: Images) -> float:
    """The sigma on [0, 1] at which `gaussian_nats` is least."""

    def nats(log_sigma: float) -> float:
        return float(gaussian_nats(images, means, math.exp(log_sigma)).mean())

    edges = (math.log(HALF_LEVEL), 0.0)
    return math.exp(minimize_scalar(nats, bounds=edges, method="bounded").x)


@torch.no_grad()
def gaussian_nats(images: Images, means: Images, sigma: float) -> Floats:
    """-log p of each image under a Gaussian around `means`, discretised to the levels. (n,)."""
    gaussian = Gaussian(1)
    gaussian.log_sigma.fill_(math.log(sigma))
    found = []
    for start in range(0, len(images), CHUNK):
        rows = slice(start, start + CHUNK)
        x, mean = (torch.from_numpy(np.array(each[rows])) for each in (images, means))
        mean = mean.float() / 255
        found.append(-gaussian.log_prob(mean.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2)).numpy())
    return np.concatenate(found).astype(np.float64)


class Judge:
    """Measures outcomes against the images of the folder `data`, by one set of features.

    shown: images that the classifier's training shows; the features are those of stage evaluate.
    """

    def __init__(self, data: Path, shown: int) -> None:
        self.test = np.array(load_images(data, "test"))
        self.n = min(SAMPLES, len(self.test))
        train = load_images(data, "train")
        self.classifier = extractor(data.name, data, train, load_labels(data, "train"), 0, shown)
        self.digest = self.classifier.digest
        self.accuracy = self.classifier.accuracy(self.test, load_labels(data, "test"))
        self.features = self.classifier.features(self.test)
        self.validation = self.classifier.features(load_images(data, "val"))
        self.floor = frechet.train_reference(self.classifier.features(train), self.features, self.n)

    def measure(self, outcome: Outcome) -> Row:
        """bits/dim, fidelity, and the samplers' Fréchet distances with the one picked."""
        bits = self.test[0].size * math.log(2)
        shown = outcome.reconstructions
        found = fidelity(self.test[: len(shown)], shown, bootstrap=100)
        features = {name: self.classifier.features(x) for name, x in outcome.samples.items()}
        samplers = {
            name: {
                "frechet_distance": frechet.distance(rows[: self.n], self.features),
                "validation_frechet": frechet.distance(rows, self.validation),
            }
            for name, rows in features.items()
        }
        best = min(samplers, key=lambda name: samplers[name]["validation_frechet"])
        shape = manifold(features[best][:MANIFOLD_N], self.features[:MANIFOLD_N], bootstrap=100)
        reached = samplers[best]["frechet_distance"]
        return {
            "bits_per_dim": float(outcome.test_nats.mean()) / bits,
            "validation_bits_per_dim": float(outcome.validation_nats.mean()) / bits,
            **{name: found[name] for name in ("mse", "psnr", "ssim")},
            "samplers": samplers,
            "best_sampler": best,
            "frechet_distance": reached,
            "validation_frechet": samplers[best]["validation_frechet"],
            **{name: shape[name] for name in ("precision", "recall", "density", "coverage", "k")},
            **outcome.facts,
        }


@dataclass(frozen=True, eq=False)
class Bench:
    """Runs settings and has them measured; both are kept in `output` and not done again."""

    data: Path
    output: Path
    judge: Judge
    contenders: dict[str, Contender]

    def folder(self, settings: Settings) -> Path:
        """Where a run is kept: told by its settings, the data and the contender's code."""
        code = [sha256(file) for file in _files(self.contenders[settings.contender].code)]
        text = json.dumps([asdict(settings), _data_digest(self.data), code])
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return self.output / f"{settings.contender}-{digest}"

    def measured(self, settings: Settings) -> Row:
        """What the judge says of a run."""
        folder = self.folder(settings)
        path = folder / "measured.json"
        key = {"version": VERSION, "features": self.judge.digest}
        if path.exists():
            kept = read_json(path, producer_command=f"rm {path}; {COMMAND}", kind=MEASURED)
            if all(kept.get(name) == value for name, value in key.items()):
                return self._over_floor(kept["row"])
        outcome = self.contenders[settings.contender].run(settings, folder)
        row = {**asdict(settings), **self.judge.measure(outcome)}
        write_json(path, {"kind": MEASURED, **key, "row": row})
        said = f"{row['bits_per_dim']:.3f} bits/dim, Fréchet distance {row['frechet_distance']:.2f}"
        print(f"{title(row)}, seed {settings.seed}: {said}", flush=True)
        return self._over_floor(row)

    def _over_floor(self, row: Row) -> Row:
        over = row["frechet_distance"] / self.judge.floor["frechet_distance"]
        return {**row, "relative_frechet": over}

    def chosen(self, tried: Sequence[Settings]) -> dict[Settings, list[str]]:
        """The settings that go on to all seeds, and what each of them was best for."""
        if len(tried) == 1:
            return {tried[0]: []}
        return best_settings(tried, [self.measured(each) for each in tried])


def best_settings(tried: Sequence[Settings], rows: Sequence[Row]) -> dict[Settings, list[str]]:
    """Settings with the least of each validation number: one entry where one has both."""
    chosen: dict[Settings, list[str]] = {}
    for aim in ("bits_per_dim", "frechet"):
        at = int(np.argmin([row[f"validation_{aim}"] for row in rows]))
        chosen.setdefault(tried[at], []).append(aim)
    return chosen


COLUMNS = {
    "cpu_seconds": ("CPU s", ".0f"),
    "images_seen": ("images seen", ",.0f"),
    "bits_per_dim": ("bits/dim", ".3f"),
    "ssim": ("SSIM", ".3f"),
    "psnr": ("PSNR", ".2f"),
    "frechet_normal": ("Fréchet N(0,I)", ".2f"),
    "frechet_distance": ("Fréchet best", ".2f"),
    "relative_frechet": ("over floor", ".1f"),
}
COUNTED = ("cpu_seconds", "images_seen")


def summary(runs: Sequence[Row], aims: Sequence[str]) -> Row:
    """Mean and standard deviation over seeds of the runs of one contender with one setting.

    A number that a run has not got (N(0, I) of a model with another prior) is None; so is the
    deviation of a single seed.
    """
    mean: dict[str, float | None] = {}
    spread: dict[str, float | None] = {}
    for name in COLUMNS:
        values = [_number(run, name) for run in runs]
        known = [value for value in values if value is not None]
        mean[name] = float(np.mean(known)) if len(known) == len(values) else None
        spread[name] = float(np.std(known, ddof=1)) if 1 < len(known) == len(values) else None
    first = runs[0]
    return {
        **{key: first[key] for key in ("contender", "loss", "rate")},
        "chosen_for": list(aims),
        "seeds": [run["seed"] for run in runs],
        "samplers": [run["best_sampler"] for run in runs],
        "mean": mean,
        "sd": spread,
        "runs": list(runs),
    }


def _number(run: Row, name: str) -> float | None:
    if name != "frechet_normal":
        return float(run[name])
    found = run["samplers"].get("normal")
    return None if found is None else float(found["frechet_distance"])


def title(row: Row) -> str:
    """Contender, loss and rate, as far as it has them."""
    rate = "" if row["rate"] is None else f"lr {row['rate']:g}"
    return " ".join(part for part in (row["contender"], row["loss"], rate) if part)


def table(rows: Sequence[Row]) -> str:
    """The rows side by side: means over seeds, and standard deviations where there are some."""
    cells = [["", *(head for head, _ in COLUMNS.values()), "sampler"]]
    for row in rows:
        texts = [_cell(row, name, form) for name, (_, form) in COLUMNS.items()]
        cells.append([title(row), *texts, "/".join(sorted(set(row["samplers"])))])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for first, *rest in cells:
        padded = [text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *padded]).rstrip())
    return "\n".join(lines)


def _cell(row: Row, name: str, form: str) -> str:
    mean, spread = row["mean"][name], row["sd"][name]
    if mean is None:
        return "–"
    return f"{mean:{form}}" + ("" if spread is None or name in COUNTED else f" ± {spread:{form}}")


Compared = tuple[float, tuple[float, float] | None]


def ratio(one: Sequence[float], other: Sequence[float]) -> Compared:
    """Mean of `one` over mean of `other`, with its 95 % interval.

    Seeds are few and unpaired: Welch's t-interval (1947) of the difference of the logarithms, whose
    variances are those of the means over their squares. None with a single seed.
    """
    value = float(np.mean(one) / np.mean(other))
    half = _half_width([np.asarray(x) / np.mean(x) for x in (one, other)])
    if half is None:
        return value, None
    return value, (value * math.exp(-half), value * math.exp(half))


def difference(one: Sequence[float], other: Sequence[float]) -> Compared:
    """Mean of `one` minus mean of `other`, with Welch's 95 % interval; None with a single seed."""
    value = float(np.mean(one) - np.mean(other))
    half = _half_width([np.asarray(x) for x in (one, other)])
    return value, None if half is None else (value - half, value + half)


def _half_width(samples: Sequence[Floats]) -> float | None:
    if min(map(len, samples)) < 2:
        return None
    squares = [float(x.var(ddof=1)) / len(x) for x in samples]
    total = sum(squares)
    if total == 0:
        return 0.0
    freedom = total**2 / sum(
        square**2 / (len(x) - 1) for square, x in zip(squares, samples, strict=True)
    )
    return float(stats.t.ppf(0.975, freedom) * math.sqrt(total))


def compare(rows: Sequence[Row]) -> dict[str, tuple[Compared, Row]]:
    """The keys of `results/benchmarks.json`: ours against whichever baseline is best at each.

    `_peer`: of baselines as they come; `_tuned`: of those with TUNED_LOSS. Nothing is said of baselines or
    of ours where they are missing. Beside each value stands the baseline it is about.
    """
    ours = next((row for row in rows if row["contender"] == OURS), None)
    found: dict[str, tuple[Compared, Row]] = {}
    for name, group in _groups(rows).items():
        if ours is None or not group:
            continue
        nearest, shortest = _best(group, "frechet_distance"), _best(group, "bits_per_dim")
        distances = [values(row, "frechet_distance") for row in (ours, nearest)]
        bits = [values(row, "bits_per_dim") for row in (shortest, ours)]
        found[f"images.frechet_over_{name}"] = (ratio(*distances), nearest)
        found[f"images.bpd_below_{name}"] = (difference(*bits), shortest)
    return found


def leaders(rows: Sequence[Row]) -> list[bool]:
    """Whether each row is ours, or the best at something of the baselines as they come."""
    group = _groups(rows)["baseline"]
    best = [_best(group, name) for name in ("frechet_distance", "bits_per_dim") if group]
    return [row["contender"] == OURS or any(row is each for each in best) for row in rows]


def _groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    baselines = [row for row in rows if row["contender"] != OURS]
    return {
        "baseline": [row for row in baselines if row["loss"] != TUNED_LOSS],
        "tuned": [row for row in baselines if row["loss"] == TUNED_LOSS],
    }


def _best(rows: Sequence[Row], name: str) -> Row:
    return min(rows, key=lambda row: row["mean"][name])


def values(row: Row, name: str) -> list[float]:
    """A number of each seed."""
    return [run[name] for run in row["runs"]]


def ratios(rows: Sequence[Row]) -> list[str]:
    """A line a baseline: ours over it, in each column that is a result."""
    ours = next((row for row in rows if row["contender"] == OURS), None)
    lines = []
    for row in rows if ours else []:
        if ours is None or row is ours:
            continue
        shares = [
            f"{COLUMNS[name][0]} {ours['mean'][name] / row['mean'][name]:.3f}"
            for name in ("bits_per_dim", "ssim", "psnr", "frechet_distance")
        ]
        lines.append(f"ours over {title(row)}: " + ", ".join(shares))
    return lines


def baseline_contenders(data: Path, environment: Path) -> list[Contender]:
    """The baselines, with the published rate of each among those tried."""
    run = partial(run_peer, data=data, environment=environment)
    rates = (1e-4, 1e-3, 3e-3)
    return [
        Contender("pythae-mlp", run, (WORKER,), (DEFAULT_LOSS, TUNED_LOSS), rates),
        # Its networks take 15 times as long: two rates.
        Contender("pythae-conv", run, (WORKER,), (DEFAULT_LOSS,), rates[:2]),
        Contender("antixk", run, (WORKER,), rates=(5e-4, 1.5e-3, 5e-3)),
    ]


def contenders(data: Path, environment: Path) -> dict[str, Contender]:
    """All who can take part, by name."""
    code = (Path(genlab.__file__).parent / "vae", Path("params.yaml"))
    ours = Contender(OURS, partial(run_ours, data=data), code)
    return {each.name: each for each in [ours, *baseline_contenders(data, environment)]}


def taking_part(known: Mapping[str, Contender], only: str) -> list[Contender]:
    """The contenders that the option --only names; all where it is empty."""
    groups = {"": list(known), "baselines": [name for name in known if name != OURS]}
    names = groups.get(only) or [name.strip() for name in only.split(",")]
    for name in names:
        if name not in known:
            raise GenlabError(
                f"--only: nobody is called {name!r}; known: baselines, {', '.join(known)}"
            )
    return [known[name] for name in names]


def _data_digest(data: Path) -> str:
    return sha256(data / MANIFEST_FILE)[:12]


def _files(code: Sequence[Path]) -> list[Path]:
    folders = (sorted(each.rglob("*.py")) if each.is_dir() else [each] for each in code)
    return [file for files in folders for file in files]


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip()[:200] if lines else "it said nothing"


@benchmark(
    "images.frechet_over_baseline",
    "images.bpd_below_baseline",
    "images.frechet_over_tuned",
    "images.bpd_below_tuned",
)
def baselines(
    seconds: Annotated[float, typer.Option(min=1, help="CPU-seconds of training a run.")] = 1000,
    search_seconds: Annotated[
        float, typer.Option(min=1, help="The same of a run that chooses a rate.")
    ] = 40,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds, from 0.")] = 3,
    only: Annotated[
        str, typer.Option(help="Who takes part: baselines, or names with commas.")
    ] = "",
    data: Annotated[Path, typer.Option(help="Folder that stage split wrote.")] = Path(
        "data/fashion_mnist"
    ),
    environment: Annotated[
        Path | None, typer.Option(help="Folder for pythae. (default: in the user's cache)")
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder that finished runs are kept in.")] = Path(
        "data/.making/baselines"
    ),
    report: Annotated[Path, typer.Option(help="File that all rows go to.")] = Path(
        "results/baselines.json"
    ),
) -> Iterator[Result]:
    """Train baselines and ours for the same CPU time and compare them."""
    shape = load_images(data, "test").shape[1:]
    if shape != (28, 28, 1):
        raise GenlabError(f"{data}: baselines are made for 28 x 28 x 1, got {shape}; choose --data")
    engine.deterministic(0, 1)
    folder = environment or Path(user_cache_dir("genlab")) / "baselines"
    known = contenders(data, folder)
    entered = taking_part(known, only)
    if any(each.name != OURS for each in entered):
        install(folder)
    judge = Judge(data, load_params().evaluate.extractor_examples)
    made = Bench(data, output, judge, known)
    budget = min(search_seconds, seconds)
    samples = SAMPLES if budget == seconds else SEARCHED
    tries = [
        [settings for settings in each.tried(budget, 0, samples) if settings.loss == loss]
        for each in entered
        for loss in each.losses
    ]
    chosen = [made.chosen(each) for each in tries]
    aims = {
        replace(each, seconds=seconds, samples=SAMPLES): why
        for one in chosen
        for each, why in one.items()
    }
    runs: dict[Settings, list[Row]] = {each: [made.measured(each)] for each in aims}
    leading = leaders([summary(found, aims[each]) for each, found in runs.items()])
    # Seed by seed, so that a machine that changes its pace does so for all.
    for seed in range(1, seeds):
        for each, leads in zip(runs, leading, strict=True):
            if leads:
                runs[each].append(made.measured(replace(each, seed=seed)))
    rows = [summary(found, aims[each]) for each, found in runs.items()]
    tried = [made.measured(each) for settings in tries if len(settings) > 1 for each in settings]
    write_json(report, report_of(judge, rows, tried, seconds, budget))
    print(table(rows))
    print(f"floor {judge.floor['frechet_distance']:.3f}; classifier {judge.accuracy:.4f} right;")
    print(
        "bits/dim of baselines: a Gaussian discretised to 256 levels, its sigma fitted afterwards"
    )
    for line in ratios(rows):
        print(line)
    for key, ((value, interval), baseline) in compare(rows).items():
        print(f"{key}: against {title(baseline)}")
        yield Result(key, value, interval, len(baseline["seeds"]), baseline["seeds"])


def report_of(
    judge: Judge, rows: list[Row], tried: list[Row], seconds: float, searched: float
) -> Row:
    """The content of metrics/baselines.json."""
    features = {"kind": "classifier", "digest": judge.digest, "accuracy": judge.accuracy}
    keys = ("contender", "loss", "rate", "validation_bits_per_dim", "validation_frechet")
    return {
        "seconds": seconds,
        "search_seconds": searched,
        "n": judge.n,
        "features": features,
        "floor": judge.floor,
        "machine": engine.machine(),
        "rows": rows,
        "search": [{key: row[key] for key in keys} for row in tried],
    }
