"""The frame in which heads are compared, and the mask of a person's head in it.

A frame is 320 pixels square and shows a face upright, 104 pixels wide from jaw to jaw. The person
mask is MediaPipe's selfie segmentation (Apache-2.0, `data/selfie_segmentation.tflite`), run by
OpenCV; a head is what it shows above the chin.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from genlab.benchmark.scoring.faces import Image, Points, resized, scaled
from genlab.benchmark.scoring.geometry import Field, Mask, face_mask
from genlab.core.errors import GenlabError
from genlab.core.io import sha256

FRAME = 320
FACE = 104.0
WEIGHTS = Path(__file__).parent / "data" / "selfie_segmentation.tflite"
SHA256 = "8d13b7fae74af625c641226813616a2117bd6bca19eb3b75574621fc08557f27"
PERSON = 0.5  # probability from which a pixel shows a person
NECK = 0.06  # how far a head goes below the chin, in heights from chin to brow
ASIDE = 1.15  # half the width of a head at most, in widths of the face


def frame_matrix(points: Points) -> Points:
    """(2, 3) map that sets a face upright in the frame."""
    along = points[42:48].mean(0) - points[36:42].mean(0)
    along = along / max(float(np.linalg.norm(along)), 1e-9)
    turn = np.array([along, [-along[1], along[0]]])
    wide = max(float(np.ptp(points[:17] @ along)), 1e-9)
    matrix = turn * (FACE / wide)
    middle = np.array([FRAME / 2, FRAME * 0.55])
    return np.column_stack([matrix, middle - matrix @ points.mean(0)])


def framed(image: Image, matrix: Points) -> Image:
    """(FRAME, FRAME, 3) uint8 RGB: the frame; a large face is shrunk by area first."""
    scale = float(np.sqrt(abs(np.linalg.det(matrix[:, :2]))))
    if scale < 0.7:
        small = scaled(image, scale)
        ratio = np.array([image.shape[1] / small.shape[1], image.shape[0] / small.shape[0]])
        image, matrix = small, np.column_stack([matrix[:, :2] * ratio, matrix[:, 2]])
    border = cv2.BORDER_REPLICATE
    return cv2.warpAffine(image, matrix, (FRAME, FRAME), flags=cv2.INTER_CUBIC, borderMode=border)


def lab(image: Image) -> Field:
    """CIELAB as OpenCV codes 8-bit pictures."""
    return cv2.cvtColor(image, cv2.COLOR_RGB2LAB).astype(np.float32)


def person_probability(frame: Image) -> Field:
    """(height, width) in [0, 1]: the probability that a pixel shows a person."""
    network = _network()
    network.setInput(cv2.dnn.blobFromImage(resized(frame, (256, 256)).astype(np.float32) / 255))
    found: Field = network.forward().reshape(256, 256)
    return cv2.resize(found, frame.shape[1::-1], interpolation=cv2.INTER_LINEAR)


def head_mask(frame: Image, points: Points) -> Mask:
    """(height, width): hair, face and ears of the person whose landmarks are `points`."""
    probability = person_probability(frame)
    tall = float(points[8, 1] - points[17:27, 1].mean())
    wide = float(np.ptp(points[:17, 0]))
    middle = float(points[:17, 0].mean())
    limit = np.zeros(frame.shape[:2], dtype=bool)
    low = max(round(points[8, 1] + NECK * tall), 1)
    limit[:low, max(round(middle - ASIDE * wide), 0) : round(middle + ASIDE * wide)] = True
    own = ((probability > PERSON) & limit) | face_mask(points, frame.shape, 0.2)
    _, labels = cv2.connectedComponents(own.astype(np.uint8))
    nose = labels[tuple(np.clip(np.rint(points[30][::-1]).astype(int), 0, frame.shape[0] - 1))]
    return labels == nose if nose else own


@lru_cache(maxsize=1)
def _network() -> Any:
    if not WEIGHTS.is_file() or sha256(WEIGHTS) != SHA256:
        raise GenlabError(
            f"{WEIGHTS} is not the file that the scores are pinned to; reinstall genlab"
        )
    return cv2.dnn.readNetFromTFLite(str(WEIGHTS))
