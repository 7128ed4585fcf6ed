"""Fréchet distances in Inception's features (FID), where torch-fidelity and its weights are there.

They stand under a key of their own and are never compared with those in the classifier's features.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torchmetrics.image.fid import FrechetInceptionDistance

from genlab.core.errors import GenlabError
from genlab.evaluation.metrics import frechet

Images = npt.NDArray[np.uint8]

WEIGHTS = "weights-inception-2015-12-05-6726825d.pth"
BATCH = 64
RESAMPLES = 10  # roots of 2048 x 2048 take seconds


class InceptionFeatures:
    """FID's features (Inception v3 of 2015) from a local file of weights.

    weights: torch-fidelity's file WEIGHTS, by default in torch's hub folder; nothing is ever
    downloaded. Raises GenlabError where torch-fidelity or the file is missing or is something else.
    """

    def __init__(self, weights: str | Path | None = None) -> None:
        path = Path(weights or Path(torch.hub.get_dir()) / "checkpoints" / WEIGHTS)
        if not path.is_file():
            raise GenlabError(f"{path}: no Inception weights; put torch-fidelity's {WEIGHTS} there")
        try:
            torch.load(path, weights_only=True)  # torch-fidelity would run any pickle it is given
            metric = FrechetInceptionDistance(2048, feature_extractor_weights_path=str(path))
        except ModuleNotFoundError as error:
            raise GenlabError(
                "Inception features need torch-fidelity: pip install torch-fidelity"
            ) from error
        except Exception as error:
            raise GenlabError(f"{path}: not Inception weights ({error})") from error
        self._network = metric.inception

    def __call__(self, images: Images) -> npt.NDArray[np.float64]:
        """Features (n, 2048) of images (n, h, w, 1 or 3) uint8; grey is repeated."""
        found = []
        for start in range(0, len(images), BATCH):
            x = torch.from_numpy(np.array(images[start : start + BATCH])).permute(0, 3, 1, 2)
            found.append(self._network(x.expand(-1, 3, -1, -1).contiguous()).numpy(force=True))
        return np.concatenate(found).astype(np.float64)


def inception_distances(
    train: Images, test: Images, shown: dict[str, Images], seed: int
) -> dict[str, Any] | None:
    """The Fréchet distance of each set of `shown`, and the floor, against the test images.

    train, test: as many of each, (n, h, w, c) uint8. Each distance with n and interval. None, with
    a line on stderr, where torch-fidelity or the weights are missing.
    """
    try:
        extract = InceptionFeatures()
    except GenlabError as error:
        print(f"distances in Inception's features are left out: {error}", file=sys.stderr)
        return None
    known = extract(test)
    # The floor is of one set, unlike the other one: more training images would take minutes.
    found = {
        name: frechet.frechet(extract(images), known, bootstrap=RESAMPLES, seed=seed)
        for name, images in {"floor": train, **shown}.items()
    }
    return {"weights": WEIGHTS, **found}
