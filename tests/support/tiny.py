"""Tiny experiments for tests: params, grids, a model; each of them takes milliseconds."""

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from ruamel.yaml import YAML

from genlab.core.io import write_npz
from genlab.core.params import Params, load_params, parse_params
from genlab.datasets.arc_grids import (
    GRIDS_KIND,
    OBJECTS_FILE,
    OBJECTS_KIND,
    Grids,
    make_distribution,
    name_data_file,
)
from genlab.datasets.images import LABELS_FILE, LABELS_KIND, LEVELS, SPLIT_KIND
from genlab.datasets.manifests import write_manifest
from genlab.datasets.splits import SPLITS
from genlab.grids.generator import AtomicImageGenerator, take_objects
from genlab.vae.models.vae import VAE, Architecture
from genlab.vae.training.tasks import Task, make_task

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

PARAMS_FILE = Path(__file__).resolve().parents[2] / "params.yaml"
SIZE = 8
CLASSES = 10
# What differs from params.yaml
TRAINING: dict[str, Any] = {
    "device": "cpu",
    "threads": 1,
    "width": 8,
    "latent_dim": 32,
    "prior_width": 8,
    "prior_depth": 2,
    "prior_components": 4,
    "likelihood_components": 3,
    "causal_channels": 0,
    "prior_share": 0.0,
    "epochs": 3,
    "samples_per_epoch": 64,
    "batch_size": 16,
    "lr": 0.01,
    "lr_schedule": "constant",
    "beta_warmup": 0.5,
    "beta_delay": 0.0,
    "bootstrap": 100,
}
# What differs for images of SIDE x SIDE pixels: one latent at each of 7 x 7 places
SIDE = 28
IMAGE_TRAINING: dict[str, Any] = {
    "patch": 4,
    "width": 4,
    "latent_dim": 49,
    "prior": "autoregressive_mixture",
    "prior_components": 3,
    "likelihood": "discretized_logistic_mixture",
    "likelihood_components": 2,
    "epochs": 2,
    "batch_size": 8,
}
IMAGE_LIKELIHOODS = (
    "bernoulli",
    "continuous_bernoulli",
    "gaussian",
    "gaussian_analytic",
    "discretized_logistic_mixture",
)
IMAGES_ALONE: dict[str, Any] = {
    "datasets": ["fashion_mnist"],
    "images_model": {},
    "fashion_mnist": {},
}
GRIDS: dict[str, Any] = {"count": 400, "size": SIZE, "min_objects": 1, "max_objects": 2}
EVALUATE: dict[str, Any] = {
    "samples": 100,
    "image_samples": 100,
    "extractor_examples": 400,
    "iwae_samples": 4,
    "iwae_items": 8,
}


@cache
def _defaults() -> dict[str, Any]:
    return load_params(PARAMS_FILE).model_dump()


def values(**training: Any) -> dict[str, Any]:
    """The content of a params file of a tiny experiment, with other flat keys where given."""
    content = copy.deepcopy(_defaults())
    content["grids"].update(GRIDS)
    content["evaluate"].update(EVALUATE)
    return {**content, **TRAINING, "arc_grids": {}, **training}


def params(**training: Any) -> Params:
    """The params of a tiny experiment."""
    return parse_params(values(**training), "tiny")


def write_params(folder: Path, **training: Any) -> Path:
    """`params.yaml` of a tiny experiment in `folder`."""
    path = folder / "params.yaml"
    with path.open("w", encoding="utf-8") as file:
        YAML().dump(values(**training), file)
    return path


def grids(count: int, seed: int = 0) -> Grids:
    """Different grids of the tiny program: uint8 (count, 8, 8)."""
    distribution = make_distribution(params().grids)
    return AtomicImageGenerator(distribution).generate(count, seed).grids


