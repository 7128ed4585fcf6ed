"""Judges: the classifiers that images are compared by, as a file that is made once and kept.

Stage judges writes those of a dataset to data/judges, and a copy is released beside the models;
those of data without a stage are kept in the user's cache. A file's key is a digest of what it was
made from: training images, labels and settings, but not torch's version, so that a released file
serves on every machine. The code of `metrics.features` decides as well: dvc compares that of the
stage's file, and a released file has a digest of it beside it.
"""

import hashlib
import json
import multiprocessing
import shutil
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import torch
from platformdirs import user_cache_path
from safetensors import safe_open
from safetensors.torch import load, save
from torch import Tensor

from genlab.core import code, engine, runtime
from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write, file_error, map_npy, read_json, write_bytes, write_json
from genlab.core.params.catalogue import PUBLISHED
from genlab.evaluation.metrics.features import Classifier, Images, Labels, train_classifier

HEADER, FORMAT, VERSION = "genlab", "genlab.judges", 1
KIND = "released judges"
FOLDER, FILE = Path("data/judges"), "judges.safetensors"
RELEASED = Path("checkpoints")
SEEDS = (0, 1, 2)  # whatever the run's seed; the first classifier is the headline
EXAMPLES = 300_000  # shown to a classifier where no params say how many
CHUNK = 4096  # images hashed at a time


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """What classifiers are trained on.

    images: (n, side, side, channels) uint8, may be mapped from a `.npy`. labels: (n,) classes from
    0; None where there are none to learn (see `Classifier`). dataset: name of the dataset whose
    train split this is, empty for data without a stage.
    """

    images: Images
    labels: Labels | None
    dataset: str = ""

    @classmethod
    def of_dataset(cls, name: str, images: Images, labels: Labels) -> "TrainingSet":
        """The train split of a dataset, without labels where they say nothing of an image.

        labels: -1 where an image has none. Without them classifiers learn the angle of turns.
        """
        dataset = PUBLISHED.get(name)
        shown = dataset is None or dataset.labelled
        usable = shown and labels.min() >= 0 and labels.max() > 0
        return cls(images, labels if usable else None, name)

    @property
    def classes(self) -> int | None:
        """Number of classes, None without labels."""
        return None if self.labels is None else int(self.labels.max()) + 1

    def make_key(self, examples: int, seeds: Sequence[int]) -> str:
        """SHA-256 of the data and settings that decide the weights of classifiers."""
        text = json.dumps([self._digest, self.classes, examples, list(seeds)])
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256(str(self.images.shape).encode())
        for start in range(0, len(self.images), CHUNK):
            digest.update(self.images[start : start + CHUNK].tobytes())
        if self.labels is not None:
            digest.update(self.labels.astype("<i8").tobytes())
        return digest.hexdigest()


def load_judges(
    data: TrainingSet,
    folder: Path | None = None,
    *,
    examples: int | None = None,
    seeds: Sequence[int] = SEEDS,
) -> list[Classifier]:
    """Load the classifiers of a dataset, one per seed.

    folder: of stage judges; where it holds no file, the released one is read if its key fits. Those
    of data without a stage are trained once, into the user's cache. examples: images that each was
    shown; by default as many as the file says. Raises GenlabError, naming the file and the command
    that makes it, where the file is missing, truncated, foreign or stale.
    """
    if not data.dataset:
        return _load_cached(data, examples or EXAMPLES, seeds)
    path = (folder or FOLDER / data.dataset) / FILE
    if not path.is_file():
        with suppress(GenlabError):
            return _read_released(data, examples, seeds)
    return read_judges(path, data, examples, seeds, f"dvc repro judges@{data.dataset}")


def make_judges(
    data: TrainingSet, folder: Path, *, examples: int, processes: int
) -> tuple[str, list[Classifier]]:
    """Make the file of a dataset's classifiers in `folder`; return its key and the classifiers.

    The released file is copied where its key fits; else they are trained, in as many processes as
    given, whose number changes nothing.
    """
    path = folder / FILE
    try:
        judges = _read_released(data, examples, SEEDS)
    except GenlabError:
        judges = train_judges(data, examples, SEEDS, processes)
        write_judges(path, judges, data, examples, SEEDS)
    else:
        _copy(released_file(data.dataset), path)
    return data.make_key(examples, SEEDS), judges


def release_judges(dataset: str) -> Path:
    """Copy the classifiers that stage judges wrote to where git keeps them; return the copy."""
    source, released = FOLDER / dataset / FILE, released_file(dataset)
    _read(source, f"dvc repro judges@{dataset}")  # never release a damaged file
    _copy(source, released)
    write_json(released.with_suffix(".json"), {"kind": KIND, "code": digest_training()})
    return released


def digest_training() -> str:
    """Digest of the code that trains classifiers."""
    return code.digest_sources(["genlab.evaluation.metrics.features"])


def released_file(dataset: str) -> Path:
    """Where git keeps the classifiers of a dataset."""
    return RELEASED / f"{dataset}.judges.safetensors"


