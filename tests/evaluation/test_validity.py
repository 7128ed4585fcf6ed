"""Validity of samples: real grids count, specks, copies and broken grids do not."""

from typing import Any

import numpy as np
import pytest

from genlab.evaluation.metrics.validity import sample_metrics
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import AtomicImageGenerator
from genlab.grids.shapes import OBJECT_DTYPE


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    grids, objects, _ = AtomicImageGenerator(GridDistribution()).generate(3000, 0)
    test = objects[objects["grid"] >= 2000]
    return {
        "fresh": grids[:1000],
        "train": grids[1000:2000],
        "objects": test,
        "counts": np.bincount(test["grid"] - 2000, minlength=1000),
    }


def _metrics(data: dict[str, Any], samples: np.ndarray) -> dict[str, Any]:
    return sample_metrics(samples, data["train"], data["objects"], data["counts"], bootstrap=200)


def test_fresh_grids_of_the_language_are_legal_new_and_count(data: dict[str, Any]) -> None:
    metrics = _metrics(data, data["fresh"])
    assert metrics["valid_rate"] == 1
    assert metrics["legal_components"] == 1
    assert metrics["unique_and_novel_share"] == 1
    assert metrics["counted"] is True
    distances = [metrics[name] for name in ("count_tv", "size_tv", "colour_tv")]
    assert max(distances) < 0.08  # what 1000 draws leave
    numbers = {name for name, value in metrics.items() if isinstance(value, float)}
    assert numbers == set(metrics["intervals"])
    assert all(interval["n"] == 1000 for interval in metrics["intervals"].values())
    assert metrics["intervals"]["valid_rate"]["low"] < 1


@pytest.mark.parametrize("shift", [0.0, 0.02, 0.1])
def test_the_interval_of_a_distance_covers_as_often_as_it_claims(shift: float) -> None:
    """Grids of one object each, whose colours are shifted from the data's by a known distance."""
    rng = np.random.default_rng(0)
    trials = 100
    n = 300
    shares = np.full(9, 1 / 9)
    shares[:4] += shift / 4
    shares[4:] -= shift / 5
    objects = np.zeros(900, dtype=OBJECT_DTYPE)
    objects["colour"] = np.repeat(np.arange(1, 10), 100)
    objects["cells"] = 3
    hits = 0
    for seed in range(trials):
        samples = np.zeros((n, 5, 5), dtype=np.uint8)
        samples[:, 2, 1:4] = rng.choice(np.arange(1, 10), n, p=shares)[:, None]
        counts = np.ones(900, dtype=np.int64)
        metrics = sample_metrics(samples, samples[:1], objects, counts, bootstrap=100, seed=seed)
        interval = metrics["intervals"]["colour_tv"]
        hits += interval["low"] <= shift <= interval["high"]
    assert hits >= 90  # 95 less three standard deviations, rounded up


def test_legal_specks_do_not_count(data: dict[str, Any]) -> None:
    samples = np.zeros((400, 16, 16), dtype=np.uint8)
    for index in range(400):
        row, col = divmod(index, 14)
        samples[index, row % 16, col : col + 3] = 1 + index % 9
    metrics = _metrics(data, samples)
    assert metrics["valid_rate"] == 1
    assert metrics["size_tv"] > 0.5
    assert metrics["counted"] is False


def test_training_grids_and_repeats_are_neither_novel_nor_unique(data: dict[str, Any]) -> None:
    copied = _metrics(data, data["train"][:200])
    assert copied["unique_and_novel_share"] == 0
    repeated = _metrics(data, np.repeat(data["fresh"][:50], 4, axis=0))
    assert repeated["unique_and_novel_share"] == 0.25
    assert copied["counted"] is False
    assert repeated["counted"] is False


def test_all_black_samples_have_no_component_share_and_do_not_count(data: dict[str, Any]) -> None:
    metrics = _metrics(data, np.zeros((20, 16, 16), dtype=np.uint8))
    assert "legal_components" not in metrics
    assert metrics["valid_rate"] == 0
    assert metrics["black_share"] == 1
    assert (metrics["size_tv"], metrics["colour_tv"]) == (1, 1)
    assert metrics["counted"] is False
