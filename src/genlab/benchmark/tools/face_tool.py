"""Base of the offline tools: a case's faces, face masks, and blending of pictures."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import PIL.Image

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins.base import Needs, ToolFailure
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Array, Face, Image, Points
from genlab.benchmark.scoring.geometry import Field, face_mask, head_turn, mirror_landmarks
from genlab.benchmark.scoring.pictures import View

NEEDS = Needs(concurrency=2, options={})


@dataclass(frozen=True)
class FaceTool:
    """An offline tool. make: makes the picture of a case with options; may raise `ToolFailure`."""

    tool_id: str
    title: str
    make: Callable[[Case, Mapping[str, Any]], Image]
    needs: Needs = NEEDS
    version: str = "1"

    def unavailable(self) -> str:
        return faces.why_unavailable()

    async def swap(self, case: Case, options: Mapping[str, Any]) -> PIL.Image.Image:
        return PIL.Image.fromarray(await asyncio.to_thread(self.make, case, options))


def find_pairs(case: Case) -> list[tuple[Face, View]]:
    """Find, for each swap, the template's face and the avatar's picture with its face.

    Raises a `ToolFailure` where a region or an avatar shows no face.
    """
    pairs = []
    targets = faces.detect_at(
        np.asarray(case.open_template()), [swap.region.box for swap in case.swaps]
    )
    for swap, target in zip(case.swaps, targets, strict=True):
        if target is None:
            raise ToolFailure(
                "case_fault",
                f"the template's region {swap.region.box} shows no face; correct it in case.yaml",
            )
        avatar = np.asarray(case.open_avatar(swap.avatar))
        pairs.append((target, View(avatar, find_largest_face(avatar, swap.avatar))))
    return pairs


def find_largest_face(picture: Image, name: str) -> Face:
    """Find the largest face of an avatar. Raises a `ToolFailure` where there is none."""
    detected = faces.detect(picture)
    if not detected:
        raise ToolFailure("case_fault", f"the avatar {name} shows no face")
    return detected[0]


def blend_images(over: Array, under: Array, share: Array) -> Image:
    """Blend two pictures; share: opacity of `over` in [0, 1], (height, width, 1)."""
    mixed: Image = np.clip(share * over + (1 - share) * under, 0, 255)
    return np.rint(mixed).astype(np.uint8)


def jaw_width(points: Points) -> float:
    """Width of a face between both ends of the jaw."""
    return float(np.ptp(points[:17, 0]))


def soft_face_mask(points: Points, image: Image, forehead: float) -> Field:
    """Mask of a face with a soft border, (height, width, 1) in [0, 1]."""
    mask = face_mask(points, image.shape, forehead).astype(np.float32)
    return cv2.GaussianBlur(mask, (0, 0), 0.03 * jaw_width(points))[..., None]


def mirror_to_match(
    image: Image, points: Points, target: Points, margin: float = 0.0
) -> tuple[Image, Points]:
    """Mirror a picture and its landmarks where the head then turns more like `target`.

    margin: by how much closer the turn of the mirrored head must be.
    """
    turn = head_turn(points)
    target_turn = head_turn(target)
    if abs(target_turn - turn) <= abs(target_turn + turn) + margin:
        return image, points
    return np.ascontiguousarray(image[:, ::-1]), mirror_landmarks(points, image.shape[1])


def lab_to_rgb(lab: Field) -> Image:
    """Convert a CIELAB picture, coded as OpenCV codes 8-bit pictures, to RGB."""
    rounded = np.clip(np.rint(lab), 0, 255).astype(np.uint8)
    return cv2.cvtColor(rounded, cv2.COLOR_LAB2RGB)
