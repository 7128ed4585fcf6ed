"""Ground-truth cases: templates whose ideal result is a photograph.

From photographs A1 and A2 of one person and B of somebody else, the template is B's head composited
on A1, the avatar is A2, and the ideal result is A1. Tools see template and avatar only.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import PIL.Image

from genlab.benchmark.cases import Case, Source, Swap
from genlab.benchmark.cases.files import Draft, region_of, write_case
from genlab.benchmark.cases.photographs import TEMPLATE_SIDE, crop_head, read_photograph, shrink
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.expression import expression
from genlab.benchmark.scoring.faces import Face, Image
from genlab.benchmark.scoring.geometry import (
    Mask,
    cheeks,
    face_mask,
    mirrored,
    side_turn,
    similarity,
)
from genlab.benchmark.scoring.masks import frame_matrix, framed, grown, head_mask, lab, moved
from genlab.core.errors import GenlabError

DIFFERENT = 0.55  # embedding distance from which B is surely somebody else
POSE = 0.35  # difference of `side_turn` up to which poses are similar
SESSION = 0.22  # embedding distance below which two photographs are likely of one session
TOLERANCE = 10.0  # mean 8-bit difference of clothes below which they are the same


@dataclass(frozen=True, eq=False)
class Photograph:
    """A photograph and the face in it. Raises a `GenlabError` from `read` where it has none."""

    path: Path
    image: Image
    face: Face

    @classmethod
    def read(cls, path: Path, *, single: bool = False) -> Photograph:
        """Read the photograph; `single` requires exactly one face, otherwise the largest counts."""
        image = np.asarray(shrink(read_photograph(path), TEMPLATE_SIDE))
        found = faces.found(image)
        if not found:
            raise GenlabError(f"{path}: no face was found; choose a photograph that shows one")
        if single and len(found) > 1:
            raise GenlabError(
                f"{path}: {len(found)} faces were found; crop the photograph to one person"
            )
        return cls(path, image, found[0])


def build(
    ideal: Path,
    avatar: Path,
    other: Path,
    folder: Path,
    *,
    licence: str = "not stated: write here what allows its use",
    consent: bool = False,
) -> list[str]:
    """Write the ground-truth case of photographs A1, A2 and B to `folder`; returns warnings.

    ideal: A1; avatar: A2, another photograph of the same person; other: B, somebody else.
    Raises a `GenlabError` where the persons or the poses do not fit.
    """
    first, second, third = (
        Photograph.read(ideal),
        Photograph.read(avatar, single=True),
        Photograph.read(other),
    )
    warnings = check(first, second, third)
    combined = composite(first, third)
    if faces.near(combined, [first.face.box]) == [None]:
        raise GenlabError(
            f"no face is found in the composite of {ideal} and {other}; choose photographs with"
            " upright heads"
        )
    template = PIL.Image.fromarray(combined)
    portrait = crop_head(PIL.Image.fromarray(second.image), second.face)
    size = (first.image.shape[1], first.image.shape[0])
    draft = Draft(
        folder.name,
        folder.name,
        consent,
        template,
        {"person": portrait},
        [Swap(region=region_of(first.face, size), avatar="person")],
        {name: Source(licence=licence) for name in ("template", "person")},
        ideal=PIL.Image.fromarray(first.image),
    )
    write_case(draft, folder.parent)
    return warnings


def check(ideal: Photograph, avatar: Photograph, other: Photograph) -> list[str]:
    """Warnings about photographs that make a weak case.

    Raises a `GenlabError` where they make none.
    """
    same = faces.identity_distance(ideal.face, avatar.face)
    if same > faces.SAME:
        raise GenlabError(
            f"{avatar.path} does not show the person of {ideal.path} (distance {same:.2f}, at most"
            f" {faces.SAME}); choose another photograph of that person"
        )
    apart = faces.identity_distance(ideal.face, other.face)
    if apart < DIFFERENT:
        raise GenlabError(
            f"{other.path} may show the person of {ideal.path} (distance {apart:.2f}, at least"
            f" {DIFFERENT}); choose somebody else"
        )
    turns = [side_turn(photograph.face.landmarks) for photograph in (ideal, other)]
    nearest = min(abs(turns[0] - turns[1]), abs(turns[0] + turns[1]))
    if nearest > POSE:
        raise GenlabError(
            f"{other.path} looks elsewhere than {ideal.path} (turn {turns[1]:+.2f} against"
            f" {turns[0]:+.2f}); choose a photograph in a similar pose"
        )
    warnings = []
    if same < SESSION or _same_clothes(ideal, avatar):
        warnings.append(
            f"{ideal.path} and {avatar.path} seem to be of one session: a tool that copies pixels"
            " does well; choose photographs of different days"
        )
    if expression(other.face, ideal.face)["mouth"] < 0.3:
        warnings.append(f"{other.path} and {ideal.path} differ in how open the mouth is")
    return warnings


def _same_clothes(ideal: Photograph, avatar: Photograph) -> bool:
    """Whether what lies below the chins is nearly the same picture."""
    lower = []
    for photograph in (ideal, avatar):
        matrix = frame_matrix(photograph.face.landmarks)
        lower.append(cv2.blur(framed(photograph.image, matrix)[250:], (9, 9)).astype(np.float32))
    return float(np.abs(lower[0] - lower[1]).mean()) < TOLERANCE


def composite(onto: Photograph, head: Photograph) -> Image:
    """The photograph `onto` with the head of `head` in the place of its own.

    The head is mapped by a similarity of the landmarks, its tone is matched on the cheeks, and the
    background behind the old head is inpainted (Telea 2004).
    """
    source, known = head.image, head.face.landmarks
    there, here = side_turn(onto.face.landmarks), side_turn(known)
    if abs(there - here) > abs(there + here):
        source = np.ascontiguousarray(source[:, ::-1])
        known = mirrored(known, source.shape[1])
    matrix = similarity(known[17:], onto.face.landmarks[17:])
    new = head_in(source, known)
    shape = onto.image.shape[1::-1]
    laid = cv2.warpAffine(
        source, matrix, shape, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    alpha = cv2.warpAffine(new.astype(np.float32), matrix, shape)
    wide = float(np.ptp(onto.face.landmarks[:17, 0]))
    tone = matched(np.asarray(laid, dtype=np.uint8), moved(known, matrix), onto)
    old = grown(head_in(onto.image, onto.face.landmarks), round(wide / 12))
    empty = inpainted(onto.image, old & ~neck(onto.face.landmarks, old.shape))
    soft = cv2.GaussianBlur(cv2.erode(alpha, np.ones((3, 3))), (0, 0), 0.015 * wide)[..., None]
    return np.asarray(np.rint(soft * tone + (1 - soft) * empty), dtype=np.uint8)


def head_in(image: Image, points: faces.Points) -> Mask:
    """(height, width): the head of the person with these landmarks."""
    matrix = frame_matrix(points)
    mask = head_mask(framed(image, matrix), moved(points, matrix)).astype(np.float32)
    back = cv2.warpAffine(mask, matrix, image.shape[1::-1], flags=cv2.WARP_INVERSE_MAP)
    return np.asarray(back > 0.5, dtype=np.bool_)


def neck(points: faces.Points, shape: tuple[int, ...]) -> Mask:
    """(height, width): below the mouth and between the corners of the jaw, where a neck stays."""
    along = points[42:48].mean(0) - points[36:42].mean(0)
    along /= max(float(np.linalg.norm(along)), 1e-9)
    down = np.array([-along[1], along[0]])
    half = 0.3 * float(np.ptp(points[:17] @ along))
    start, end = points[57], points[8] + 2 * half * down
    corners = [start - half * along, start + half * along, end + half * along, end - half * along]
    drawn = np.zeros(shape[:2], dtype=np.uint8)
    cv2.fillConvexPoly(drawn, np.rint(np.array(corners)).astype(np.int32), 1)
    return drawn > 0


def inpainted(image: Image, hole: Mask) -> Image:
    """`image` with `hole` filled from around it, at a fourth of the size."""
    small = faces.scaled(image, 0.25)
    mask = cv2.resize(hole.astype(np.uint8), small.shape[1::-1], interpolation=cv2.INTER_NEAREST)
    filled = cv2.inpaint(small, grown(mask > 0, 1).astype(np.uint8), 5, cv2.INPAINT_TELEA)
    large = faces.resized(np.asarray(filled, dtype=np.uint8), image.shape[1::-1])
    wide = max(float(np.sqrt(hole.sum())) / 60, 1.0)
    soft = cv2.GaussianBlur(hole.astype(np.float32), (0, 0), wide)[..., None]
    return np.asarray(np.rint(soft * large + (1 - soft) * image), dtype=np.uint8)


def matched(image: Image, points: faces.Points, onto: Photograph) -> Image:
    """`image` with its mean skin colour, on the cheeks, shifted to that of `onto`, in CIELAB."""
    mine, theirs = lab(image), lab(onto.image)
    skin = mine[cheeks(points, image.shape)]
    aim = theirs[cheeks(onto.face.landmarks, onto.image.shape)]
    if len(skin) < 20 or len(aim) < 20:
        return image
    toned = mine + (aim.mean(0) - skin.mean(0))
    rounded = np.clip(np.rint(toned), 0, 255).astype(np.uint8)
    return np.asarray(cv2.cvtColor(rounded, cv2.COLOR_LAB2RGB), dtype=np.uint8)


def controls(case: Case) -> dict[str, Image]:
    """Pictures of a ground-truth case whose order is known, from the best to the worst.

    Raises a `GenlabError` where the case has no ideal result.
    """
    from genlab.benchmark.tools import controls as tools
    from genlab.benchmark.tools.local import swapped_case

    if case.ideal is None:
        raise GenlabError(
            f"{case.folder}: ideal is missing; build it with: genlab benchmark ground-truth"
        )
    ideal = np.asarray(read_photograph(case.ideal))
    others = {
        "wrong_hair": wrong_hair(case, ideal),
        "collage": collage(case),
        "warp": np.asarray(swapped_case(case)),
        "pasted": np.asarray(tools.pasted_case(case)),
        "blurred": np.asarray(tools.blurred_case(case, 2)),
        "wrong_person": np.asarray(tools.wrong_person_case(case)),
        "untouched": np.asarray(case.open_template()),
    }
    return {**degraded(ideal), **others}


def degraded(ideal: Image) -> dict[str, Image]:
    """The ideal result, and the same as JPEG 60, slightly blurred, shifted, and relit."""
    buffer = io.BytesIO()
    PIL.Image.fromarray(ideal).save(buffer, "JPEG", quality=60)
    shift = np.array([[1, 0, 2], [0, 1, 2]], dtype=np.float64)
    moved_by_two = cv2.warpAffine(ideal, shift, ideal.shape[1::-1], borderMode=cv2.BORDER_REPLICATE)
    return {
        "ideal": ideal,
        "ideal_jpeg": np.asarray(PIL.Image.open(buffer).convert("RGB")),
        "ideal_blurred": np.asarray(cv2.GaussianBlur(ideal, (0, 0), max(ideal.shape) / 900)),
        "ideal_shifted": np.asarray(moved_by_two),
        "ideal_relit": np.clip(np.rint(ideal * 1.05), 0, 255).astype(np.uint8),
    }


def wrong_hair(case: Case, ideal: Image) -> Image:
    """The template with the ideal face, softly blended, under the template's hair."""
    template = np.asarray(case.open_template())
    face = target_of(case)
    wide = float(np.ptp(face.landmarks[:17, 0]))
    mask = face_mask(face.landmarks, ideal.shape, 0.15).astype(np.float32)
    soft = cv2.GaussianBlur(mask, (0, 0), 0.03 * wide)[..., None]
    return np.asarray(np.rint(soft * ideal + (1 - soft) * template), dtype=np.uint8)


def collage(case: Case) -> Image:
    """The template with the avatar's head laid over it, hard at the border."""
    template = np.asarray(case.open_template())
    avatar = np.asarray(case.open_avatar(case.swaps[0].avatar))
    [source] = faces.found_once(avatar)[:1]
    matrix = similarity(source.landmarks[17:], target_of(case).landmarks[17:])
    shape = template.shape[1::-1]
    laid = cv2.warpAffine(avatar, matrix, shape, flags=cv2.INTER_CUBIC)
    head = head_in(avatar, source.landmarks).astype(np.float32)
    alpha = cv2.GaussianBlur(cv2.warpAffine(head, matrix, shape), (0, 0), 1.0)[..., None]
    return np.asarray(np.rint(alpha * laid + (1 - alpha) * template), dtype=np.uint8)


def target_of(case: Case) -> Face:
    """The face that the first swap of a case replaces."""
    region = case.swaps[0].region
    box = (region.left, region.top, region.left + region.width, region.top + region.height)
    [face] = faces.near(np.asarray(case.open_template()), [box])
    if face is None:
        raise GenlabError(f"{case.template}: no face is found in the region of the swap")
    return face
