"""Fidelity of reconstructed images: MSE, PSNR and SSIM."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from skimage.metrics import structural_similarity

from genlab.core.stats import Floats, mean_metrics

Images = npt.NDArray[np.uint8]

LEVELS = 255
ROUNDING_PSNR = 10 * math.log10(12 * LEVELS**2)
"""PSNR in dB of an image that was only rounded to 8 bits: an error of 1/12 squared levels.

The largest PSNR that is reported, since 8-bit images cannot show a better one. An exact copy would
have an infinite PSNR, and make every mean infinite.
"""


def mse(truth: Images, predicted: Images) -> Floats:
    """Mean squared error of each image, in units of the range [0, 1] squared.

    truth, predicted: (n, h, w, c) uint8. Returns (n,).
    """
    squared = np.square(truth.astype(np.float32) - predicted)
    errors: Floats = squared.mean(axis=(1, 2, 3), dtype=np.float64) / LEVELS**2
    return errors


def psnr(errors: npt.ArrayLike) -> Floats:
    """Peak signal-to-noise ratio in dB from values of `mse`, at most ROUNDING_PSNR."""
    smallest = 10 ** (-ROUNDING_PSNR / 10)
    ratio: Floats = -10 * np.log10(np.maximum(np.asarray(errors, dtype=np.float64), smallest))
    return ratio


def ssim(truth: Images, predicted: Images) -> Floats:
    """Structural similarity (Wang et al. 2004) of each image, by scikit-image, mean of channels.

    The settings are those of the paper: an 11 x 11 Gaussian window of sigma 1.5, population
    covariance, K1 = 0.01 and K2 = 0.03, range 255, and an average over the positions where the
    window lies inside the image. torchmetrics (1.9) reflects the image at its rim and averages over
    all positions, and so has other values for the same pairs.

    truth, predicted: (n, h, w, c) uint8, sides at least 11. Returns (n,), 1 for equal images.
    """
    settings = {"gaussian_weights": True, "sigma": 1.5, "use_sample_covariance": False}
    values = [
        structural_similarity(image, copy, data_range=LEVELS, channel_axis=-1, **settings)  # type: ignore[no-untyped-call]
        for image, copy in zip(truth, predicted, strict=True)
    ]
    return np.array(values, dtype=np.float64)


def fidelity(
    truth: Images, predicted: Images, *, bootstrap: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Means of `mse`, `psnr` and `ssim` with 95 % bootstrap intervals over images.

    truth, predicted: (n, h, w, c) uint8. Returns the three means, `n` and `intervals` {name: {low,
    high, n}}.
    """
    errors = mse(truth, predicted)
    columns = {"mse": errors, "psnr": psnr(errors), "ssim": ssim(truth, predicted)}
    return mean_metrics(columns, bootstrap=bootstrap, seed=seed)


def error_correlation(truth: Images, predicted: Images) -> float:
    """Correlation of the errors of predictions at neighbouring pixels; 0 where there is no error.

    truth, predicted: (n, h, w, c) uint8. Errors are centred per pixel; the neighbours of a pixel
    are those to its right and below it. The correlation is near 0 if the predictions leave out
    nothing that neighbours share, as a likelihood assumes whose pixels are independent.
    """
    products = squares = 0.0
    error = truth.astype(np.float32) - predicted
    error -= error.mean(axis=0)
    vertical = (error[:, 1:], error[:, :-1])
    horizontal = (error[:, :, 1:], error[:, :, :-1])
    for errors, neighbours in (vertical, horizontal):
        products += float(np.mean(errors * neighbours, dtype=np.float64))
        squares += float(np.sqrt(np.mean(errors**2) * np.mean(neighbours**2)))
    return products / squares if squares else 0.0
