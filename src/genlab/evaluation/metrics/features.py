"""What images are compared by: the penultimate layer of a small classifier trained on them.

Fréchet distance, precision and recall need features that see content rather than pixels. This
network learns them from the train split alone, so that they fit data of any kind and nothing has
to be downloaded. Distances in them compare within one classifier, known by its digest, and never
with Inception's (`metrics.inception`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from platformdirs import user_cache_path
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.nn import functional as F

from genlab.core import engine
from genlab.core.io import write_bytes
from genlab.core.progress import progress as progress_bar

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

LAYOUT = "layout"  # the key of the metadata in a file
FEATURES = 128
STEM, BROADEST, COARSEST = 16, 128, 8
BATCH, SHIFT, TURNS, THUMBNAIL = 128, 2, 4, 4
LR, WEIGHT_DECAY, DROPOUT = 5e-3, 0.02, 0.1
EXAMPLES = 300_000
"""Images that training shows: five times the training images of Fashion-MNIST."""


@dataclass(frozen=True)
class Layout:
    """Everything that shapes the weights. task: labels or rotation; classes: of that task."""

    side: int
    channels: int
    classes: int
    task: str


class Network(nn.Module):
    """Convolutions that halve the side down to 8 or less, then FEATURES numbers, then the task.

    Images without labels get a self-supervised task: by which of four right angles was it turned
    (Gidaris et al. 2018)? A turn says little about colour, which samples can get wrong too; so the
    same features must also predict the image at 4 x 4 pixels.
    """

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.layout = layout
        blocks: list[nn.Module] = []
        side, channels, width = layout.side, layout.channels, STEM
        while side > COARSEST or not blocks:
            blocks += [
                nn.Conv2d(channels, width, 3, padding=1, bias=False),
                nn.MaxPool2d(2),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
            side, channels, width = side // 2, width, min(2 * width, BROADEST)
        self.body = nn.Sequential(
            *blocks,
            nn.Flatten(),
            nn.Linear(channels * side * side, FEATURES, bias=False),
            nn.BatchNorm1d(FEATURES),
            nn.ReLU(),
        )
        self.dropout = nn.Dropout(DROPOUT)
        self.head = nn.Linear(FEATURES, layout.classes)
        if layout.task == "rotation":
            self.thumbnail = nn.Linear(FEATURES, layout.channels * THUMBNAIL**2)

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        """The training loss of a batch; x: (batch, channels, side, side) in [-1, 1]."""
        features = self.dropout(self.body(x))
        loss = F.cross_entropy(self.head(features), labels)
        if self.layout.task == "rotation":
            coarse = F.adaptive_avg_pool2d(x, THUMBNAIL).flatten(1)
            loss = loss + F.mse_loss(self.thumbnail(features), coarse)
        return loss


class Classifier:
    """A trained `Network` in evaluation mode: images in, features out."""

    def __init__(self, network: Network) -> None:
        self.network = network.eval()

    @property
    def layout(self) -> Layout:
        """Shapes and task."""
        return self.network.layout

    @property
    def digest(self) -> str:
        """SHA-256 of the weights, which identifies the extractor."""
        return hashlib.sha256(to_bytes(self._weights())).hexdigest()

    @torch.no_grad()
    def features(self, images: Images) -> npt.NDArray[np.float64]:
        """The penultimate layer, (n, FEATURES), in the precision that covariances take.

        images: (n, side, side, channels) uint8.
        """
        found = [self.network.body(x).numpy(force=True) for x in self._batches(images)]
        return np.concatenate(found).astype(np.float64)

    @torch.no_grad()
    def accuracy(self, images: Images, labels: Labels | None = None) -> float:
        """Share of correct answers: to the labels (n,), or to all four turns of each image."""
        turns = range(TURNS) if self.layout.task == "rotation" else range(1)
        correct, start = 0, 0
        for x in self._batches(images):
            for turn in turns:
                logits = self.network.head(self.network.body(torch.rot90(x, turn, (2, 3))))
                wanted = turn if labels is None else labels[start : start + len(x)]
                correct += int((logits.argmax(1).numpy(force=True) == wanted).sum())
            start += len(x)
        return correct / (start * len(turns))

    def save(self, path: Path) -> None:
        """Write layout and weights (safetensors) atomically; equal ones give equal bytes."""
        metadata = {LAYOUT: json.dumps(asdict(self.layout), sort_keys=True)}
        write_bytes(path, to_bytes(self._weights(), metadata=metadata))

    @classmethod
    def load(cls, path: Path) -> Classifier:
        """Read a file of `save`. Raises OSError or ValueError where it is missing or damaged."""
        try:
            with safe_open(path, framework="pt") as file:
                layout = json.loads((file.metadata() or {}).get(LAYOUT, "{}"))
                weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            network = Network(Layout(**layout))
            network.load_state_dict(weights)
        except (SafetensorError, TypeError, RuntimeError) as error:
            raise ValueError(f"{path}: truncated, or not a classifier") from error
        return cls(network)

    def _weights(self) -> dict[str, Tensor]:
        state = self.network.state_dict()
        return {name: value.detach().cpu().contiguous() for name, value in state.items()}

    def _batches(self, images: Images, size: int = 500) -> Iterator[Tensor]:
        device = self.network.head.weight.device
        for start in range(0, len(images), size):
            yield _input(images[start : start + size]).to(device)


def cached_classifier(
    name: str, train: Images, labels: Labels | None, source: str, *, seed: int, examples: int
) -> Classifier:
    """`train_classifier` on the data with the checksum `source`, from the user's cache.

    It depends on data, seed and this module's code, not on the model: so every experiment on the
    same data is compared by the same features. A damaged file is replaced.
    """
    parts = [
        source.encode(),
        Path(__file__).read_bytes(),
        f"{torch.__version__} {seed} {examples} {labels is None}".encode(),
    ]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]
    path = user_cache_path("genlab") / "features" / f"{name}-{key}.safetensors"
    try:
        return Classifier.load(path)
    except (OSError, ValueError):
        with engine.preserved_randomness():
            classifier = train_classifier(train, labels, seed=seed, examples=examples)
        classifier.save(path)
        return classifier


def train_classifier(
    images: Images,
    labels: npt.ArrayLike | None = None,
    *,
    seed: int = 0,
    examples: int = EXAMPLES,
    progress: bool = True,
) -> Classifier:
    """Train the extractor on the train split; the same seed and thread count, the same weights.

    images: (n, side, side, channels) uint8, n >= 2, may be memory-mapped; labels: (n,) classes from
    0. Without labels, or where all are equal, the task is rotation (see `Network`). `examples`
    images are drawn in shuffled rounds, shifted by up to SHIFT pixels; AdamW with a one-cycle rate
    (Smith and Topin 2019). Leaves torch's generator as it was.
    """
    wanted = None if labels is None else np.asarray(labels, dtype=np.int64)
    if wanted is not None and wanted.min() == wanted.max():
        wanted = None
    classes, task = (TURNS, "rotation") if wanted is None else (int(wanted.max()) + 1, "labels")
    layout = Layout(images.shape[1], images.shape[-1], classes, task)
    batch = min(BATCH, len(images))
    steps = max(examples // batch, 2)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = Network(layout).to(memory_format=torch.channels_last)
        optimiser = torch.optim.AdamW(network.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, LR, total_steps=steps, pct_start=0.2
        )
        network.train()
        rows = _rounds(len(images), batch)
        for _ in progress_bar(range(steps), desc="features", unit="batch", disable=not progress):
            x, target = _training_batch(images, wanted, next(rows))
            optimiser.zero_grad()
            network.loss(x, target).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    return Classifier(network)


def _training_batch(
    images: Images, labels: Labels | None, rows: npt.NDArray[np.int64]
) -> tuple[Tensor, Tensor]:
    """Images moved by up to SHIFT pixels each way, the border repeated; and their targets."""
    x = _input(images[rows])
    across, down = torch.randint(0, 2 * SHIFT + 1, (2,)).tolist()
    padded = F.pad(x, (SHIFT,) * 4, mode="replicate")
    x = padded[:, :, down : down + x.shape[2], across : across + x.shape[3]]
    if labels is not None:
        return x.contiguous(memory_format=torch.channels_last), torch.from_numpy(labels[rows])
    x = torch.cat([torch.rot90(x[turn::TURNS], turn, (2, 3)) for turn in range(TURNS)])
    turns = torch.arange(len(rows)) % TURNS
    target = torch.cat([turns[turn::TURNS] for turn in range(TURNS)])
    return x.contiguous(memory_format=torch.channels_last), target


def _rounds(n: int, batch: int) -> Iterator[npt.NDArray[np.int64]]:
    """Rows of each batch, for ever: shuffled rounds over all images, without their remainders."""
    while True:
        order = torch.randperm(n).numpy()
        for start in range(0, n - batch + 1, batch):
            yield order[start : start + batch]


def _input(images: Images) -> Tensor:
    """(n, side, side, channels) levels to (n, channels, side, side) in [-1, 1]."""
    return torch.from_numpy(images.astype(np.float32) / 127.5 - 1).permute(0, 3, 1, 2)
