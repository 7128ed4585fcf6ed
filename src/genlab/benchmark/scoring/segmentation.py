"""Segment persons with MediaPipe's selfie segmentation (Apache-2.0), run by OpenCV.

OpenCV's networks are not thread-safe: used by two threads at once, one raises or returns another
picture's mask. This module owns the process's only network and runs it under a lock.
"""

from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import cv2
import numpy as np

from genlab.benchmark.scoring.faces import Image, resize
from genlab.benchmark.scoring.geometry import Field
from genlab.core.errors import GenlabError
from genlab.core.io import sha256

WEIGHTS = Path(__file__).parent / "data" / "selfie_segmentation.tflite"
SHA256 = "8d13b7fae74af625c641226813616a2117bd6bca19eb3b75574621fc08557f27"
SIDE = 256  # of the network's input; OpenCV takes others and returns plausible wrong masks
_LOCK = Lock()


def person_probability(frame: Image) -> Field:
    """(height, width) in [0, 1]: the probability that a pixel shows a person."""
    blob = cv2.dnn.blobFromImage(resize(frame, (SIDE, SIDE)).astype(np.float32) / 255)
    with _LOCK:
        network = _network()
        network.setInput(blob)
        mask: Field = network.forward().reshape(SIDE, SIDE).copy()
    return cv2.resize(mask, frame.shape[1::-1], interpolation=cv2.INTER_LINEAR)


@lru_cache(maxsize=1)
def _network() -> Any:
    if not WEIGHTS.is_file() or sha256(WEIGHTS) != SHA256:
        raise GenlabError(
            f"{WEIGHTS} is not the file that the scores are pinned to; reinstall genlab"
        )
    return cv2.dnn.readNetFromTFLite(str(WEIGHTS))
