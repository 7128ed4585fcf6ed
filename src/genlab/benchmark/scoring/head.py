"""Is the head another one, and does it look like a photograph? Both are measured in the frame.

Dense gradients at three scales say where hair, outline and features lie; slow colour says what
colour they have. Both are compared between two pictures of one frame, after a small shift.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np

from genlab.benchmark.scoring.constants import FLOORS, MOST_DETAIL, RAMPS, SAME_PIXELS, ramp
from genlab.benchmark.scoring.faces import Array, Face, Image, Points
from genlab.benchmark.scoring.geometry import (
    STILL,
    Field,
    Mask,
    face_mask,
    grown,
    moved,
    register,
    sample,
    similarity,
)
from genlab.benchmark.scoring.identity import Identity
from genlab.benchmark.scoring.masks import FRAME, frame_matrix, framed, head_mask, lab
from genlab.benchmark.scoring.pictures import View

SCALES = (1.5, 3.0, 5.0)  # sigmas of the gradients, pixels of the frame
SLOW = 6.0  # sigma of the slow colour
FAR = 40.0  # difference of slow colour that counts as 1, 8-bit CIELAB units
GRADIENT = 0.7  # weight of the gradients against the colour
SHIFT = 6.0  # pixels of the frame by which a picture may be shifted and is aligned
TONE = 12.0  # most by which a picture's mean light is adjusted, 8-bit units
FAINT = 0.6  # gradients, 8-bit units per pixel, that count as none


@dataclass(frozen=True, eq=False)
class Head:
    """A person's head in a frame: CIELAB picture, landmarks and mask, all in its pixels."""

    picture: Field
    points: Points
    mask: Mask


@dataclass(frozen=True, eq=False)
class Heads:
    """The heads of one swap in the template's frame, the picture, and the map from it to the frame.

    The avatar is laid over the result's landmarks. ideal: None without a ground truth.
    """

    image: Image
    matrix: Points
    result: Head
    template: Head
    avatar: Head
    ideal: Head | None = None

    @property
    def known_ideal(self) -> Head:
        """The ideal, in a case that has one."""
        assert self.ideal is not None
        return self.ideal

    @cached_property
    def still(self) -> Field:
        """The result's picture, aligned on the template around the head."""
        return aligned(self.result.picture, self.template.picture, ~self.template.mask)


def heads(result: View, template: View, avatar: View, ideal: View | None = None) -> Heads:
    """Frame the pictures of one swap."""
    matrix = frame_matrix(template.face.landmarks)
    onto = similarity(avatar.face.landmarks[17:], moved(result.face.landmarks, matrix)[17:])
    return Heads(
        result.picture,
        matrix,
        _head(*result, matrix),
        _head(*template, matrix),
        _head(*avatar, onto),
        None if ideal is None else _head(*ideal, matrix),
    )


def _head(image: Image, face: Face, matrix: Points) -> Head:
    frame, points = framed(image, matrix), moved(face.landmarks, matrix)
    return Head(lab(frame), points, head_mask(frame, points))


def rim(head: Head) -> Mask:
    """Hair, ears and outline: the head with a little around it, without the face."""
    middle = head.points.mean(0)
    inner = middle + 0.9 * (head.points - middle)
    return grown(head.mask, 4) & ~face_mask(inner, head.mask.shape, 0.1)


def aligned(picture: Field, onto: Field, where: Mask) -> Field:
    """`picture` shifted onto another and matched in light."""
    aim, light = (np.ascontiguousarray(x[..., 0]) for x in (onto, picture))
    matrix = register(aim, light, STILL, cv2.MOTION_TRANSLATION, 1e-3, where)
    if np.hypot(*matrix[:, 2]) > SHIFT:
        matrix = STILL
    laid = sample(picture, matrix, (FRAME, FRAME), cv2.BORDER_REPLICATE)
    offset = np.median((onto - laid)[where], axis=0) if where.any() else np.zeros(3)
    return (laid + np.clip(offset, -TONE, TONE)).astype(np.float32)


