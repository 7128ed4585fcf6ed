"""Control tools, whose rank on a leaderboard is known, and pictures that validate the scores.

`control_untouched` returns the template and scores 0. `control_wrong_person` swaps in somebody
else. `control_pasted` pastes a rectangle. `control_blurred` blurs the right swap, in three
strengths. `control_low_contrast` and `control_pasted_faded` return the local swap and the pasted
rectangle with less contrast over the whole picture, and belong where these do.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import cv2
import numpy as np
import PIL.Image
from PIL import ImageEnhance

from genlab.benchmark.cases import Case
from genlab.benchmark.cases.ground_truth import find_head_mask
from genlab.benchmark.cases.photographs import read_photograph
from genlab.benchmark.plugins.base import Needs, Option, ToolFailure
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Face, Image
from genlab.benchmark.scoring.geometry import FOREHEAD, fit_similarity
from genlab.benchmark.tools.face_tool import (
    FaceTool,
    blend_images,
    find_largest_face,
    find_pairs,
    jaw_width,
    soft_face_mask,
)
from genlab.benchmark.tools.local import lay_over, swap_locally
from genlab.core.errors import GenlabError

GROWN = 1.25  # a pasted rectangle over the detector's box
STRENGTHS = {1: 0.02, 2: 0.03, 3: 0.045}  # Gaussian sigma of the blur, in widths of the face
STRANGER = 0.60  # embedding distance from which somebody is surely somebody else


def paste(image: Image, target: Face, avatar: Image, source: Face) -> Image:
    """`image` with the avatar's box, grown by a quarter, laid over that of the face `target`."""
    left, top, right, bottom = _grow(target, image)
    a, b, c, d = _grow(source, avatar)
    piece = PIL.Image.fromarray(avatar[b:d, a:c]).resize((right - left, bottom - top))
    result = image.copy()
    result[top:bottom, left:right] = np.asarray(piece)
    return result


def blur(image: Image, face: Face, strength: int) -> Image:
    """`image` with the face blurred by a Gaussian of `STRENGTHS[strength]` widths of it."""
    soft = cv2.GaussianBlur(image, (0, 0), STRENGTHS[strength] * jaw_width(face.landmarks))
    return blend_images(soft, image, soft_face_mask(face.landmarks, image, FOREHEAD))


def paste_avatars(case: Case, options: Mapping[str, Any]) -> Image:
    """The template of `case` with rectangles pasted."""
    image = np.asarray(case.open_template())
    for target, avatar in find_pairs(case):
        image = paste(image, target, *avatar)
    return image


def blur_swap(case: Case, options: Mapping[str, Any]) -> Image:
    """The local swap of `case` with blurred faces; option `strength`."""
    strength = int(options.get("strength", 2))
    image = swap_locally(case, {})
    for target, _ in find_pairs(case):
        image = blur(image, target, strength)
    return image


def fade_swap(case: Case, options: Mapping[str, Any]) -> Image:
    """The local swap of `case` with less contrast."""
    return enhance(swap_locally(case, {}), ImageEnhance.Contrast, 0.85)


def fade_paste(case: Case, options: Mapping[str, Any]) -> Image:
    """The template of `case` with rectangles pasted, with less contrast."""
    return enhance(paste_avatars(case, {}), ImageEnhance.Contrast, 0.8)


def swap_strangers(case: Case, options: Mapping[str, Any]) -> Image:
    """The local swap of `case` with another person than the one asked for in each place.

    Somebody else is another avatar, else another person of the template, else one of the cases
    beside this one.
    """
    template = image = np.asarray(case.open_template())
    for swap, (target, asked) in zip(case.swaps, find_pairs(case), strict=True):
        for picture, face in _find_candidates(case, swap.avatar, template):
            away = (faces.identity_distance(face, other) for other in (asked.face, target))
            if min(away) >= STRANGER:
                image = lay_over(image, target, picture, face)
                break
        else:
            raise ToolFailure(
                "case_fault", f"no photograph shows another person than {swap.avatar}; add a case"
            )
    return image


