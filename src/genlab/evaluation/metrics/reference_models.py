"""Reference models without a network, which a trained model should beat."""

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA

from genlab.evaluation.metrics.fidelity import Images, ssim

LEVELS = 256
CONTEXT_BITS = 5
"""Bits kept of each neighbouring pixel: the best of 3, 4, 5, 6 and 8 on Fashion-MNIST."""
PSEUDO_COUNT = 10
PCA_COMPONENTS = 64
PCA_IMAGES = 20_000
CHUNK = 256  # images counted at a time


def context_model_bits(train: Images, test: Images) -> float:
    """Bits per dimension of a table of counts: p(pixel | pixel above, pixel to the left).

    train, test: (n, h, w, c) uint8. The neighbours are of the same channel, quantised to
    CONTEXT_BITS, and 0 outside of the image. Counts are smoothed by PSEUDO_COUNT draws from the
    marginal distribution of the levels. The table is a code for the test images, so its bits are
    comparable with those of a VAE.
    """
    size = 1 << 2 * CONTEXT_BITS
    table = np.zeros(size * LEVELS, dtype=np.int64)
    for start in range(0, len(train), CHUNK):
        chunk = train[start : start + CHUNK]
        cells = _encode_contexts(chunk) * LEVELS + chunk
        table += np.bincount(cells.ravel(), minlength=len(table))
    counts = table.reshape(size, LEVELS)
    marginal = (counts.sum(0) + 1) / (counts.sum() + LEVELS)
    smoothed = counts + PSEUDO_COUNT * marginal
    bits = -np.log2(smoothed / smoothed.sum(1, keepdims=True))
    return float(bits[_encode_contexts(test), test].mean())


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


def _encode_contexts(images: Images) -> npt.NDArray[np.int64]:
    """Encode the quantised neighbours of each pixel as one number, in the shape of `images`."""
    coarse = (images >> (8 - CONTEXT_BITS)).astype(np.int64)
    above = np.zeros_like(coarse)
    above[:, 1:] = coarse[:, :-1]
    left = np.zeros_like(coarse)
    left[:, :, 1:] = coarse[:, :, :-1]
    return (above << CONTEXT_BITS) + left
