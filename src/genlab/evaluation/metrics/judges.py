"""Judges: the classifiers whose features images are compared in, trained once and kept in a file.

Stage judges writes the file of a dataset to data/judges, and a copy is released beside the models.
The file of data without a stage is kept in the user's cache. Its key is a digest of what the
classifiers depend on: training images, labels and settings, but not torch's version, so that a
released file serves on every machine. They also depend on the code of `metrics.features`: dvc
tracks it for the stage's file, and a released file has the digest of the code beside it.
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

HEADER = "genlab"
FORMAT = "genlab.judges"
VERSION = 1
KIND = "released judges"
FOLDER = Path("data/judges")
FILE = "judges.safetensors"
RELEASED = Path("checkpoints")
SEEDS = (0, 1, 2)  # whatever the run's seed; the first classifier is the headline
EXAMPLES = 300_000  # images that a classifier is trained on, where no params give the number
CHUNK = 4096  # images hashed at a time


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Training data of classifiers.

    images: (n, side, side, channels) uint8, may be mapped from a `.npy`. labels: (n,) classes from
    0, or None for the self-supervised task of `Classifier`. dataset: name of the dataset whose
    train split this is, empty for data without a stage.
    """

    images: Images
    labels: Labels | None
    dataset: str = ""

    @classmethod
    def of_dataset(cls, name: str, images: Images, labels: Labels) -> "TrainingSet":
        """Create the training set of a dataset, with its labels where they are usable.

        labels: -1 where an image has none. They are usable if the dataset has meaningful labels,
        every image has one, and there is more than one class.
        """
        dataset = PUBLISHED.get(name)
        labelled = dataset is None or dataset.labelled
        usable = labelled and labels.min() >= 0 and labels.max() > 0
        return cls(images, labels if usable else None, name)

    @property
    def classes(self) -> int | None:
        """Number of classes, None without labels."""
        return None if self.labels is None else int(self.labels.max()) + 1

    def make_key(self, examples: int, seeds: Sequence[int]) -> str:
        """SHA-256 of the data and settings that determine the weights of classifiers."""
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

    folder: of stage judges; where it has no file, the released file is read if its key fits.
    Classifiers of data without a stage are trained once, into the user's cache. examples: images
    that each was trained on; by default the number that the file states. Raises GenlabError, naming
    the file and the command that makes it, where the file is missing, truncated, foreign or stale.
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
    """Write the file of a dataset's classifiers to `folder`; return its key and the classifiers.

    The released file is copied where its key fits; otherwise the classifiers are trained. The
    number of processes does not change the result.
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
    """Copy the classifiers that stage judges wrote to the folder in git; return the copy's path."""
    source = FOLDER / dataset / FILE
    released = released_file(dataset)
    _read(source, f"dvc repro judges@{dataset}")  # never release a damaged file
    _copy(source, released)
    write_json(released.with_suffix(".json"), {"kind": KIND, "code": digest_training()})
    return released


def digest_training() -> str:
    """Digest of the code that trains classifiers."""
    return code.digest_sources(["genlab.evaluation.metrics.features"])


def released_file(dataset: str) -> Path:
    """Path of the released classifiers of a dataset, which are in git."""
    return RELEASED / f"{dataset}.judges.safetensors"


def train_judges(
    data: TrainingSet, examples: int, seeds: Sequence[int], processes: int = 1
) -> list[Classifier]:
    """Train a classifier with each seed, in processes of one thread each.

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
    """Read the classifiers of these seeds from a file; arguments and errors as `load_judges`."""
    header, weights = _read(path, command)
    if examples is None:
        examples = header["examples"]
    fits = header["key"] == data.make_key(examples, header["seeds"])
    if not fits or not {*seeds} <= {*weights}:
        raise file_error(path, "was made from other data or settings", command)
    try:
        return [_restore(data, weights[seed]) for seed in seeds]
    except RuntimeError as error:
        raise file_error(path, "lacks weights of its classifiers", command) from error


def write_judges(
    path: Path, judges: Sequence[Classifier], data: TrainingSet, examples: int, seeds: Sequence[int]
) -> None:
    """Write classifiers to a file; equal classifiers give equal bytes."""
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
    """Read the released classifiers. Raises GenlabError unless they fit the data and the code."""
    path = released_file(data.dataset)
    facts = read_json(path.with_suffix(".json"), producer_command="make report", kind=KIND)
    if facts.get("code") != digest_training():
        raise file_error(path, "was made by other code", "make report")
    return read_judges(path, data, examples, seeds, "make report")


def _load_cached(data: TrainingSet, examples: int, seeds: Sequence[int]) -> list[Classifier]:
    """Read classifiers from the user's cache, or train them and write them there."""
    name = f"{data.make_key(examples, seeds)[:24]}-{digest_training()[:8]}.safetensors"
    path = user_cache_path("genlab") / "judges" / name
    with suppress(GenlabError):
        return read_judges(path, data, examples, seeds, "")
    judges = train_judges(data, examples, seeds)
    write_judges(path, judges, data, examples, seeds)
    return judges


def _read(path: Path, command: str) -> tuple[dict[str, Any], dict[int, dict[str, Tensor]]]:
    """Read the header and the weights by seed. Raises GenlabError unless the format is right."""
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
    """Build a classifier with these weights."""
    with torch.device("meta"):  # draws no random weights
        classifier = Classifier(data.images.shape[1], data.images.shape[-1], data.classes)
    classifier.load_state_dict(weights, assign=True)
    return classifier.eval()


def _train(shared: Images | Path, labels: Labels | None, seed: int, examples: int) -> bytes:
    """Train one classifier, in a worker process, and return its weights."""
    engine.make_deterministic(seed, 1)
    images = map_npy(shared, producer_command="") if isinstance(shared, Path) else shared
    return train_classifier(images, labels, seed=seed, examples=examples).weights


def _share(images: Images) -> Images | Path:
    """The path of a memory-mapped `.npy`, which a process can map again; otherwise the images."""
    if isinstance(images, np.memmap) and isinstance(images.base, mmap):  # a slice has another base
        return Path(str(images.filename))
    return images


def _copy(source: Path, target: Path) -> None:
    with atomic_write(target) as temporary:
        shutil.copyfile(source, temporary)