def distance(one: Field, other: Field, where: Mask) -> float:
    """Distance of two framed pictures over a mask: 0 for equal ones, about 0.8 for unrelated."""
    if not where.any():
        return 0.0
    shares = [
        float(apart[where].sum() / max(float(size[where].sum()), 1e-6))
        for apart, size in (_gradients(one, other, sigma) for sigma in SCALES)
    ]
    colour = float(np.minimum(_slow_difference(one, other)[where] / FAR, 1).mean())
    return GRADIENT * float(np.mean(shares)) + (1 - GRADIENT) * colour


def difference_map(one: Field, other: Field) -> Field:
    """(height, width) in [0, 1]: where two framed pictures differ."""
    parts = [cv2.blur(np.stack(_gradients(one, other, s), -1), (9, 9)) for s in SCALES]
    shares = [part[..., 0] / np.maximum(part[..., 1], 2 * FAINT) for part in parts]
    colour = np.minimum(_slow_difference(one, other) / FAR, 1)
    both: Field = GRADIENT * np.mean(shares, axis=0) + (1 - GRADIENT) * colour
    return np.clip(both, 0, 1)


def _gradients(one: Field, other: Field, sigma: float) -> tuple[Field, Field]:
    """Norm of the difference of two pictures' gradients, and the sum of their norms."""
    a, b = (_gradient(x[..., 0], sigma) for x in (one, other))
    apart = np.maximum(_norm(a - b) - FAINT / sigma, 0)
    size = _norm(a) + _norm(b) + FAINT / sigma
    return apart, size


def _norm(gradient: Field) -> Field:
    return cv2.magnitude(gradient[..., 0], gradient[..., 1])


def _gradient(light: Field, sigma: float) -> Field:
    smooth = cv2.GaussianBlur(np.ascontiguousarray(light), (0, 0), sigma)
    across, down = (cv2.Sobel(smooth, cv2.CV_32F, *way, scale=1 / 8) for way in ((1, 0), (0, 1)))
    return np.stack([across, down], axis=-1)


def _slow_difference(one: Field, other: Field) -> Field:
    apart: Field = np.linalg.norm(cv2.GaussianBlur(one - other, (0, 0), SLOW), axis=-1)
    return apart


def hair_likeness(result: Head, avatar: Head) -> float:
    """Intersection of the colour histograms of two heads' hair, in [0, 1]."""
    return float(np.minimum(_hair_histogram(result), _hair_histogram(avatar)).sum())


def _hair_histogram(head: Head) -> Array:
    above = head.mask & ~face_mask(head.points, head.mask.shape, 0.25)
    above[round(float(head.points[33, 1])) :] = False
    pixels = head.picture[above] if above.any() else np.zeros((1, 3), dtype=np.float32)
    count, _ = np.histogramdd(pixels, bins=(6, 8, 8), range=((0, 256), (80, 200), (80, 200)))
    return count / max(float(count.sum()), 1.0)


def copied(heads: Heads) -> float:
    """Distance of the result's face from the avatar's pixels, laid over it: 0 where copied."""
    middle = heads.result.points.mean(0)
    inside = face_mask(middle + 0.85 * (heads.result.points - middle), (FRAME, FRAME), 0.0)
    best = aligned(heads.avatar.picture, heads.result.picture, inside)
    return distance(best, heads.result.picture, inside)


def border(result: Field, before: Field, known: Sequence[Field]) -> tuple[float, Field]:
    """Share of the changed region's border that has edges which no photograph has, and where.

    result: the picture, aligned on `before`; known: pictures whose edges are no fault.
    """
    changed = cv2.GaussianBlur(np.linalg.norm(result - before, axis=-1), (0, 0), 1.5) > 8
    whole = grown(grown(grown(grown(changed, 4), -4), -4), 4)  # closed, then opened
    ring = grown(whole, 3) & ~grown(whole, -3)
    edges = [_norm(_gradient(x[..., 0], 1.2)) for x in (result, *known)]
    usual = np.max([cv2.dilate(edge, np.ones((9, 9))) for edge in edges[1:]], axis=0)
    fresh = np.maximum(edges[0] - 1.15 * usual - 2.0, 0) * ring
    wide = cv2.dilate((fresh > 0.5).astype(np.uint8), np.ones((5, 5), dtype=np.uint8)) > 0
    return float((wide & ring).sum() / max(int(ring.sum()), 1)), fresh


