"""Image features for Fréchet distance, precision and recall, from a small trained classifier.

These metrics need features that describe content rather than pixels. The classifier learns them
from the train split alone, so that they fit data of any kind and nothing has to be downloaded; its
penultimate layer is the feature vector. Distances are comparable only within one classifier, which
its digest identifies. `metrics.judges` keeps the classifiers of a dataset in a file.
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
FIRST_CHANNELS = 16  # doubled by each block
MAX_CHANNELS = 128
MAX_FINAL_SIDE = 8  # in pixels: blocks are added until the feature map is this small
ROTATIONS = 4  # of the self-supervised task, by right angles
THUMBNAIL = 4  # side in pixels of the image that the self-supervised task predicts
BATCH = 128
CHUNK = 500  # images per forward pass without gradients
SHIFT = 2  # pixels, the largest augmentation each way
LR = 5e-3
WEIGHT_DECAY = 0.02
DROPOUT = 0.1


class Classifier(nn.Module):
    """Convolutional classifier of square images with a feature layer of FEATURES units.

    Each block divides the side by two, until it is MAX_FINAL_SIDE or less. classes: number of
    labels. None selects a self-supervised task for images without labels: predict by which of four
    right angles an image was rotated (Gidaris et al. 2018). Rotations depend little on colour,
    which samples can get wrong, too; so the features must also predict the image at 4 x 4 pixels.
    """

    def __init__(self, side: int, channels: int, classes: int | None) -> None:
        super().__init__()
        self.task = "rotation" if classes is None else "labels"
        blocks: list[nn.Module] = []
        inputs = channels
        width = FIRST_CHANNELS
        while side > MAX_FINAL_SIDE or not blocks:
            blocks += [
                nn.Conv2d(inputs, width, 3, padding=1, bias=False),
                nn.MaxPool2d(2),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
            side //= 2
            inputs = width
            width = min(2 * width, MAX_CHANNELS)
        self.body = nn.Sequential(
            *blocks,
            nn.Flatten(),
            nn.Linear(inputs * side * side, FEATURES, bias=False),
            nn.BatchNorm1d(FEATURES),
            nn.ReLU(),
        )
        self.head = nn.Linear(FEATURES, classes or ROTATIONS)
        self.thumbnail = nn.Linear(FEATURES, channels * THUMBNAIL**2) if classes is None else None

    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Training loss of a batch. x: (batch, channels, side, side) in [-1, 1]."""
        features = F.dropout(self.body(x), DROPOUT)
        loss = F.cross_entropy(self.head(features), target)
        if self.thumbnail is not None:
            coarse = F.adaptive_avg_pool2d(x, THUMBNAIL).flatten(1)
            loss = loss + F.mse_loss(self.thumbnail(features), coarse)
        return loss

    @torch.no_grad()
    def features(self, images: Images) -> npt.NDArray[np.float64]:
        """Activations of the penultimate layer, (n, FEATURES).

        images: (n, side, side, channels) uint8. Returns float64, which covariances need.
        """
        chunks = []
        for start in range(0, len(images), CHUNK):
            x = _to_input(images[start : start + CHUNK])
            chunks.append(self.body(x).numpy())
        return np.concatenate(chunks).astype(np.float64)

    @torch.no_grad()
    def accuracy(self, images: Images, labels: Labels) -> float:
        """Accuracy at the task. images: as for `features`; labels: (n,)."""
        correct = 0
        for start in range(0, len(images), CHUNK):
            rows = slice(start, start + CHUNK)
            x, target = self.pose_task(_to_input(images[rows]), labels[rows])
            correct += int((self.head(self.body(x)).argmax(1) == target).sum())
        return correct / len(images)

    def pose_task(self, x: Tensor, labels: Labels) -> tuple[Tensor, Tensor]:
        """Inputs and targets of the task: images and labels, or rotated images and rotations."""
        if self.task == "labels":
            return x, torch.from_numpy(labels)
        rotated = []
        targets = []
        for rotation in range(ROTATIONS):
            images = torch.rot90(x[rotation::ROTATIONS], rotation, (2, 3))
            rotated.append(images)
            targets.append(torch.full((len(images),), rotation))
        return torch.cat(rotated), torch.cat(targets)

    @property
    def weights(self) -> bytes:
        """The weights as a safetensors file; equal weights give equal bytes."""
        return save({name: value.contiguous() for name, value in self.state_dict().items()})

    @property
    def digest(self) -> str:
        """SHA-256 of the weights, which identifies the classifier."""
        return hashlib.sha256(self.weights).hexdigest()


def train_classifier(
    images: Images, labels: Labels | None, *, seed: int, examples: int
) -> Classifier:
    """Train a classifier; the same seed and number of threads give the same weights.

    images: (n, side, side, channels) uint8, n >= 2, may be memory-mapped. labels: (n,) classes from
    0; without labels the task is rotation (see `Classifier`). examples: number of images drawn, in
    shuffled epochs, each shifted by up to SHIFT pixels. The optimiser is AdamW with a one-cycle
    learning rate (Smith and Topin 2019). The state of torch's random generator is restored.
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
        batches = _draw_batches(len(images), batch)
        for _ in progress(range(steps), desc="features", unit="batch"):
            rows = next(batches)
            x, target = network.pose_task(_shift(_to_input(images[rows])), targets[rows])
            optimiser.zero_grad()
            x = x.contiguous(memory_format=torch.channels_last)
            network.loss(x, target).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    return network.eval()


def _draw_batches(n: int, batch: int) -> Iterator[Labels]:
    """Yield the rows of endless batches: shuffled epochs, each without its last partial batch."""
    while True:
        yield from torch.randperm(n)[: n - n % batch].view(-1, batch).numpy()


def _shift(x: Tensor) -> Tensor:
    """Move a batch of images by up to SHIFT pixels each way, repeating the border."""
    across, down = torch.randint(0, 2 * SHIFT + 1, (2,)).tolist()
    padded = F.pad(x, (SHIFT,) * 4, mode="replicate")
    return padded[:, :, down : down + x.shape[2], across : across + x.shape[3]]


def _to_input(images: Images) -> Tensor:
    """Convert levels (n, side, side, channels) to (n, channels, side, side) in [-1, 1]."""
    return torch.from_numpy(images.astype(np.float32) / 127.5 - 1).permute(0, 3, 1, 2)
