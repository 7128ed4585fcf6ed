"""Judge a generative model: bits per dimension and the Fréchet distance of its draws.

The model encodes in one sandbox, where it sees images and can keep nothing, and decodes in another,
which no image ever enters. What passes from one to the other is z, drawn here, and paid for:

    bits per dimension = (-log p(x|z) + KL(q(z|x) || N(0, I))) / (dimensions * log 2)

at one z ~ q(z|x) per image, log p and KL computed here. The noise of z is seeded by what encode
answered: a model that knew it could send the image through a mean of no cost. Codes are decoded in
an order that the model does not know.
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

MOST_DRAWS = 10_000  # as many as the part has images, up to this
EXTRACTOR_EXAMPLES = 300_000  # that the classifier of data without a stage is trained with
QUERIES = 500  # draws that are searched for copies of training images
MEMORISED = 0.5  # share of near copies from which draws are not the model's
ANSWER_BYTES = 192 * MIB  # of decoded parameters per job
FIRST, CHUNK = 250, 250  # codes of the first job, whose answer tells the size; items at a time
BOOTSTRAP = 1000
FRECHET_BOOTSTRAP = 100  # on the test part
FRECHET_RESAMPLES = 20  # on the validation part, for each seed


class GenerativeJudge:
    """Metrics of generative models on images. No image enters the sandbox `decoding`.

    per_component: channels that describe one mixture component of a pixel.
    """

    def __init__(
        self, data: Data, encoding: ModelSandbox, decoding: ModelSandbox, *, frechet: bool = True
    ) -> None:
        channels, height, width = data.shape
        if frechet and height != width:
            raise GenlabError(f"frechet_distance needs square images, {data.name} has {data.shape}")
        self.data, self.encoding, self.decoding, self.frechet = data, encoding, decoding, frechet
        self.per_component = DiscretizedLogisticMixture(channels, 1).outputs
        self.bits = 1 / (math.prod(data.shape) * math.log(2))
        self._extractor: Classifier | None = None

    def measure(
        self, job: Job, weights: bytes, items: Items, part: DataSplit
    ) -> tuple[dict[str, Any], float]:
        """Metrics on a part, with `intervals`, and bits per dimension of the items before it.

        items: those before the part, and the part's. Metrics are `bits_per_dim`, `kl` (nats per
        item), `n`, `frechet_distance` and `near_duplicate_rate` of n draws. The intervals of the
        distance are finer where nothing is before the part. Raises EvaluationError where an answer
        is not finite or misshapen, or where draws are copies of training images.
        """
        nll, kl, latents = self.elbo_terms(job, weights, items)
        split, bits = len(items) - len(part), (nll + kl) * self.bits
        columns = {"bits_per_dim": bits[split:], "kl": kl[split:]}
        found = mean_metrics(columns, bootstrap=BOOTSTRAP, seed=0)
        if self.frechet:
            self._extractor = self._extractor or load_extractor(self.data)
            draws = self.draw(job, weights, latents, min(len(part), MOST_DRAWS))
            resamples = FRECHET_RESAMPLES if split else FRECHET_BOOTSTRAP
            close = compare_draws(draws, part, self.data, self._extractor, resamples)
            found |= {**close, "intervals": found["intervals"] | close["intervals"]}
        return found, float(bits[:split].mean()) if split else math.nan

    def elbo_terms(self, job: Job, weights: bytes, items: Items) -> tuple[Floats, Floats, int]:
        """-log p(x|z) and KL of each item in nats, (n,), at one z per item; length of a code."""
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
        nll, start = np.empty(len(items)), 0
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
        drawn = [
            mixture.sample(out, generator).permute(0, 2, 3, 1).numpy()
            for mixture, out in self._decode(job, weights, z)
        ]
        return np.concatenate(drawn)

    def _decode(
        self, job: Job, weights: bytes, z: Tensor
    ) -> Iterator[tuple[DiscretizedLogisticMixture, Tensor]]:
        """Likelihoods of successive codes and their parameters, in jobs of bounded answers."""
        channels, *sides = self.data.shape
        start, count = 0, FIRST
        while start < len(z):
            codes = z[start : start + count].numpy()
            (out,) = self.decoding.answer(job, "decode", weights, codes)
            shape = tuple(out.shape)
            if list(shape[2:]) != sides or not shape[1] or shape[1] % self.per_component:
                raise EvaluationError(f"decode gives the shape {shape}")
            mixture = DiscretizedLogisticMixture(channels, shape[1] // self.per_component)
            for part in torch.split(out.float(), CHUNK):
                yield mixture, part
            start += len(codes)
            count = max(1, ANSWER_BYTES // (4 * math.prod(shape[1:])))


def load_extractor(data: Data) -> Classifier:
    """The first of the pipeline's classifiers of the dataset; of data without a stage, another."""
    folder = data.folder
    if folder is not None and (folder / MANIFEST_FILE).is_file():
        images, labels = load_images(folder, "train"), load_labels(folder, "train")
        training = TrainingSet.of_dataset(data.name, images, labels)
        return load_judges(training, folder.parent / "judges" / data.name, seeds=(0,))[0]
    images = np.ascontiguousarray(data.train.items.transpose(0, 2, 3, 1))
    training = TrainingSet.of_dataset("", images, data.train.labels)
    return load_judges(training, examples=EXTRACTOR_EXAMPLES, seeds=(0,))[0]


def compare_draws(
    draws: Items, part: DataSplit, data: Data, extractor: Classifier, bootstrap: int = 1
) -> dict[str, Any]:
    """`frechet_distance` of draws to a part, with `intervals`; `near_duplicate_rate` of training.

    draws: uint8 (n, height, width, channels). Raises EvaluationError where most are copies.
    """
    images, train = (p.items.transpose(0, 2, 3, 1) for p in (part, data.train))
    # Which draws are compared depends on all of them, so that no module can know it.
    seed = np.frombuffer(hashlib.sha256(draws.tobytes()).digest(), np.uint32)
    chosen = np.random.default_rng(seed).permutation(len(draws))[:QUERIES]
    _, distances = duplicates.find_nearest(draws[chosen], train)
    _, held_out = duplicates.find_nearest(images[:QUERIES], train)
    near = duplicates.measure_memorisation(distances, held_out)["near_duplicate_rate"]
    if near > MEMORISED:
        raise EvaluationError(f"{near:.0%} of the draws are copies of training images")
    features = [extractor.features(np.ascontiguousarray(each)) for each in (draws, images)]
    found = frechet.frechet(*features, bootstrap=bootstrap)
    kept = {key: found[key] for key in ("frechet_distance", "intervals")}
    return {**kept, "near_duplicate_rate": near}
