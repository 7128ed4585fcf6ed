"""Heads in a normalised frame: their masks, hair, detail and distortion.

A frame is 320 pixels square and shows a face upright, 104 pixels wide from jaw to jaw. Pictures in
it are CIELAB, (FRAME, FRAME, 3). A head is what the person mask of `segmentation` shows above the
chin.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from genlab.benchmark.scoring.faces import Array, Face, Image, Points, eye_line, rescale
from genlab.benchmark.scoring.geometry import (
    Field,
    Mask,
    face_mask,
    transform,
)
from genlab.benchmark.scoring.segmentation import person_probability

FRAME = 320  # side of a frame in pixels
FACE = 104.0  # width of a face in a frame, in pixels
PERSON = 0.5  # probability from which a pixel shows a person
NECK = 0.06  # how far a head reaches below the chin, in heights from chin to brow
HALF_WIDTH = 1.15  # maximum half width of a head, in widths of the face


@dataclass(frozen=True, eq=False)
class Head:
    """A person's head in a frame.

    face: the face as detected in the original picture; picture: (FRAME, FRAME, 3) CIELAB; points:
    (68, 2) landmarks and mask: (FRAME, FRAME) of the head, both in pixels of the frame.
    """

    face: Face
    picture: Field
    points: Points
    mask: Mask

    @classmethod
    def from_image(cls, image: Image, face: Face, matrix: Points) -> Head:
        """Extract the head of `face` from `image`; matrix: maps the image to the frame."""
        frame = warp_to_frame(image, matrix)
        points = transform(face.landmarks, matrix)
        return cls(face, rgb_to_lab(frame), points, head_mask(frame, points))

    def face_mask(self, forehead: float, share: float = 1.0) -> Mask:
        """Mask of the face in the frame; share: scale of the landmarks about their centre."""
        centre = self.points.mean(0)
        points = self.points if share == 1 else centre + share * (self.points - centre)
        return face_mask(points, self.mask.shape, forehead)


def frame_matrix(points: Points) -> Points:
    """Return the (2, 3) map that sets a face upright in the frame."""
    right = eye_line(points)
    right = right / max(float(np.linalg.norm(right)), 1e-9)
    rotation = np.array([right, [-right[1], right[0]]])
    width = max(float(np.ptp(points[:17] @ right)), 1e-9)
    matrix = rotation * (FACE / width)
    centre = np.array([FRAME / 2, FRAME * 0.55])
    return np.column_stack([matrix, centre - matrix @ points.mean(0)])


def warp_to_frame(image: Image, matrix: Points) -> Image:
    """Warp a picture into the frame, (FRAME, FRAME, 3) uint8 RGB.

    A large face is shrunk by area first, so that nothing aliases.
    """
    scale = float(np.sqrt(abs(np.linalg.det(matrix[:, :2]))))
    if scale < 0.7:
        small = rescale(image, scale)
        ratio = np.array([image.shape[1] / small.shape[1], image.shape[0] / small.shape[0]])
        image = small
        matrix = np.column_stack([matrix[:, :2] * ratio, matrix[:, 2]])
    edge = cv2.BORDER_REPLICATE
    return cv2.warpAffine(image, matrix, (FRAME, FRAME), flags=cv2.INTER_CUBIC, borderMode=edge)


def rgb_to_lab(image: Image) -> Field:
    """Convert to CIELAB, as OpenCV codes 8-bit pictures."""
    return cv2.cvtColor(image, cv2.COLOR_RGB2LAB).astype(np.float32)


def head_mask(frame: Image, points: Points) -> Mask:
    """Mask of hair, face and ears of the person whose landmarks are `points`, (height, width)."""
    face_height = float(points[8, 1] - points[17:27, 1].mean())
    face_width = float(np.ptp(points[:17, 0]))
    centre = float(points[:17, 0].mean())
    bottom = max(round(points[8, 1] + NECK * face_height), 1)
    left = max(round(centre - HALF_WIDTH * face_width), 0)
    right = round(centre + HALF_WIDTH * face_width)
    limit = np.zeros(frame.shape[:2], dtype=bool)
    limit[:bottom, left:right] = True
    is_person = person_probability(frame) > PERSON
    head = (is_person & limit) | face_mask(points, frame.shape, 0.2)
    _, labels = cv2.connectedComponents(head.astype(np.uint8))
    nose = tuple(np.clip(np.rint(points[30][::-1]).astype(int), 0, frame.shape[0] - 1))
    return labels == labels[nose] if labels[nose] else head


def hair_likeness(result: Head, avatar: Head) -> float:
    """Intersection of the colour histograms of two heads' hair, in [0, 1]."""
    return float(np.minimum(_hair_histogram(result), _hair_histogram(avatar)).sum())


def _hair_histogram(head: Head) -> Array:
    above = head.mask & ~head.face_mask(0.25)
    above[round(float(head.points[33, 1])) :] = False
    pixels = head.picture[above] if above.any() else np.zeros((1, 3), dtype=np.float32)
    count, _ = np.histogramdd(pixels, bins=(6, 8, 8), range=((0, 256), (80, 200), (80, 200)))
    return count / max(float(count.sum()), 1.0)


def measure_detail(head: Head, where: Mask) -> float:
    """Mean absolute fine detail of the light over a mask, 8-bit units, at least 0.05."""
    light = np.ascontiguousarray(head.picture[..., 0])
    fine = np.abs(light - cv2.GaussianBlur(light, (0, 0), 2.0))
    return max(float(fine[where].mean()), 0.05) if where.any() else 0.05


def measure_strain(result: Head, avatar: Head) -> tuple[float, float]:
    """Median strain of the optical flow from result to avatar, and the correlation along the flow.

    Strain is the norm of the flow's gradient: 0 for a rigid shift. The flow is DIS (Kroeger et al.
    2016) on light of equalised contrast.
    """
    inside = result.face_mask(0.0, 0.9)
    if not inside.any():
        return 0.0, 0.0
    equal = cv2.createCLAHE(2.0, (4, 4))
    light_result, light_avatar = (
        equal.apply(np.clip(np.rint(head.picture[..., 0]), 0, 255).astype(np.uint8))
        for head in (result, avatar)
    )
    start = np.zeros((FRAME, FRAME, 2), dtype=np.float32)
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    flow = cv2.GaussianBlur(search.calc(light_result, light_avatar, start), (0, 0), 2.4)
    derivatives = [
        np.gradient(flow[..., component], axis=axis) for component in (0, 1) for axis in (0, 1)
    ]
    size = np.sqrt(sum(derivative**2 for derivative in derivatives))
    columns, rows = np.meshgrid(np.arange(FRAME), np.arange(FRAME))
    x = (columns + flow[..., 0]).astype(np.float32)
    y = (rows + flow[..., 1]).astype(np.float32)
    warped = cv2.remap(light_avatar, x, y, cv2.INTER_LINEAR)
    correlation = np.corrcoef(warped[inside], light_result[inside])[0, 1]
    return float(np.median(size[inside])), float(np.nan_to_num(correlation))
