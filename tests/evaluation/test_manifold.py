"""Precision and recall against the definitions."""

import numpy as np
import numpy.typing as npt
import pytest

from genlab.evaluation.metrics import manifold as module
from genlab.evaluation.metrics.manifold import manifold, squared_radii

Floats = npt.NDArray[np.float64]


def _points(n: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(n, 8))


def _plain(fake: Floats, real: Floats, k: int) -> tuple[float, float]:
    """The definitions, point by point."""

    def radius(rows: Floats, i: int) -> float:
        return float(np.sort(np.linalg.norm(np.delete(rows, i, 0) - rows[i], axis=1))[k - 1])

    fake_radii = [radius(fake, i) for i in range(len(fake))]
    real_radii = [radius(real, i) for i in range(len(real))]
    distances = np.linalg.norm(fake[:, None] - real[None], axis=2)
    in_real = distances <= np.array(real_radii)
    in_fake = distances <= np.array(fake_radii)[:, None]
    return in_real.any(1).mean(), in_fake.any(0).mean()


@pytest.mark.parametrize("k", [1, 5])
def test_it_agrees_with_the_definitions(k: int) -> None:
    fake = _points(60)
    real = 1.3 * _points(45, seed=1) + 0.2
    metrics = manifold(fake, real, k=k)
    assert (metrics["precision"], metrics["recall"]) == pytest.approx(_plain(fake, real, k))
    assert (metrics["k"], metrics["n"], metrics["n_reference"]) == (k, 60, 45)
    for name, n in (("precision", 60), ("recall", 45)):
        interval = metrics["intervals"][name]
        assert interval["low"] < metrics[name] <= interval["high"]
        assert interval["n"] == n


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = _points(900)
    real = _points(800, seed=1)
    whole = manifold(fake, real)
    assert manifold(fake, real, real_radii=squared_radii(real)) == whole
    monkeypatch.setattr(module, "ROWS", 7)
    assert manifold(fake, real) == whole