def write_dataset(folder: Path, count: int = 400, seed: int = 0) -> Path:
    """Write a split file of tiny grids, 80/10/10, with its objects."""
    distribution = make_distribution(params().grids)
    draw = AtomicImageGenerator(distribution).generate(count, seed)
    edges = [0, count * 8 // 10, count * 9 // 10, count]
    rows = {
        name: np.arange(a, b)
        for name, a, b in zip(("train", "val", "test"), edges, edges[1:], strict=False)
    }
    path = folder / name_data_file(count)
    splits = {name: draw.grids[chosen] for name, chosen in rows.items()}
    write_npz(path, splits, kind=GRIDS_KIND)
    tables = {name: take_objects(draw.objects, chosen, count) for name, chosen in rows.items()}
    write_npz(folder / OBJECTS_FILE, tables, kind=OBJECTS_KIND)
    return path


def task(train: Grids, **training: Any) -> Task:
    """The task of training on tiny grids."""
    return make_task(params(**training), train, CLASSES)


def architecture(**changes: Any) -> Architecture:
    """The shapes of a tiny model."""
    return _shapes({}, **{"size": SIZE, "classes": CLASSES, "channels": 0, **changes})


def _shapes(training: dict[str, Any], **shapes: Any) -> Architecture:
    settings = {**values(), **training, **shapes}
    names = Architecture.__dataclass_fields__
    return Architecture(**{name: settings[name] for name in names if name in settings})


def images(count: int, seed: int = 0, side: int = SIDE, channels: int = 1) -> Images:
    """Soft rectangles on a dark, grainy ground: uint8 (count, side, side, channels).

    An image's class is which way its rectangle lies: `image_labels`.
    """
    rng = np.random.default_rng([seed, side, channels])
    places = np.arange(side) / side
    pixels = rng.normal(0.1, 0.02, (count, side, side, channels))
    for image, wide in zip(pixels, image_labels(count), strict=True):
        extent = rng.uniform(0.2, 0.35, 2)
        extent[int(wide)] *= 0.4
        centre = rng.uniform(0.35, 0.65, 2)
        across = np.clip(8 * (extent[:, None] - np.abs(places - centre[:, None])), 0, 1)
        image += np.outer(*across)[:, :, None] * rng.uniform(0.4, 0.8, channels)
    return (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)


def image_labels(count: int) -> Labels:
    """0 for an upright and 1 for a lying rectangle: (count,)."""
    return np.arange(count, dtype=np.int64) % 2


def image_params(**training: Any) -> Params:
    """The params of a tiny experiment with images called fashion_mnist."""
    return params(**IMAGES_ALONE, **{**IMAGE_TRAINING, **training})


def write_image_dataset(
    folder: Path,
    counts: tuple[int, int, int] = (96, 24, 48),
    *,
    side: int = SIDE,
    channels: int = 1,
) -> Path:
    """The folder that stage split writes, with so many images of train, val and test."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = (side, side, channels)
    splits = dict(zip(SPLITS, counts, strict=True))
    for seed, (split, count) in enumerate(splits.items()):
        np.save(folder / f"{split}.npy", images(count, seed, side, channels))
    labels = {split: image_labels(count) for split, count in splits.items()}
    write_npz(folder / LABELS_FILE, labels, kind=LABELS_KIND)
    facts = {"counts": splits, "shape": list(shape), "labels": ["upright", "lying"]}
    files = [file.name for file in sorted(folder.iterdir())]
    write_manifest(folder, SPLIT_KIND, files, facts)
    return folder


def image_task(train: Images, **training: Any) -> Task:
    """The task of training on tiny images."""
    return make_task(image_params(**training), train, LEVELS)


def image_architecture(**changes: Any) -> Architecture:
    """The shapes of a tiny model of images."""
    return _shapes(IMAGE_TRAINING, **{"size": SIDE, "classes": LEVELS, "channels": 1, **changes})


def image_model(seed: int = 0, **changes: Any) -> VAE:
    """A tiny model of images in evaluation mode, with a little noise on every weight."""
    torch.manual_seed(seed)
    return stir(VAE(image_architecture(**changes)), seed, size=0.1).eval()


def model(seed: int = 0, **changes: Any) -> VAE:
    """A tiny model with noise on every weight, so that none stands at the zero it starts from."""
    torch.manual_seed(seed)
    return stir(VAE(architecture(**changes)), seed)


def stir(module: Any, seed: int = 0, size: float = 0.3) -> Any:
    """Add noise to every parameter, so that branches which start at zero take part."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
            parameter.add_(size * noise)
    return module


class Killed(BaseException):
    """The end of a process, as far as one process can tell."""


def kill_at(epoch: int) -> Callable[..., None]:
    """What to do after an epoch: nothing, until `epoch` ends in a kill."""

    def on_epoch(now: int, *_: object) -> None:
        if now == epoch:
            raise Killed

    return on_epoch


def nothing(*_: object) -> None:
    """What to do after an epoch: nothing."""


def bits(module: torch.nn.Module) -> dict[str, bytes]:
    """The bytes of every weight and buffer."""
    return {name: value.numpy().tobytes() for name, value in module.state_dict().items()}


def generator(seed: int = 0) -> torch.Generator:
    """A generator of random numbers on the CPU."""
    return torch.Generator().manual_seed(seed)
