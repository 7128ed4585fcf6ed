"""The classifier two-sample test: chance on equal distributions, certainty on unlike ones."""

import pytest
import tiny

from genlab.evaluation.metrics import two_sample
from genlab.evaluation.metrics.two_sample import two_sample_test


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_sample, "EXAMPLES", 6000)


def test_equal_distributions_give_chance_accuracy() -> None:
    metrics = two_sample_test(tiny.images(300, seed=1), tiny.images(200, seed=2))
    interval = metrics["intervals"]["discriminator_accuracy"]
    assert interval["n"] == 200
    assert interval["low"] < 0.5 < interval["high"]


def test_images_that_differ_are_recognised_on_unseen_ones_by_seed() -> None:
    images = tiny.images(400)
    upright = images[::2]
    lying = images[1::2]
    metrics = two_sample_test(upright, lying)
    assert metrics["discriminator_accuracy"] > 0.9
    assert metrics == two_sample_test(upright, lying)