def _find_candidates(case: Case, asked: str, template: Image) -> Iterator[tuple[Image, Face]]:
    for name in case.avatars:
        if name != asked:
            picture = np.asarray(case.open_avatar(name))
            yield picture, find_largest_face(picture, name)
    for face in faces.detect(template):
        yield template, face
    for path in sorted(case.folder.parent.glob("*/avatar_*")):
        if path.parent != case.folder:
            picture = np.asarray(read_photograph(path))
            for face in faces.detect(picture)[:1]:
                yield picture, face


def _grow(face: Face, image: Image) -> list[int]:
    more = round(face.width * (GROWN - 1) / 2)
    height, width = image.shape[:2]
    box = np.add(face.box, (-more, -more, more, more))
    clipped: list[int] = np.clip(box, 0, (width, height, width, height)).tolist()
    return clipped


def make_controls(case: Case) -> dict[str, Image]:
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


def enhance(image: Image, kind: Callable[[PIL.Image.Image], Any], amount: float) -> Image:
    """`image` with an enhancement of Pillow by `amount`, 1 for none."""
    return np.asarray(kind(PIL.Image.fromarray(image)).enhance(amount))


def compress(image: Image, quality: int = 60) -> Image:
    """`image` as it comes out of a JPEG file."""
    buffer = io.BytesIO()
    PIL.Image.fromarray(image).save(buffer, "JPEG", quality=quality)
    return np.asarray(PIL.Image.open(buffer).convert("RGB"))


def degrade(ideal: Image) -> dict[str, Image]:
    """The ideal result, and the same as JPEG 60, slightly blurred, shifted, and relit."""
    shift = np.array([[1, 0, 2], [0, 1, 2]], dtype=np.float64)
    edge = cv2.BORDER_REPLICATE
    return {
        "ideal": ideal,
        "ideal_jpeg": compress(ideal),
        "ideal_blurred": cv2.GaussianBlur(ideal, (0, 0), max(ideal.shape) / 900),
        "ideal_shifted": cv2.warpAffine(ideal, shift, ideal.shape[1::-1], borderMode=edge),
        "ideal_relit": np.clip(np.rint(ideal * 1.05), 0, 255).astype(np.uint8),
    }


def keep_hair(case: Case, ideal: Image) -> Image:
    """The template with the ideal face, softly blended, under the template's hair."""
    face, _ = find_pairs(case)[0]
    return blend_images(
        ideal, np.asarray(case.open_template()), soft_face_mask(face.landmarks, ideal, 0.15)
    )


def lay_head(case: Case) -> Image:
    """The template with the avatar's head laid over it, hard at the border."""
    template, (target, (avatar, source)) = np.asarray(case.open_template()), find_pairs(case)[0]
    matrix = fit_similarity(source.landmarks[17:], target.landmarks[17:])
    shape = template.shape[1::-1]
    laid = cv2.warpAffine(avatar, matrix, shape, flags=cv2.INTER_CUBIC)
    head = cv2.warpAffine(
        find_head_mask(avatar, source.landmarks).astype(np.float32), matrix, shape
    )
    return blend_images(laid, template, cv2.GaussianBlur(head, (0, 0), 1.0)[..., None])


STRENGTH = Option("how much, 2 if left out", tuple(map(str, STRENGTHS)))
BLURRED = FaceTool(
    "control_blurred",
    "Control: blurred swap",
    blur_swap,
    Needs(concurrency=2, options={"strength": STRENGTH}),
    version="2",
)
CONTROLS = (
    FaceTool(
        "control_untouched",
        "Control: untouched template",
        lambda case, _: np.asarray(case.open_template()),
    ),
    FaceTool("control_pasted", "Control: pasted rectangle", paste_avatars),
    FaceTool("control_wrong_person", "Control: wrong person", swap_strangers, version="2"),
    BLURRED,
    FaceTool("control_low_contrast", "Control: local swap, less contrast", fade_swap),
    FaceTool("control_pasted_faded", "Control: pasted rectangle, less contrast", fade_paste),
)
