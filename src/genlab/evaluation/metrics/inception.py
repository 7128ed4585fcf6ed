"""Fréchet distances in Inception's features (FID), where torch-fidelity and its weights are there.

They stand under a key of their own and are never compared with those in the classifier's features.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torchmetrics.image.fid import FrechetInceptionDistance

Images = npt.NDArray[np.uint8]

WEIGHTS = "weights-inception-2015-12-05-6726825d.pth"
BATCH = 64


def inception_distances(test: Images, shown: Mapping[str, Images]) -> dict[str, Any] | None:
    """FID of each set of `shown` against the test images, and the file of weights.

    test, shown: (n, h, w, 1 or 3) uint8; grey is repeated. The weights are torch-fidelity's file
    WEIGHTS in torch's hub folder; nothing is downloaded. None, with a line on stderr, where they or
    torch-fidelity are missing or damaged.
    """
    path = Path(torch.hub.get_dir()) / "checkpoints" / WEIGHTS
    try:
        torch.load(path, weights_only=True)  # torch-fidelity would run any pickle it is given
        metric = FrechetInceptionDistance(
            2048, reset_real_features=False, feature_extractor_weights_path=str(path)
        )
    except (OSError, ModuleNotFoundError, RuntimeError, UnpicklingError) as error:
        print(f"distances in Inception's features are left out: {path}: {error}", file=sys.stderr)
        return None
    _update(metric, test, real=True)
    found: dict[str, Any] = {"weights": WEIGHTS}
    for name, images in shown.items():
        _update(metric, images, real=False)
        found[name] = float(metric.compute())
        metric.reset()
    return found


def _update(metric: FrechetInceptionDistance, images: Images, *, real: bool) -> None:
    for start in range(0, len(images), BATCH):
        x = torch.from_numpy(np.array(images[start : start + BATCH])).permute(0, 3, 1, 2)
        metric.update(x.expand(-1, 3, -1, -1).contiguous(), real=real)
