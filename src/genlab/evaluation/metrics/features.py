"""What images are compared by: the penultimate layer of a small classifier trained on them.

Fréchet distance, precision and recall need features that see content rather than pixels. This
network learns them from the train split alone, so that they fit data of any kind and nothing has
to be fetched. They are this project's own: distances in them compare within one classifier, told
by its digest, and never with Inception's (`inception_features`).
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from genlab.core import io as artifacts
from genlab.core.errors import GenlabError

Images = npt.NDArray[np.uint8]

FORMAT, VERSION, HEADER = "genlab.classifier", 1, "genlab"
FEATURES = 128
STEM, BROADEST, COARSEST = 16, 128, 8
BATCH, SHIFT, TURNS, THUMBNAIL = 128, 2, 4, 4
LR, WEIGHT_DECAY, DROPOUT = 5e-3, 0.02, 0.1
SHOWN = 300_000
"""Images that training shows: five times the training images of Fashion-MNIST."""

INCEPTION, INCEPTION_BATCH = "weights-inception-2015-12-05-6726825d.pth", 64


@dataclass(frozen=True)
class Layout:
    """Everything that shapes the weights. task: labels or rotation; classes: of that task."""

    side: int
    channels: int
    classes: int
    task: str


class Network(nn.Module):
    """Convolutions that halve the side down to 8 or less, then FEATURES numbers, then the task.

    Images without labels get a task of their own: by which of four right angles was it turned
    (Gidaris et al. 2018)? A turn says little about colour, which samples can get wrong too; so the
    same features must also foretell the image at 4 x 4 pixels.
    """

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        if layout.task not in ("labels", "rotation") or layout.side < COARSEST:
            raise ValueError(f"task must be labels or rotation, side at least 8: {layout}")
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
        """SHA-256 of the weights: tells one extractor from another."""
        return hashlib.sha256(to_bytes(self._weights())).hexdigest()

    @torch.no_grad()
    def features(self, images: Images) -> npt.NDArray[np.float32]:
        """The penultimate layer, (n, FEATURES). images: (n, side, side, channels) uint8."""
        _check(images, self.layout)
        found: list[npt.NDArray[np.float32]] = [
            self.network.body(x).cpu().numpy() for x in self._batches(images)
        ]
        return np.concatenate(found)

    @torch.no_grad()
    def accuracy(self, images: Images, labels: npt.ArrayLike | None = None) -> float:
        """Share of right answers: to the labels (n,), or to all four turns of each image."""
        _check(images, self.layout)
        wanted = None if self.layout.task == "rotation" else _checked_labels(labels, len(images))
        right, seen = 0, 0
        for x in self._batches(images):
            if wanted is None:
                for turn in range(TURNS):
                    right += int((self._answers(torch.rot90(x, turn, (2, 3))) == turn).sum())
            else:
                right += int((self._answers(x) == wanted[seen : seen + len(x)]).sum())
            seen += len(x)
        return right / (seen * (TURNS if wanted is None else 1))

    def save(self, path: str | Path) -> None:
        """Write layout and weights (safetensors), whole or not at all; equal ones, equal bytes."""
        header = {"format": FORMAT, "version": VERSION, "layout": asdict(self.layout)}
        # One metadata entry alone: safetensors writes several in an order that changes by process.
        metadata = {HEADER: json.dumps(header, sort_keys=True)}
        artifacts.write_bytes(path, to_bytes(self._weights(), metadata=metadata))

    def _weights(self) -> dict[str, Tensor]:
        state = self.network.state_dict()
        return {name: value.detach().cpu().contiguous() for name, value in state.items()}

    def _answers(self, x: Tensor) -> npt.NDArray[np.int64]:
        logits: Tensor = self.network.head(self.network.body(x))
        answers: npt.NDArray[np.int64] = logits.argmax(1).numpy(force=True)
        return answers

    def _batches(self, images: Images, size: int = 500) -> Iterator[Tensor]:
        device = self.network.head.weight.device
        for start in range(0, len(images), size):
            yield _input(images[start : start + size]).to(device)


def load_classifier(path: str | Path, *, producer_command: str) -> Classifier:
    """The classifier in the file `path`.

    Raises GenlabError, naming the file and `producer_command`, the command that makes it again, when the
    file is absent, truncated, foreign or of another version.
    """
    remake = f"make it again with: {producer_command}"
    if not Path(path).is_file():
        raise GenlabError(f"{path}: no classifier there; {remake}")
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {}).get(HEADER, "{}"))
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header["format"] != FORMAT or header["version"] != VERSION:
            raise ValueError(f"{header['format']} version {header['version']}")
        network = Network(Layout(**header["layout"]))
        network.load_state_dict(weights)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:120]
        raise GenlabError(
            f"{path}: truncated, or not a {FORMAT} of version {VERSION} ({reason}); {remake}"
        ) from error
    return Classifier(network)


def train_classifier(
    images: Images,
    labels: npt.ArrayLike | None = None,
    *,
    seed: int = 0,
    shown: int = SHOWN,
    device: torch.device | None = None,
    progress: bool = True,
) -> Classifier:
    """Train the extractor on the train split; the same seed and thread count, the same weights.

    images: (n, side, side, channels) uint8, n >= 2, may be memory-mapped; labels: (n,) classes from
    0. Without labels, or where all are equal, the task is rotation (see `Network`). `shown` images
    are drawn in shuffled rounds, shifted by up to SHIFT pixels; AdamW with a one-cycle rate (Smith
    and Topin 2019). Leaves torch's own generator as it was.
    """
    wanted = None if labels is None else _checked_labels(labels, len(images))
    if wanted is not None and wanted.min() == wanted.max():
        wanted = None
    classes, task = (TURNS, "rotation") if wanted is None else (int(wanted.max()) + 1, "labels")
    layout = Layout(images.shape[1], images.shape[-1], classes, task)
    _check(images, layout)
    if len(images) < 2:
        raise ValueError("a classifier needs at least two training images")
    batch = min(BATCH, len(images))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = Network(layout).to(memory_format=torch.channels_last).to(device or "cpu")
        _fit(network, images, wanted, batch, max(shown // batch, 2), progress)
    return Classifier(network)


def inception_features(
    images: Images, weights: str | Path | None = None
) -> npt.NDArray[np.float32]:
    """FID's own features (Inception v3 of 2015, 2048 numbers), where its weights are at hand.

    images: (n, h, w, 1 or 3) uint8; grey is repeated. Returns (n, 2048). weights: torch-fidelity's
    file INCEPTION, by default in torch's hub folder; nothing is ever downloaded. Raises GenlabError
    where torch-fidelity or that file is missing, or the file is something else.
    """
    path = Path(weights or Path(torch.hub.get_dir()) / "checkpoints" / INCEPTION)
    try:
        module = importlib.import_module("torch_fidelity.feature_extractor_inceptionv3")
    except ImportError as error:
        raise GenlabError(
            "Inception features need torch-fidelity; install it with: pip install torch-fidelity"
        ) from error
    if not path.is_file():
        raise GenlabError(f"{path}: no Inception weights; put torch-fidelity's {INCEPTION} there")
    try:
        torch.load(path, weights_only=True)  # torch-fidelity would run any pickle it is given
        network = module.FeatureExtractorInceptionV3("inception", ["2048"], str(path))
    except Exception as error:
        reason = " ".join(str(error).split())[:120]
        raise GenlabError(
            f"{path}: not Inception weights ({reason}); put torch-fidelity's {INCEPTION} there"
        ) from error
    found = []
    for start in range(0, len(images), INCEPTION_BATCH):
        x = torch.from_numpy(np.array(images[start : start + INCEPTION_BATCH]))
        x = x.permute(0, 3, 1, 2).expand(-1, 3, -1, -1)
        found.append(network(x.contiguous())[0].numpy())
    return np.concatenate(found)


def _fit(
    network: Network,
    images: Images,
    labels: npt.NDArray[np.int64] | None,
    batch: int,
    steps: int,
    progress: bool,
) -> None:
    device = network.head.weight.device
    optimiser = torch.optim.AdamW(network.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LR, total_steps=steps, pct_start=0.2)
    turns = torch.arange(batch) % TURNS
    network.train()
    rows = _rounds(len(images), batch)
    for _ in tqdm(range(steps), desc="features", unit="batch", disable=not progress):
        taken = next(rows)
        x = _shifted(_input(images[taken]))
        if labels is None:
            turned = [torch.rot90(x[turn::TURNS], turn, (2, 3)) for turn in range(TURNS)]
            x, target = torch.cat(turned), torch.cat([turns[turn::TURNS] for turn in range(TURNS)])
        else:
            target = torch.from_numpy(labels[taken])
        x = x.to(device, memory_format=torch.channels_last)
        optimiser.zero_grad()
        network.loss(x, target.to(device)).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()


def _rounds(n: int, batch: int) -> Iterator[npt.NDArray[np.int64]]:
    """Rows of each batch, for ever: shuffled rounds over all images, without their remainders."""
    while True:
        order = torch.randperm(n).numpy()
        for start in range(0, n - batch + 1, batch):
            yield order[start : start + batch]


def _shifted(x: Tensor) -> Tensor:
    """The batch moved by up to SHIFT pixels each way; what comes in repeats the border."""
    across, down = torch.randint(0, 2 * SHIFT + 1, (2,)).tolist()
    padded = F.pad(x, (SHIFT,) * 4, mode="replicate")
    return padded[:, :, down : down + x.shape[2], across : across + x.shape[3]]


def _input(images: Images) -> Tensor:
    """(n, side, side, channels) levels to (n, channels, side, side) in [-1, 1]."""
    return torch.from_numpy(images.astype(np.float32) / 127.5 - 1).permute(0, 3, 1, 2)


def _check(images: Images, layout: Layout) -> None:
    wanted = (layout.side, layout.side, layout.channels)
    if images.dtype != np.uint8 or images.shape[1:] != wanted or not len(images):
        raise ValueError(f"images must be uint8 (n, *{wanted}), got {images.dtype} {images.shape}")


def _checked_labels(labels: npt.ArrayLike | None, n: int) -> npt.NDArray[np.int64]:
    found = np.asarray(labels if labels is not None else [], dtype=np.int64)
    if found.shape != (n,) or found.min() < 0:
        raise ValueError(f"labels must be {n} classes from 0, one an image, got {found.shape}")
    return found
