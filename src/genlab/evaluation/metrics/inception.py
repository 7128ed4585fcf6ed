"""Fréchet distances as others print them: in Inception's features, where its weights are at hand.

They stand under a key of their own and are never compared with those in the classifier's features.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.evaluation.metrics import frechet
from genlab.evaluation.metrics.features import INCEPTION, inception_features

Images = npt.NDArray[np.uint8]
Extractor = Callable[[Images], npt.NDArray[np.float32]]
RESAMPLES = 10  # roots of 2048 x 2048 take seconds


def inception_extractor() -> Extractor | None:
    """Inception's features, or None where torch-fidelity or the weights are missing; says why."""
    try:
        inception_features(np.zeros((1, 32, 32, 3), np.uint8))
    except GenlabError as error:
        print(f"distances in Inception's features are left out: {error}", file=sys.stderr)
        return None
    return inception_features


def distances(
    extract: Extractor, train: Images, test: Images, shown: dict[str, Images], seed: int
) -> dict[str, Any]:
    """The Fréchet distance of each set of `shown`, and the floor, against the test images.

    train, test: as many of each, (n, h, w, c) uint8. Each distance with n and interval.
    """
    known = extract(test)
    found = {
        name: frechet.frechet(extract(images), known, bootstrap=RESAMPLES, seed=seed)
        for name, images in shown.items()
    }
    # Of one set, unlike the other floor: more of the training images would take minutes.
    floor = frechet.frechet(extract(train), known, bootstrap=RESAMPLES, seed=seed)
    return {"weights": INCEPTION, "floor": floor, **found}
