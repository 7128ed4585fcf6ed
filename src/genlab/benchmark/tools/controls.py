"""Control tools, whose rank on a leaderboard is known in advance, and pictures to validate scores.

`control_untouched` returns the template and scores 0. `control_wrong_person` swaps in somebody
else. `control_pasted` pastes a rectangle. `control_blurred` blurs a correct swap, in three
strengths. `control_low_contrast` and `control_pasted_faded` are the local swap and the pasted
rectangle with less contrast over the whole picture, and should rank where these do.
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

GROWTH = 1.25  # size of a pasted rectangle relative to the detector's box
STRENGTHS = {1: 0.02, 2: 0.03, 3: 0.045}  # Gaussian sigma of the blur, in widths of the face
STRANGER = 0.60  # embedding distance from which two faces are certainly different persons


def paste(image: Image, target: Face, avatar: Image, source: Face) -> Image:
    """Paste the avatar's box, grown by a quarter, over that of the face `target`."""
    left, top, right, bottom = _grow(target, image)
    a, b, c, d = _grow(source, avatar)
    piece = PIL.Image.fromarray(avatar[b:d, a:c]).resize((right - left, bottom - top))
    result = image.copy()
    result[top:bottom, left:right] = np.asarray(piece)
    return result


def blur(image: Image, face: Face, strength: int) -> Image:
    """Blur a face by a Gaussian of `STRENGTHS[strength]` widths of the face."""
    soft = cv2.GaussianBlur(image, (0, 0), STRENGTHS[strength] * jaw_width(face.landmarks))
    return blend_images(soft, image, soft_face_mask(face.landmarks, image, FOREHEAD))


def paste_avatars(case: Case, options: Mapping[str, Any]) -> Image:
    """Paste the avatars' rectangles into the template of a case."""
    image = np.asarray(case.open_template())
    for target, avatar in find_pairs(case):
        image = paste(image, target, *avatar)
    return image


def blur_swap(case: Case, options: Mapping[str, Any]) -> Image:
    """Blur the faces of the local swap of a case; option `strength`."""
    strength = int(options.get("strength", 2))
    image = swap_locally(case, {})
    for target, _ in find_pairs(case):
        image = blur(image, target, strength)
    return image


def fade_swap(case: Case, options: Mapping[str, Any]) -> Image:
    """Lower the contrast of the local swap of a case."""
    return enhance(swap_locally(case, {}), ImageEnhance.Contrast, 0.85)


def fade_paste(case: Case, options: Mapping[str, Any]) -> Image:
    """Lower the contrast of the template with pasted rectangles."""
    return enhance(paste_avatars(case, {}), ImageEnhance.Contrast, 0.8)


def swap_strangers(case: Case, options: Mapping[str, Any]) -> Image:
    """Swap in another person than the requested avatar at each region.

    The stranger is another avatar, else another person of the template, else an avatar of another
    case in the same folder.
    """
    template = image = np.asarray(case.open_template())
    for swap, (target, avatar) in zip(case.swaps, find_pairs(case), strict=True):
        for picture, face in _find_candidates(case, swap.avatar, template):
            to_avatar = faces.identity_distance(face, avatar.face)
            to_target = faces.identity_distance(face, target)
            if min(to_avatar, to_target) >= STRANGER:
                image = lay_over(image, target, picture, face)
                break
        else:
            raise ToolFailure(
                "case_fault", f"no photograph shows another person than {swap.avatar}; add a case"
            )
    return image


def _find_candidates(case: Case, avatar: str, template: Image) -> Iterator[tuple[Image, Face]]:
    for name in case.avatars:
        if name != avatar:
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
    margin = round(face.width * (GROWTH - 1) / 2)
    height, width = image.shape[:2]
    box = np.add(face.box, (-margin, -margin, margin, margin))
    clipped: list[int] = np.clip(box, 0, (width, height, width, height)).tolist()
    return clipped


def make_controls(case: Case) -> dict[str, Image]:
    """Make pictures from the best to the worst. Raises a `GenlabError` without an ideal result."""
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
    """Apply an enhancement of Pillow; amount: 1 changes nothing."""
    return np.asarray(kind(PIL.Image.fromarray(image)).enhance(amount))


def compress(image: Image, quality: int = 60) -> Image:
    """Save and load an image as JPEG."""
    buffer = io.BytesIO()
    PIL.Image.fromarray(image).save(buffer, "JPEG", quality=quality)
    return np.asarray(PIL.Image.open(buffer).convert("RGB"))


def degrade(ideal: Image) -> dict[str, Image]:
    """Return the ideal result, and copies as JPEG 60, slightly blurred, shifted and relit."""
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
    """Blend the ideal face softly into the template, which keeps its hair."""
    face, _ = find_pairs(case)[0]
    return blend_images(
        ideal, np.asarray(case.open_template()), soft_face_mask(face.landmarks, ideal, 0.15)
    )


def lay_head(case: Case) -> Image:
    """Lay the avatar's head over the template, with a hard border."""
    template = np.asarray(case.open_template())
    target, (avatar, source) = find_pairs(case)[0]
    matrix = fit_similarity(source.landmarks[17:], target.landmarks[17:])
    shape = template.shape[1::-1]
    warped = cv2.warpAffine(avatar, matrix, shape, flags=cv2.INTER_CUBIC)
    head = cv2.warpAffine(
        find_head_mask(avatar, source.landmarks).astype(np.float32), matrix, shape
    )
    return blend_images(warped, template, cv2.GaussianBlur(head, (0, 0), 1.0)[..., None])


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
