"""Measure a generative model: bits per dimension and the Fréchet distance of its draws.

The model encodes in one sandbox, where it sees images and can keep nothing, and decodes in another,
which no image ever enters. Only z passes from one to the other; it is sampled here, and the bound
charges for its bits:

    bits per dimension = (-log p(x|z) + KL(q(z|x) || N(0, I))) / (dimensions * log 2)

with one z ~ q(z|x) per image; log p and KL are computed here. The noise of z is seeded by encode's
output: a model that knew the noise in advance could transmit the image through means that cost
nothing. Codes are decoded in an order that the model does not know.
"""

import hashlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from genlab.agent.evaluator.datasets import Data, DataSplit, Items
from genlab.agent.evaluator.results import EvaluationError
from genlab.agent.evaluator.sandbox import ModelSandbox
from genlab.core.errors import GenlabError
from genlab.core.stats import mean_metrics
from genlab.datasets.images import load_images, load_labels
from genlab.datasets.manifests import MANIFEST_FILE
from genlab.distributions.discretized_logistic import DiscretizedLogisticMixture
from genlab.distributions.gaussian import kl_standard_normal, reparameterize
from genlab.evaluation.metrics import duplicates, frechet
from genlab.evaluation.metrics.features import Classifier
from genlab.evaluation.metrics.judges import TrainingSet, load_judges
from genlab.sandbox.limits import MIB

Floats = npt.NDArray[np.float64]
Job = dict[str, Any]

MAX_DRAWS = 10_000  # there is one draw per image of the split, up to this many
EXTRACTOR_EXAMPLES = 300_000  # to train the classifier of a dataset that no stage has split
QUERIES = 500  # draws that are searched for copies of training images
MEMORISED = 0.5  # rate of near duplicates above which the draws count as copies
ANSWER_BYTES = 192 * MIB  # of decoded parameters per job
FIRST_CODES = 250  # of the first job, whose answer tells how large the answers are
CHUNK = 250  # items whose likelihood is computed at a time
BOOTSTRAP = 1000
FRECHET_BOOTSTRAP = 100  # on the test split
FRECHET_RESAMPLES = 20  # on the validation split, for each seed


