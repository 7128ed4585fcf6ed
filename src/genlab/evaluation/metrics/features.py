"""What images are compared by: the penultimate layer of a small classifier trained on them.

Fréchet distance, precision and recall need features that see content rather than pixels. This
network learns them from the train split alone, so that they fit data of any kind and nothing has
to be downloaded. Distances in them compare within one classifier, known by its digest. Those of a
dataset are kept in a file (`metrics.judges`).
"""

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional as F

from genlab.core.progress import progress

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

FEATURES = 128
STEM, BROADEST, COARSEST = 16, 128, 8
BATCH, CHUNK, SHIFT, TURNS, THUMBNAIL = 128, 500, 2, 4, 4
LR, WEIGHT_DECAY, DROPOUT = 5e-3, 0.02, 0.1


class Classifier(nn.Module):
    """Convolutions that halve the side down to 8 or less, then FEATURES numbers, then the task.

    classes: of the labels. Images without labels (None) get a self-supervised task: by which of
    four right angles was it turned (Gidaris et al. 2018)? A turn says little about colour, which
    samples can get wrong too; so the same features must also predict the image at 4 x 4 pixels.
    """

    def __init__(self, side: int, channels: int, classes: int | None) -> None:
        super().__init__()
        self.task = "rotation" if classes is None else "labels"
        blocks: list[nn.Module] = []
        inputs, width = channels, STEM
        while side > COARSEST or not blocks:
            blocks += [
                nn.Conv2d(inputs, width, 3, padding=1, bias=False),
                nn.MaxPool2d(2),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
            side, inputs, width = side // 2, width, min(2 * width, BROADEST)
        self.body = nn.Sequential(
            *blocks,
            nn.Flatten(),
            nn.Linear(inputs * side * side, FEATURES, bias=False),
            nn.BatchNorm1d(FEATURES),
            nn.ReLU(),
        )
        self.head = nn.Linear(FEATURES, classes or TURNS)
        self.thumbnail = nn.Linear(FEATURES, channels * THUMBNAIL**2) if classes is None else None

    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """The training loss of a batch; x: (batch, channels, side, side) in [-1, 1]."""
        features = F.dropout(self.body(x), DROPOUT)
        loss = F.cross_entropy(self.head(features), target)
        if self.thumbnail is not None:
            coarse = F.adaptive_avg_pool2d(x, THUMBNAIL).flatten(1)
            loss = loss + F.mse_loss(self.thumbnail(features), coarse)
        return loss

    @torch.no_grad()
    def features(self, images: Images) -> npt.NDArray[np.float64]:
        """The penultimate layer, (n, FEATURES), in the precision that covariances take.

        images: (n, side, side, channels) uint8.
        """
        starts = range(0, len(images), CHUNK)
        found = [self.body(_input(images[start : start + CHUNK])).numpy() for start in starts]
        return np.concatenate(found).astype(np.float64)

    @torch.no_grad()
    def accuracy(self, images: Images, labels: Labels) -> float:
        """Share of correct answers to the task; images as for `features`, labels: (n,)."""
        correct = 0
        for start in range(0, len(images), CHUNK):
            rows = slice(start, start + CHUNK)
            x, target = self.pose(_input(images[rows]), labels[rows])
            correct += int((self.head(self.body(x)).argmax(1) == target).sum())
        return correct / len(images)

    def pose(self, x: Tensor, labels: Labels) -> tuple[Tensor, Tensor]:
        """Inputs and targets of the task: images and labels, or turned images and their turns."""
        if self.task == "labels":
            return x, torch.from_numpy(labels)
        parts = [torch.rot90(x[turn::TURNS], turn, (2, 3)) for turn in range(TURNS)]
        turns = [torch.full((len(part),), turn) for turn, part in enumerate(parts)]
        return torch.cat(parts), torch.cat(turns)

    @property
    def weights(self) -> bytes:
        """The weights as a safetensors file; equal ones give equal bytes."""
        return save({name: value.contiguous() for name, value in self.state_dict().items()})

    @property
    def digest(self) -> str:
        """SHA-256 of the weights, which identifies the extractor."""
        return hashlib.sha256(self.weights).hexdigest()


def train_classifier(
    images: Images, labels: Labels | None, *, seed: int, examples: int
) -> Classifier:
    """Train the extractor on the train split; the same seed and thread count, the same weights.

    images: (n, side, side, channels) uint8, n >= 2, may be memory-mapped; labels: (n,) classes from
    0. Without labels the task is rotation (see `Classifier`). `examples` images are drawn in
    shuffled rounds, shifted by up to SHIFT pixels; AdamW with a one-cycle rate (Smith and Topin
    2019). Leaves torch's generator as it was.
    """
    batch = min(BATCH, len(images))
    steps = max(examples // batch, 2)
    targets = np.zeros(len(images), np.int64) if labels is None else labels
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        classes = None if labels is None else int(labels.max()) + 1
        network = Classifier(images.shape[1], images.shape[-1], classes)
        network = network.to(memory_format=torch.channels_last)
        optimiser = torch.optim.AdamW(network.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, LR, total_steps=steps, pct_start=0.2
        )
        rounds = _rounds(len(images), batch)
        for _ in progress(range(steps), desc="features", unit="batch"):
            rows = next(rounds)
            x, target = network.pose(_shift(_input(images[rows])), targets[rows])
            optimiser.zero_grad()
            x = x.contiguous(memory_format=torch.channels_last)
            network.loss(x, target).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    return network.eval()


def _rounds(n: int, batch: int) -> Iterator[Labels]:
    """Rows of each batch, for ever: shuffled rounds over all images, without their remainders."""
    while True:
        yield from torch.randperm(n)[: n - n % batch].view(-1, batch).numpy()


def _shift(x: Tensor) -> Tensor:
    """The images moved by up to SHIFT pixels each way, the border repeated."""
    across, down = torch.randint(0, 2 * SHIFT + 1, (2,)).tolist()
    padded = F.pad(x, (SHIFT,) * 4, mode="replicate")
    return padded[:, :, down : down + x.shape[2], across : across + x.shape[3]]


def _input(images: Images) -> Tensor:
    """(n, side, side, channels) levels to (n, channels, side, side) in [-1, 1]."""
    return torch.from_numpy(images.astype(np.float32) / 127.5 - 1).permute(0, 3, 1, 2)
