"""The classifier two-sample test: can a network tell samples from test images?"""

from typing import Any

import numpy as np

from genlab.core.stats import wilson_interval
from genlab.evaluation.metrics.features import Images, Labels, train_classifier

EXAMPLES = 100_000
"""Images that the classifier is shown: ten passes over 5,000 of 10,000 images of each side."""
MOST_PASSES = 500
"""Over fewer images, which it has long learnt by heart by then."""


def two_sample_test(samples: Images, real: Images, *, seed: int = 0) -> dict[str, Any]:
    """Accuracy of a classifier that tells samples from real images (Lopez-Paz and Oquab 2017).

    samples, real: (n, side, side, channels) uint8, at least 4 each; as many of either are used. The
    network of `metrics.features` is trained on a random half of each side and tested on the
    rest: 0.5 where it sees no difference, 1 where it sees one in every image. Returns
    `discriminator_accuracy` and `intervals` (Wilson's, for the trained classifier: another seed
    gives another one).
    """
    n, rng = min(len(samples), len(real)), np.random.default_rng(seed)
    sides = [(images, rng.permutation(len(images))[:n]) for images in (samples, real)]
    train, held = (
        np.concatenate([images[rows[half]] for images, rows in sides])
        for half in (slice(n // 2), slice(n // 2, n))
    )
    examples = min(EXAMPLES, MOST_PASSES * len(train))
    classifier = train_classifier(train, _labels(len(train)), seed=seed, examples=examples)
    accuracy = classifier.accuracy(held, _labels(len(held)))
    return {
        "discriminator_accuracy": accuracy,
        "intervals": {
            "discriminator_accuracy": wilson_interval(round(accuracy * len(held)), len(held))
        },
    }


def _labels(n: int) -> Labels:
    """0 for the first half of n rows, the samples, and 1 for the second."""
    return np.repeat(np.arange(2, dtype=np.int64), n // 2)