class GenerativeEvaluator:
    """Measure generative models on images. No image enters the sandbox `decoding`.

    frechet: whether the Fréchet distance is measured, which needs square images.
    per_component: channels that describe one mixture component of a pixel.
    """

    def __init__(
        self, data: Data, encoding: ModelSandbox, decoding: ModelSandbox, *, frechet: bool = True
    ) -> None:
        channels, height, width = data.shape
        if frechet and height != width:
            raise GenlabError(f"frechet_distance needs square images, {data.name} has {data.shape}")
        self.data = data
        self.encoding = encoding
        self.decoding = decoding
        self.frechet = frechet
        self.per_component = DiscretizedLogisticMixture(channels, 1).outputs
        self.bits = 1 / (math.prod(data.shape) * math.log(2))
        self._extractor: Classifier | None = None

    def measure(
        self, job: Job, weights: bytes, items: Items, split: DataSplit
    ) -> tuple[dict[str, Any], float]:
        """Return metrics on a split, and bits per dimension of the training items before it.

        items: training items, if any, then the items of the split. Metrics are `bits_per_dim`, `kl`
        (nats per item), `n`, `frechet_distance` and `near_duplicate_rate` of n draws, and their
        `intervals`; that of the distance has more resamples where no training items are given.
        Raises EvaluationError where an answer is misshapen or not finite, or where draws are copies
        of training images.
        """
        nll, kl, latents = self.elbo_terms(job, weights, items)
        start = len(items) - len(split)
        bits = (nll + kl) * self.bits
        columns = {"bits_per_dim": bits[start:], "kl": kl[start:]}
        metrics = mean_metrics(columns, bootstrap=BOOTSTRAP, seed=0)
        if self.frechet:
            self._extractor = self._extractor or load_extractor(self.data)
            draws = self.draw(job, weights, latents, min(len(split), MAX_DRAWS))
            resamples = FRECHET_RESAMPLES if start else FRECHET_BOOTSTRAP
            of_draws = compare_draws(draws, split, self.data, self._extractor, resamples)
            intervals = metrics["intervals"] | of_draws["intervals"]
            metrics |= {**of_draws, "intervals": intervals}
        return metrics, float(bits[:start].mean()) if start else math.nan

    def elbo_terms(self, job: Job, weights: bytes, items: Items) -> tuple[Floats, Floats, int]:
        """Return -log p(x|z) and KL per item in nats, each (n,), and the number of latents."""
        mean, logvar = (x.double() for x in self.encoding.answer(job, "encode", weights, items))
        if mean.shape != logvar.shape or mean.ndim != 2:
            raise EvaluationError(f"encode gives {tuple(mean.shape)} and {tuple(logvar.shape)}")
        digest = hashlib.sha256(mean.numpy().tobytes() + logvar.numpy().tobytes())
        digest.update(str(job["seed"]).encode())
        generator = torch.Generator().manual_seed(int.from_bytes(digest.digest()[:7], "big"))
        noise = torch.randn(mean.shape, generator=generator, dtype=torch.float64)
        z = reparameterize(mean, logvar, noise)
        kl = kl_standard_normal(mean, logvar).sum(1).numpy()
        if not np.isfinite(kl).all() or not bool(z.isfinite().all()):
            raise EvaluationError("the KL of the codes is not finite")
        order = torch.randperm(len(z), generator=generator)
        nll = np.empty(len(items))
        start = 0
        for mixture, out in self._decode(job, weights, z[order].float()):
            rows = order[start : start + len(out)].numpy()
            nll[rows] = -mixture.log_prob(out.double(), torch.from_numpy(items[rows])).numpy()
            start += len(out)
        if not np.isfinite(nll).all() or nll.min() < -1e-3:
            raise EvaluationError("the log likelihood is not finite")
        return nll, kl, mean.shape[1]

    def draw(self, job: Job, weights: bytes, latents: int, count: int) -> Items:
        """Draw images x ~ p(x|z), z ~ N(0, I): uint8 (count, height, width, channels)."""
        generator = torch.Generator().manual_seed(job["seed"])
        z = torch.randn(count, latents, generator=generator)
        batches = [
            mixture.sample(out, generator).permute(0, 2, 3, 1).numpy()
            for mixture, out in self._decode(job, weights, z)
        ]
        return np.concatenate(batches)

    def _decode(
        self, job: Job, weights: bytes, z: Tensor
    ) -> Iterator[tuple[DiscretizedLogisticMixture, Tensor]]:
        """Decode z in jobs of bounded size; yield the likelihood and its parameters chunk-wise."""
        channels, *sides = self.data.shape
        start = 0
        count = FIRST_CODES
        while start < len(z):
            codes = z[start : start + count].numpy()
            (out,) = self.decoding.answer(job, "decode", weights, codes)
            shape = tuple(out.shape)
            if list(shape[2:]) != sides or not shape[1] or shape[1] % self.per_component:
                raise EvaluationError(f"decode gives the shape {shape}")
            mixture = DiscretizedLogisticMixture(channels, shape[1] // self.per_component)
            for chunk in torch.split(out.float(), CHUNK):
                yield mixture, chunk
            start += len(codes)
            count = max(1, ANSWER_BYTES // (4 * math.prod(shape[1:])))


def load_extractor(data: Data) -> Classifier:
    """Load the classifier whose features are compared.

    It is the first of the pipeline's classifiers of the dataset; where no stage has split the data,
    one that is trained on the training split.
    """
    folder = data.folder
    if folder is not None and (folder / MANIFEST_FILE).is_file():
        images = load_images(folder, "train")
        labels = load_labels(folder, "train")
        training = TrainingSet.of_dataset(data.name, images, labels)
        return load_judges(training, folder.parent / "judges" / data.name, seeds=(0,))[0]
    images = np.ascontiguousarray(data.train.items.transpose(0, 2, 3, 1))
    training = TrainingSet.of_dataset("", images, data.train.labels)
    return load_judges(training, examples=EXTRACTOR_EXAMPLES, seeds=(0,))[0]


def compare_draws(
    draws: Items, split: DataSplit, data: Data, extractor: Classifier, bootstrap: int = 1
) -> dict[str, Any]:
    """Return `frechet_distance` of draws to a split, its `intervals`, and `near_duplicate_rate`.

    draws: uint8 (n, height, width, channels). The rate is that of draws with a near duplicate among
    the training images. Raises EvaluationError where most draws have one.
    """
    images = split.items.transpose(0, 2, 3, 1)
    train = data.train.items.transpose(0, 2, 3, 1)
    # Which draws are compared depends on all of them, so that no module can know it.
    seed = np.frombuffer(hashlib.sha256(draws.tobytes()).digest(), np.uint32)
    chosen = np.random.default_rng(seed).permutation(len(draws))[:QUERIES]
    _, distances = duplicates.find_nearest(draws[chosen], train)
    _, held_out = duplicates.find_nearest(images[:QUERIES], train)
    rate = duplicates.measure_memorisation(distances, held_out)["near_duplicate_rate"]
    if rate > MEMORISED:
        raise EvaluationError(f"{rate:.0%} of the draws are copies of training images")
    features_of_draws = extractor.features(np.ascontiguousarray(draws))
    features_of_images = extractor.features(np.ascontiguousarray(images))
    distance = frechet.frechet(features_of_draws, features_of_images, bootstrap=bootstrap)
    return {
        "frechet_distance": distance["frechet_distance"],
        "intervals": distance["intervals"],
        "near_duplicate_rate": rate,
    }
