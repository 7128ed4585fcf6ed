"""Reference models without a network, which a trained model should beat."""

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA

from genlab.evaluation.metrics.fidelity import Images, ssim

LEVELS = 256
CONTEXT_BITS = 6
PSEUDO_COUNT = 100
"""Bits kept of each neighbouring pixel, and smoothing of a table of counts: the best choice on the
validation split of Fashion-MNIST, by `python benchmarks/run.py counts`."""
PCA_COMPONENTS = 64
PCA_IMAGES = 20_000
CHUNK = 256  # images counted at a time


class ContextTable:
    """Counts of each level given the pixels above and to the left: p(pixel | above, left).

    train: (n, h, w, c) uint8. The neighbours are of the same channel, quantised to `context_bits`,
    and 0 outside of the image.
    """

    def __init__(self, train: Images, context_bits: int) -> None:
        self.context_bits = context_bits
        size = 1 << 2 * context_bits
        table = np.zeros(size * LEVELS, dtype=np.int64)
        for start in range(0, len(train), CHUNK):
            chunk = train[start : start + CHUNK]
            cells = _encode_contexts(chunk, context_bits) * LEVELS + chunk
            table += np.bincount(cells.ravel(), minlength=len(table))
        self.counts = table.reshape(size, LEVELS)

    def bits_per_dim(self, images: Images, pseudo_count: float) -> float:
        """Bits per dimension of images, comparable with those of a VAE: the table is a code.

        Counts are smoothed by `pseudo_count` draws from the marginal distribution of the levels.
        """
        counts = self.counts
        marginal = (counts.sum(0) + 1) / (counts.sum() + LEVELS)
        smoothed = counts + pseudo_count * marginal
        bits = -np.log2(smoothed / smoothed.sum(1, keepdims=True))
        return float(bits[_encode_contexts(images, self.context_bits), images].mean())


def context_model_bits(train: Images, test: Images) -> float:
    """Bits per dimension of a `ContextTable` of `train` on `test`, (n, h, w, c) uint8 each."""
    return ContextTable(train, CONTEXT_BITS).bits_per_dim(test, PSEUDO_COUNT)


def pca_ssim(train: Images, test: Images) -> float:
    """Mean SSIM of test images projected onto PCA_COMPONENTS principal components.

    train, test: (n, h, w, c) uint8. The components are fitted to the first PCA_IMAGES of `train`.
    """
    fitted_rows = _flatten(train[:PCA_IMAGES])
    components = min(PCA_COMPONENTS, *fitted_rows.shape)
    pca = PCA(components, svd_solver="randomized", random_state=0).fit(fitted_rows)
    codes = pca.transform(_flatten(test))
    projected = pca.inverse_transform(codes).round().clip(0, LEVELS - 1)
    return float(ssim(test, projected.astype(np.uint8).reshape(test.shape)).mean())


def _flatten(images: Images) -> npt.NDArray[np.float32]:
    """Reshape (n, h, w, c) to (n, d)."""
    return images.reshape(len(images), -1).astype(np.float32)


def _encode_contexts(images: Images, context_bits: int) -> npt.NDArray[np.int64]:
    """Encode the quantised neighbours of each pixel as one number, in the shape of `images`."""
    coarse = (images >> (8 - context_bits)).astype(np.int64)
    above = np.zeros_like(coarse)
    above[:, 1:] = coarse[:, :-1]
    left = np.zeros_like(coarse)
    left[:, :, 1:] = coarse[:, :, :-1]
    return (above << context_bits) + left
