"""What models without a network reach on the same images, for a trained one to beat."""

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA

from genlab.evaluation.metrics.fidelity import Images, ssim

LEVELS = 256
CONTEXT_BITS = 5
"""Of the pixel above and of the one to the left: the best of 3, 4, 5, 6 and 8 on Fashion-MNIST."""
PSEUDO_COUNT = 10
PCA_COMPONENTS, PCA_IMAGES = 64, 20_000
CHUNK = 256  # images counted at a time


def context_model_bits(train: Images, test: Images) -> float:
    """Bits per dimension of a table of counts: p(pixel | the one above, the one to the left).

    train, test: (n, h, w, c) uint8. The two neighbours of the same channel are coarsened to
    CONTEXT_BITS each, 0 outside of the image; counts are smoothed by PSEUDO_COUNT draws from the
    marginal of the levels. It is a code for the test images, so its bits compare with a VAE's.
    """
    size = 1 << 2 * CONTEXT_BITS
    table = np.zeros(size * LEVELS, dtype=np.int64)
    for start in range(0, len(train), CHUNK):
        chunk = train[start : start + CHUNK]
        places = _contexts(chunk) * LEVELS + chunk
        table += np.bincount(places.ravel(), minlength=len(table))
    counts = table.reshape(size, LEVELS)
    marginal = (counts.sum(0) + 1) / (counts.sum() + LEVELS)
    smoothed = counts + PSEUDO_COUNT * marginal
    bits = -np.log2(smoothed / smoothed.sum(1, keepdims=True))
    return float(bits[_contexts(test), test].mean())


def pca_ssim(train: Images, test: Images) -> float:
    """Mean SSIM of the test images' projections onto PCA_COMPONENTS principal components.

    train, test: (n, h, w, c) uint8; the components are those of the first PCA_IMAGES of train.
    """
    rows, known = (x.reshape(len(x), -1).astype(np.float32) for x in (test, train[:PCA_IMAGES]))
    components = min(PCA_COMPONENTS, *known.shape)
    pca = PCA(components, svd_solver="randomized", random_state=0).fit(known)
    projected = pca.inverse_transform(pca.transform(rows)).round().clip(0, LEVELS - 1)
    return float(ssim(test, projected.astype(np.uint8).reshape(test.shape)).mean())


def _contexts(images: Images) -> npt.NDArray[np.int64]:
    """The coarsened neighbours of each pixel as one number, of the shape of `images`."""
    coarse = (images >> (8 - CONTEXT_BITS)).astype(np.int64)
    above, left = np.zeros_like(coarse), np.zeros_like(coarse)
    above[:, 1:], left[:, :, 1:] = coarse[:, :-1], coarse[:, :, :-1]
    return (above << CONTEXT_BITS) + left