def detail(picture: Field, where: Mask) -> float:
    """Mean fine detail of the light over a mask."""
    light = np.ascontiguousarray(picture[..., 0])
    fine = np.abs(light - cv2.GaussianBlur(light, (0, 0), 2.0))
    return max(float(fine[where].mean()), 0.05) if where.any() else 0.05


def realism(heads: Heads, identity: Identity) -> tuple[dict[str, float], Field]:
    """The parts `seam`, `sharpness` and `undistorted`, each in [0, 1], and where new edges lie."""
    template, avatar = heads.template, heads.avatar
    share, fresh = border(heads.still, template.picture, [template.picture, avatar.picture])
    parts = {
        "seam": ramp(share, RAMPS["seam"]),
        "sharpness": sharpness(heads),
        "undistorted": undistorted(identity, *strain(heads)),
    }
    return {name: max(value, FLOORS[name]) for name, value in parts.items()}, fresh


def sharpness(heads: Heads) -> float:
    """Fine detail of the face against the softer of template and avatar.

    Much more than the harsher of the two is noise and costs as well.
    """
    inside = face_mask(heads.result.points, (FRAME, FRAME), 0.0)
    pictures = (heads.result, heads.template, heads.avatar)
    got, *known = (detail(head.picture, inside) for head in pictures)
    harsh = min(1.0, MOST_DETAIL * max(known) / got)
    return ramp(got / min(known), RAMPS["sharpness"]) * harsh


def undistorted(identity: Identity, stretch: float, likeness: float) -> float:
    """1 for a face that was not warped, less where the avatar's own pixels were strained.

    A face of other pixels than the avatar's counts as undistorted: its shape alone does not show a
    warp. stretch, likeness: from `strain`.
    """
    if likeness < SAME_PIXELS:
        return 1.0
    return (ramp(identity.shape, RAMPS["shape"]) + ramp(stretch, RAMPS["strain"])) / 2


def strain(heads: Heads) -> tuple[float, float]:
    """Median strain of the flow from the result to the avatar, and the correlation after it.

    Strain is the norm of the flow's gradient: 0 for a rigid shift. The flow is DIS (Kroeger et al.
    2016) on light of equalised contrast.
    """
    points = heads.result.points
    middle = points.mean(0)
    inside = face_mask(middle + 0.9 * (points - middle), (FRAME, FRAME), 0.0)
    if not inside.any():
        return 0.0, 0.0
    equal = cv2.createCLAHE(2.0, (4, 4))
    one, other = (
        equal.apply(np.clip(np.rint(head.picture[..., 0]), 0, 255).astype(np.uint8))
        for head in (heads.result, heads.avatar)
    )
    still = np.zeros((FRAME, FRAME, 2), dtype=np.float32)
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    flow = cv2.GaussianBlur(search.calc(one, other, still), (0, 0), 2.4)
    change = [np.gradient(flow[..., axis], axis=way) for axis in (0, 1) for way in (0, 1)]
    size = np.sqrt(sum(part**2 for part in change))
    across, down = np.meshgrid(np.arange(FRAME), np.arange(FRAME))
    x, y = (across + flow[..., 0]).astype(np.float32), (down + flow[..., 1]).astype(np.float32)
    back = cv2.remap(other, x, y, cv2.INTER_LINEAR)
    both = np.corrcoef(back[inside], one[inside])[0, 1]
    return float(np.median(size[inside])), float(np.nan_to_num(both))
