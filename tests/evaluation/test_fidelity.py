"""MSE, PSNR and SSIM against closed forms and scikit-image."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from skimage.metrics import peak_signal_noise_ratio

from genlab.evaluation.metrics.fidelity import ROUNDING_PSNR, error_correlation, fidelity, ssim

Images = npt.NDArray[np.uint8]


def _images(n: int = 40, side: int = 16, channels: int = 3, seed: int = 0) -> Images:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, side, side, channels), dtype=np.uint8)


def _noisy(images: Images, scale: float) -> Images:
    noise = np.random.default_rng(1).normal(0, scale, images.shape)
    return np.clip(images + noise, 0, 255).astype(np.uint8)


def test_equal_images_are_perfect() -> None:
    images = _images()
    metrics = fidelity(images, images, bootstrap=2)
    assert (metrics["mse"], metrics["n"]) == (0, 40)
    assert (metrics["ssim"], metrics["psnr"]) == pytest.approx((1, ROUNDING_PSNR))


def test_psnr_is_the_mean_of_scikit_images() -> None:
    images = _images()
    noisy = _noisy(images, 20)
    pairs = zip(images, noisy, strict=True)
    expected = [peak_signal_noise_ratio(image, copy, data_range=255) for image, copy in pairs]
    assert fidelity(images, noisy, bootstrap=2)["psnr"] == pytest.approx(np.mean(expected))


def test_psnr_of_mere_rounding_is_its_ceiling() -> None:
    rng = np.random.default_rng(0)
    levels = rng.uniform(0, 255, 100_000)
    rounding = np.mean((levels - levels.round()) ** 2) / 255**2
    assert -10 * math.log10(rounding) == pytest.approx(ROUNDING_PSNR, abs=0.05)


def test_ssim_follows_wangs_formula() -> None:
    """One pixel's window fits into 11 x 11: the index is a plain weighted formula there."""
    first = _images(1, 11, 1)
    second = _images(1, 11, 1, seed=5)
    x = first[0, ..., 0].astype(float)
    y = second[0, ..., 0].astype(float)
    line = np.exp(-0.5 * (np.arange(-5, 6) / 1.5) ** 2)
    w = np.outer(line, line) / np.outer(line, line).sum()
    mx = (w * x).sum()
    my = (w * y).sum()
    vx = (w * (x - mx) ** 2).sum()
    vy = (w * (y - my) ** 2).sum()
    cov = (w * (x - mx) * (y - my)).sum()
    c1 = (0.01 * 255) ** 2
    c2 = (0.03 * 255) ** 2
    expected = (2 * mx * my + c1) * (2 * cov + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))
    assert ssim(first, second) == pytest.approx([expected])


def test_independent_errors_are_uncorrelated_and_a_blurs_are_not() -> None:
    truth = _images(n=300, channels=1) // 2 + 64
    assert error_correlation(truth, truth) == 0
    assert abs(error_correlation(truth, _noisy(truth, 10))) < 0.02
    # Each error is half of the same draw and half of the one to its right or below.
    noise = np.random.default_rng(1).normal(0, 10, (300, 17, 16, 1))
    spread = np.clip(truth + noise[:, 1:] + noise[:, :-1], 0, 255).astype(np.uint8)
    assert error_correlation(truth, spread) == pytest.approx(0.25, abs=0.03)  # 0.5 down, 0 aside