def train_judges(
    data: TrainingSet, examples: int, seeds: Sequence[int], processes: int = 1
) -> list[Classifier]:
    """`train_classifier` with each seed, in processes of one thread each.

    Raises GenlabError where a process was killed.
    """
    context = multiprocessing.get_context("spawn")  # not fork: torch has threads
    pool = ProcessPoolExecutor(min(processes, len(seeds)), context, runtime.follow_parent)
    shared = _share(data.images)
    try:
        jobs = [pool.submit(_train, shared, data.labels, seed, examples) for seed in seeds]
        return [_restore(data, load(job.result())) for job in jobs]
    except BrokenProcessPool as error:
        raise GenlabError(
            "a process that trains a classifier was killed; has the memory run out? Run again with"
            " threads: 1, which trains one after another",
            key="threads",
        ) from error
    finally:
        runtime.kill_pool(pool)


def read_judges(
    path: Path, data: TrainingSet, examples: int | None, seeds: Sequence[int], command: str
) -> list[Classifier]:
    """Read classifiers of these seeds from a file; arguments and errors as for `load_judges`."""
    header, weights = _read(path, command)
    shown = header["examples"] if examples is None else examples
    if header["key"] != data.make_key(shown, header["seeds"]) or not {*seeds} <= {*weights}:
        raise file_error(path, "was made from other data or settings", command)
    try:
        return [_restore(data, weights[seed]) for seed in seeds]
    except RuntimeError as error:
        raise file_error(path, "lacks weights of its classifiers", command) from error


def write_judges(
    path: Path, judges: Sequence[Classifier], data: TrainingSet, examples: int, seeds: Sequence[int]
) -> None:
    """Write classifiers to a file; the same ones give the same bytes."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "key": data.make_key(examples, seeds),
        "examples": examples,
        "seeds": list(seeds),
    }
    weights = {
        f"{seed}.{name}": value.contiguous()
        for seed, judge in zip(seeds, judges, strict=True)
        for name, value in judge.state_dict().items()
    }
    write_bytes(path, save(weights, {HEADER: json.dumps(header, sort_keys=True)}))


def _read_released(
    data: TrainingSet, examples: int | None, seeds: Sequence[int]
) -> list[Classifier]:
    """Read the released classifiers. Raises GenlabError where they do not fit data or code."""
    path = released_file(data.dataset)
    facts = read_json(path.with_suffix(".json"), producer_command="make report", kind=KIND)
    if facts.get("code") != digest_training():
        raise file_error(path, "was made by other code", "make report")
    return read_judges(path, data, examples, seeds, "make report")


def _load_cached(data: TrainingSet, examples: int, seeds: Sequence[int]) -> list[Classifier]:
    name = f"{data.make_key(examples, seeds)[:24]}-{digest_training()[:8]}.safetensors"
    path = user_cache_path("genlab") / "judges" / name
    with suppress(GenlabError):
        return read_judges(path, data, examples, seeds, "")
    judges = train_judges(data, examples, seeds)
    write_judges(path, judges, data, examples, seeds)
    return judges


def _read(path: Path, command: str) -> tuple[dict[str, Any], dict[int, dict[str, Tensor]]]:
    """Header and weights by seed of a file. Raises GenlabError unless it has this format."""
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()[HEADER])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if (header["format"], header["version"]) != (FORMAT, VERSION):
            raise ValueError(f"{header['format']} of version {header['version']}")
        weights: dict[int, dict[str, Tensor]] = {seed: {} for seed in header["seeds"]}
        for name, value in tensors.items():
            seed, _, rest = name.partition(".")
            weights[int(seed)][rest] = value
    except FileNotFoundError as error:
        raise file_error(path, "is missing", command) from error
    except Exception as error:  # a foreign file can make any part of it fail
        fault = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise file_error(path, f"is truncated or no file of judges ({fault})", command) from error
    return header, weights


def _restore(data: TrainingSet, weights: dict[str, Tensor]) -> Classifier:
    with torch.device("meta"):  # so that no weights are drawn
        classifier = Classifier(data.images.shape[1], data.images.shape[-1], data.classes)
    classifier.load_state_dict(weights, assign=True)
    return classifier.eval()


def _train(shared: Images | Path, labels: Labels | None, seed: int, examples: int) -> bytes:
    """The weights of one classifier, in a process of their own."""
    engine.make_deterministic(seed, 1)
    images = map_npy(shared, producer_command="") if isinstance(shared, Path) else shared
    return train_classifier(images, labels, seed=seed, examples=examples).weights


def _share(images: Images) -> Images | Path:
    """The file of a mapped `.npy`, else the images: a process maps it again, without a copy."""
    if isinstance(images, np.memmap) and isinstance(images.base, mmap):  # a part has another base
        return Path(str(images.filename))
    return images


def _copy(source: Path, target: Path) -> None:
    with atomic_write(target) as temporary:
        shutil.copyfile(source, temporary)
