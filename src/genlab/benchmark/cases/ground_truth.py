"""Build ground-truth cases: templates whose ideal result is a photograph.

From photographs A1 and A2 of one person and B of somebody else, the template is B's head composited
on A1, the avatar is A2, and the ideal result is A1. Tools see only template and avatar.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import PIL.Image

from genlab.benchmark.cases import Swap
from genlab.benchmark.cases.files import face_region, write_case
from genlab.benchmark.cases.generate import UNKNOWN
from genlab.benchmark.cases.photographs import TEMPLATE_SIDE, crop_head, read_photograph, shrink
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Face, Image
from genlab.benchmark.scoring.geometry import (
    Mask,
    cheek_mask,
    compare_expression,
    fit_similarity,
    grow_mask,
    head_turn,
    hull_mask,
    transform,
)
from genlab.benchmark.scoring.head import frame_matrix, head_mask, rgb_to_lab, warp_to_frame
from genlab.benchmark.scoring.persons import drop_bystanders
from genlab.benchmark.tools.face_tool import blend_images, jaw_width, lab_to_rgb, mirror_to_match
from genlab.core.errors import GenlabError

DIFFERENT = 0.55  # embedding distance from which B is certainly somebody else
POSE = 0.35  # difference of `head_turn` up to which poses are similar
SESSION = 0.22  # embedding distance below which two photographs are probably of one session
TOLERANCE = 10.0  # mean 8-bit difference of clothes below which they are the same


@dataclass(frozen=True, eq=False)
class Photograph:
    """A photograph and the face in it."""

    path: Path
    image: Image
    face: Face

    @classmethod
    def read(cls, path: Path, *, single: bool = False) -> Photograph:
        """Read a photograph and detect its largest face.

        single: require that nobody else stands in front. Raises a `GenlabError` without a face.
        """
        image = np.asarray(shrink(read_photograph(path), TEMPLATE_SIDE))
        persons = drop_bystanders(faces.detect(image))
        if not persons:
            raise GenlabError(f"{path}: no face was found; choose a photograph that shows one")
        if single and len(persons) > 1:
            raise GenlabError(
                f"{path}: {len(persons)} faces were found; crop the photograph to one person"
            )
        return cls(path, image, persons[0])


def build_ground_truth(
    ideal: Path, avatar: Path, stranger: Path, folder: Path, *, consent: bool
) -> list[str]:
    """Write the ground-truth case of photographs A1, A2 and B to `folder`; returns warnings.

    ideal: A1; avatar: A2, another photograph of the same person; stranger: B, somebody else.
    Raises a `GenlabError` where the persons or the poses do not fit.
    """
    ideal_photograph = Photograph.read(ideal)
    stranger_photograph = Photograph.read(stranger)
    avatar_photograph = Photograph.read(avatar, single=True)
    warnings = check_photographs(ideal_photograph, avatar_photograph, stranger_photograph)
    template = composite(ideal_photograph, stranger_photograph)
    if faces.detect_at(template, [ideal_photograph.face.box]) == [None]:
        raise GenlabError(
            f"no face is found in the composite of {ideal} and {stranger}; choose photographs with"
            " upright heads"
        )
    ideal_image = PIL.Image.fromarray(ideal_photograph.image)
    avatar_image = PIL.Image.fromarray(avatar_photograph.image)
    write_case(
        folder,
        title=folder.name,
        consent=consent,
        template=PIL.Image.fromarray(template),
        avatars={"person": crop_head(avatar_image, avatar_photograph.face)},
        swaps=[Swap(region=face_region(ideal_photograph.face, ideal_image.size), avatar="person")],
        sources=dict.fromkeys(("template", "person"), UNKNOWN),
        ideal=ideal_image,
    )
    return warnings


def check_photographs(ideal: Photograph, avatar: Photograph, stranger: Photograph) -> list[str]:
    """Check the photographs of a case; returns warnings where they make a weak one.

    Raises a `GenlabError` where they make no valid case.
    """
    own_distance = faces.identity_distance(ideal.face, avatar.face)
    if own_distance > faces.SAME_PERSON:
        raise GenlabError(
            f"{avatar.path} does not show the person of {ideal.path} (distance"
            f" {own_distance:.2f}, at most {faces.SAME_PERSON}); choose another one of that person"
        )
    stranger_distance = faces.identity_distance(ideal.face, stranger.face)
    if stranger_distance < DIFFERENT:
        raise GenlabError(
            f"{stranger.path} may show the person of {ideal.path} (distance"
            f" {stranger_distance:.2f}, at least {DIFFERENT}); choose somebody else"
        )
    turn = head_turn(ideal.face.landmarks)
    stranger_turn = head_turn(stranger.face.landmarks)
    difference = min(abs(turn - stranger_turn), abs(turn + stranger_turn))  # or mirrored
    if difference > POSE:
        raise GenlabError(
            f"{stranger.path} looks elsewhere than {ideal.path} (turn {stranger_turn:+.2f} against"
            f" {turn:+.2f}); choose a photograph in a similar pose"
        )
    warnings = []
    if own_distance < SESSION or _same_clothes(ideal, avatar):
        warnings.append(
            f"{ideal.path} and {avatar.path} seem to be of one session: a tool that copies pixels"
            " does well; choose photographs of different days"
        )
    if compare_expression(stranger.face, ideal.face)["mouth"] < 0.3:
        warnings.append(f"{stranger.path} and {ideal.path} differ in how open the mouth is")
    return warnings


def _same_clothes(ideal: Photograph, avatar: Photograph) -> bool:
    """Whether what lies below the chins is nearly the same picture."""
    lower = []
    for photograph in (ideal, avatar):
        matrix = frame_matrix(photograph.face.landmarks)
        lower.append(
            cv2.blur(warp_to_frame(photograph.image, matrix)[250:], (9, 9)).astype(np.float32)
        )
    return float(np.abs(lower[0] - lower[1]).mean()) < TOLERANCE


def composite(onto: Photograph, head: Photograph) -> Image:
    """Replace the head of the photograph `onto` by that of `head`.

    The head is mapped by a similarity of the landmarks, its tone is matched on the cheeks, and the
    background behind the old head is inpainted (Telea 2004).
    """
    target = onto.face.landmarks
    source, landmarks = mirror_to_match(head.image, head.face.landmarks, target)
    matrix = fit_similarity(landmarks[17:], target[17:])
    shape = onto.image.shape[1::-1]
    warped = cv2.warpAffine(
        source, matrix, shape, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    alpha = cv2.warpAffine(find_head_mask(source, landmarks).astype(np.float32), matrix, shape)
    width = jaw_width(target)
    matched = match_skin(warped, transform(landmarks, matrix), onto)
    old_head = grow_mask(find_head_mask(onto.image, target), round(width / 12))
    empty = inpaint(onto.image, old_head & ~neck_mask(target, old_head.shape))
    soft = cv2.GaussianBlur(cv2.erode(alpha, np.ones((3, 3))), (0, 0), 0.015 * width)[..., None]
    return blend_images(matched, empty, soft)


def find_head_mask(image: Image, points: faces.Points) -> Mask:
    """Mask of the head of the person with these landmarks, (height, width)."""
    matrix = frame_matrix(points)
    mask = head_mask(warp_to_frame(image, matrix), transform(points, matrix)).astype(np.float32)
    back = cv2.warpAffine(mask, matrix, image.shape[1::-1], flags=cv2.WARP_INVERSE_MAP)
    return back > 0.5


def neck_mask(points: faces.Points, shape: tuple[int, ...]) -> Mask:
    """Mask of the neck, below the mouth and between the corners of the jaw, (height, width)."""
    along = points[42:48].mean(0) - points[36:42].mean(0)
    along /= max(float(np.linalg.norm(along)), 1e-9)
    down = np.array([-along[1], along[0]])
    half = 0.3 * float(np.ptp(points[:17] @ along))
    top = points[57]
    bottom = points[8] + 2 * half * down
    side = half * along
    corners = [top - side, top + side, bottom + side, bottom - side]
    return hull_mask(np.array(corners), shape)


def inpaint(image: Image, hole: Mask) -> Image:
    """Fill a hole from its surroundings, at a quarter of the size (Telea 2004)."""
    small = faces.rescale(image, 0.25)
    mask = cv2.resize(hole.astype(np.uint8), small.shape[1::-1], interpolation=cv2.INTER_NEAREST)
    filled = cv2.inpaint(small, grow_mask(mask > 0, 1).astype(np.uint8), 5, cv2.INPAINT_TELEA)
    large = faces.resize(filled, image.shape[1::-1])
    sigma = max(float(np.sqrt(hole.sum())) / 60, 1.0)
    soft = cv2.GaussianBlur(hole.astype(np.float32), (0, 0), sigma)[..., None]
    return blend_images(large, image, soft)


def match_skin(image: Image, points: faces.Points, onto: Photograph) -> Image:
    """Shift the mean colour of the cheeks to that of `onto`, in CIELAB."""
    lab = rgb_to_lab(image)
    skin = lab[cheek_mask(points, image.shape)]
    target_skin = rgb_to_lab(onto.image)[cheek_mask(onto.face.landmarks, onto.image.shape)]
    if len(skin) < 20 or len(target_skin) < 20:
        return image
    return lab_to_rgb(lab + (target_skin.mean(0) - skin.mean(0)))
