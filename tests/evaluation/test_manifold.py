"""Precision, recall, density and coverage against a plain reference and known cases."""

import numpy as np
import numpy.typing as npt
import pytest

from genlab.evaluation.metrics import manifold as module
from genlab.evaluation.metrics.manifold import manifold

Floats = npt.NDArray[np.float64]
NAMES = ("precision", "recall", "density", "coverage")


def _points(n: int, seed: int = 0, d: int = 8) -> Floats:
    return np.random.default_rng(seed).normal(size=(n, d))


def _modes(n: int, centres: list[float], seed: int) -> Floats:
    """n points around each centre."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(centre, 1, (n, 4)) for centre in centres])


def _plain(fake: Floats, real: Floats, k: int) -> tuple[float, ...]:
    """The definitions word for word, point by point."""

    def radius(rows: Floats, i: int) -> float:
        return float(np.sort(np.linalg.norm(np.delete(rows, i, 0) - rows[i], axis=1))[k - 1])

    fake_radii = [radius(fake, i) for i in range(len(fake))]
    real_radii = [radius(real, i) for i in range(len(real))]
    apart = np.array([[np.linalg.norm(f - r) for r in real] for f in fake])
    in_real = apart <= np.array(real_radii)
    in_fake = apart <= np.array(fake_radii)[:, None]
    return (
        in_real.any(1).mean(),
        in_fake.any(0).mean(),
        in_real.sum() / (k * len(fake)),
        in_real.any(0).mean(),
    )


@pytest.mark.parametrize("k", [1, 5])
def test_it_agrees_with_the_definitions_word_for_word(k: int) -> None:
    fake, real = _points(60), 1.3 * _points(45, seed=1) + 0.2
    found = manifold(fake, real, k=k, bootstrap=10)
    assert [found[name] for name in NAMES] == pytest.approx(_plain(fake, real, k))


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, real = _points(900), _points(800, seed=1)
    whole = manifold(fake, real, bootstrap=10)
    sizes: list[int] = []
    plain = module.pairwise_distances_chunked

    def watched(*arguments: object, **options: object) -> object:
        for chunk in plain(*arguments, **options):
            sizes.append(len(chunk))
            yield chunk

    monkeypatch.setattr(module, "pairwise_distances_chunked", watched)
    monkeypatch.setattr(module, "MEGABYTES", 1)
    assert manifold(fake, real, bootstrap=10) == whole
    assert len(sizes) > 1
    assert sum(sizes) == 900


def test_samples_of_the_same_distribution_have_a_density_of_about_one() -> None:
    found = manifold(_points(2000), _points(2000, seed=1), bootstrap=10)
    assert found["density"] == pytest.approx(1, abs=0.1)
    assert found["coverage"] > 0.9


def test_disjoint_sets_have_nothing_in_common() -> None:
    found = manifold(_points(100), _points(100, seed=1) + 50, bootstrap=10)
    assert [found[name] for name in NAMES] == [0, 0, 0, 0]
    assert found["intervals"]["precision"]["high"] > 0


def test_dropping_a_mode_costs_recall_and_coverage_not_precision() -> None:
    real = _modes(300, [-20, 0, 20], seed=0)
    every = manifold(_modes(300, [-20, 0, 20], seed=1), real, bootstrap=10)
    dropped = manifold(_modes(450, [-20, 0], seed=2), real, bootstrap=10)
    assert dropped["precision"] == pytest.approx(every["precision"], abs=0.05)
    assert dropped["recall"] < every["recall"] - 0.25
    assert dropped["coverage"] < every["coverage"] - 0.25


def test_each_number_has_its_interval_over_the_points_it_tests() -> None:
    found = manifold(_points(300) + 0.4, _points(200, seed=1), bootstrap=200, seed=1)
    for name, n in zip(NAMES, (300, 200, 300, 200), strict=True):
        interval = found["intervals"][name]
        assert interval["low"] < found[name] < interval["high"]
        assert interval["n"] == n
    assert (found["k"], found["n"], found["n_reference"]) == (5, 300, 200)
