"""Classifier two-sample test: can a network tell samples from test images?"""

from typing import Any

import numpy as np

from genlab.core.stats import wilson_interval
from genlab.evaluation.metrics.features import Images, Labels, train_classifier

EXAMPLES = 100_000
"""Images that the classifier is trained on: ten epochs of 5,000 samples and 5,000 real images."""
MAX_EPOCHS = 500
"""Limit for small sets, which the classifier has memorised long before."""


def two_sample_test(samples: Images, real: Images, *, seed: int = 0) -> dict[str, Any]:
    """Accuracy of a classifier that tells samples from real images (Lopez-Paz and Oquab 2017).

    samples, real: (n, side, side, channels) uint8, at least 4 each; the same number of both is
    used. The classifier of `metrics.features` is trained on a random half of each set and tested on
    the rest. An accuracy of 0.5 means that it sees no difference, 1 that it sees one in every
    image. Returns `discriminator_accuracy` and `intervals` (Wilson's, for the trained classifier;
    another seed trains another one).
    """
    n = min(len(samples), len(real))
    rng = np.random.default_rng(seed)
    sample_rows = rng.permutation(len(samples))[:n]
    real_rows = rng.permutation(len(real))[:n]
    half = n // 2
    train = np.concatenate([samples[sample_rows[:half]], real[real_rows[:half]]])
    held_out = np.concatenate([samples[sample_rows[half:]], real[real_rows[half:]]])
    examples = min(EXAMPLES, MAX_EPOCHS * len(train))
    classifier = train_classifier(train, _make_labels(len(train)), seed=seed, examples=examples)
    accuracy = classifier.accuracy(held_out, _make_labels(len(held_out)))
    interval = wilson_interval(round(accuracy * len(held_out)), len(held_out))
    return {
        "discriminator_accuracy": accuracy,
        "intervals": {"discriminator_accuracy": interval},
    }


def _make_labels(n: int) -> Labels:
    """Label the first half of n rows, the samples, 0 and the second half, real images, 1."""
    return np.repeat(np.arange(2, dtype=np.int64), n // 2)
