"""Pictures of a ground-truth case whose order is known: they validate the scores."""

from __future__ import annotations

import io

import cv2
import numpy as np
import PIL.Image

from genlab.benchmark.cases import Case
from genlab.benchmark.cases.ground_truth import head_in
from genlab.benchmark.cases.photographs import read_photograph
from genlab.benchmark.scoring.faces import Image
from genlab.benchmark.scoring.geometry import similarity
from genlab.benchmark.tools.controls import blur_swap, paste_avatars, swap_strangers
from genlab.benchmark.tools.face_tool import find_pairs, mix, soft_face
from genlab.benchmark.tools.local import swap_locally
from genlab.core.errors import GenlabError


def controls(case: Case) -> dict[str, Image]:
    """Pictures from the best to the worst. Raises a `GenlabError` without an ideal result."""
    if case.ideal is None:
        raise GenlabError(
            f"{case.folder}: ideal is missing; build it with: genlab benchmark ground-truth"
        )
    ideal = np.asarray(read_photograph(case.ideal))
    return {
        **degrade(ideal),
        "wrong_hair": keep_hair(case, ideal),
        "collage": lay_head(case),
        "warp": swap_locally(case, {}),
        "pasted": paste_avatars(case, {}),
        "blurred": blur_swap(case, {}),
        "wrong_person": swap_strangers(case, {}),
        "untouched": np.asarray(case.open_template()),
    }


def degrade(ideal: Image) -> dict[str, Image]:
    """The ideal result, and the same as JPEG 60, slightly blurred, shifted, and relit."""
    buffer = io.BytesIO()
    PIL.Image.fromarray(ideal).save(buffer, "JPEG", quality=60)
    shift = np.array([[1, 0, 2], [0, 1, 2]], dtype=np.float64)
    edge = cv2.BORDER_REPLICATE
    return {
        "ideal": ideal,
        "ideal_jpeg": np.asarray(PIL.Image.open(buffer).convert("RGB")),
        "ideal_blurred": cv2.GaussianBlur(ideal, (0, 0), max(ideal.shape) / 900),
        "ideal_shifted": cv2.warpAffine(ideal, shift, ideal.shape[1::-1], borderMode=edge),
        "ideal_relit": np.clip(np.rint(ideal * 1.05), 0, 255).astype(np.uint8),
    }


def keep_hair(case: Case, ideal: Image) -> Image:
    """The template with the ideal face, softly blended, under the template's hair."""
    face, _ = find_pairs(case)[0]
    return mix(ideal, np.asarray(case.open_template()), soft_face(face.landmarks, ideal, 0.15))


def lay_head(case: Case) -> Image:
    """The template with the avatar's head laid over it, hard at the border."""
    template, (target, (avatar, source)) = np.asarray(case.open_template()), find_pairs(case)[0]
    matrix = similarity(source.landmarks[17:], target.landmarks[17:])
    shape = template.shape[1::-1]
    laid = cv2.warpAffine(avatar, matrix, shape, flags=cv2.INTER_CUBIC)
    head = cv2.warpAffine(head_in(avatar, source.landmarks).astype(np.float32), matrix, shape)
    return mix(laid, template, cv2.GaussianBlur(head, (0, 0), 1.0)[..., None])
