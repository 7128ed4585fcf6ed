"""A second opinion on who somebody is: SFace, where its file is at hand.

The environment variable GENLAB_SFACE names OpenCV's `face_recognition_sface_2021dec.onnx` (Zhong et
al. 2021; Apache 2.0; no package carries it). What it says stands beside the first model's distance
and is no part of the score; where the two disagree on whether it is the avatar's person, the score
has a note. It sees the face that dlib found, by five of dlib's landmarks.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from genlab.benchmark.faces import Face, Image
from genlab.core.errors import GenlabError
from genlab.core.io import sha256

VARIABLE = "GENLAB_SFACE"
KNOWN = "0ba9fbfa01b5270c96627c4ef784da859931e02f04419c829e83484087c34e79"
SAME = 1 - 0.363
"""Distance (1 - cosine) up to which two faces are one person, by the model's authors at OpenCV."""


def version() -> str:
    """`none`, or the file's name and SHA-256: scores that it stood beside say which it was."""
    path = os.environ.get(VARIABLE)
    if not path:
        return "none"
    _model(path)
    return f"{Path(path).name} {_sum(path)}"


def state() -> str:
    """Whether there is one here, in a line for people; what is no model is told, too."""
    try:
        found = version()
    except GenlabError as fault:
        return str(fault)
    if found == "none":
        return f"none; {VARIABLE} may name the ONNX file of SFace"
    strange = "" if found.endswith(KNOWN) else " (not OpenCV's file: its threshold may not fit)"
    return f"{found[: -len(KNOWN) + 12]}{strange}"


def distance(first: tuple[Image, Face], second: tuple[Image, Face]) -> float | None:
    """1 - cosine of the embeddings of two faces in their pictures; None where there is no model."""
    path = os.environ.get(VARIABLE)
    if not path:
        return None
    one, other = (_embedding(path, *shown) for shown in (first, second))
    norm = float(np.linalg.norm(one) * np.linalg.norm(other))
    return 1 - float(one @ other) / max(norm, 1e-9)


def _embedding(path: str, image: Image, face: Face) -> Any:
    import cv2

    model, points = _model(path), face.landmarks
    five = [points[36:42].mean(0), points[42:48].mean(0), points[30], points[48], points[54]]
    left, top, right, bottom = face.box
    row = np.array([left, top, right - left, bottom - top, *np.ravel(five), 1], dtype=np.float32)
    cut = model.alignCrop(cv2.cvtColor(image, cv2.COLOR_RGB2BGR), row[None])
    return np.asarray(model.feature(cut), dtype=np.float64).ravel()


@lru_cache(maxsize=1)
def _model(path: str) -> Any:
    import cv2

    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # it is told below
    try:
        model = cv2.FaceRecognizerSF.create(path, "")
        size = model.feature(np.zeros((112, 112, 3), dtype=np.uint8)).size
    except cv2.error as error:
        said = " ".join(str(error.err or error).split())[:120]
        why = said if Path(path).is_file() else "there is no such file"
        raise GenlabError(
            f"{VARIABLE}={path}: no face model that OpenCV reads ({why}); name"
            " face_recognition_sface_2021dec.onnx, or unset it"
        ) from error
    if size < 2:
        raise GenlabError(f"{VARIABLE}={path}: gives {size} numbers a face; name SFace's file")
    return model


@lru_cache(maxsize=1)
def _sum(path: str) -> str:
    return sha256(Path(path))
