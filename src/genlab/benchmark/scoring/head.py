"""A person's head in a frame, its mask, and how framed pictures differ.

A frame is 320 pixels square and shows a face upright, 104 pixels wide from jaw to jaw. A head is
what the person mask of `segmentation` shows above the chin.

Dense gradients at three scales say where hair, outline and features lie; slow colour says what
colour they have. Pictures are CIELAB, (FRAME, FRAME, 3), and compared after a small shift.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from genlab.benchmark.scoring.faces import Array, Face, Image, Points, eye_line, rescale
from genlab.benchmark.scoring.geometry import (
    IDENTITY_MAP,
    Field,
    Mask,
    face_mask,
    grow_mask,
    register_images,
    resample,
    transform,
)
from genlab.benchmark.scoring.segmentation import person_probability

FRAME = 320
FACE = 104.0
PERSON = 0.5  # probability from which a pixel shows a person
NECK = 0.06  # how far a head goes below the chin, in heights from chin to brow
ASIDE = 1.15  # half the width of a head at most, in widths of the face
SCALES = (1.5, 3.0, 5.0)  # sigmas of the gradients, pixels of the frame
SLOW = 6.0  # sigma of the slow colour
FAR = 40.0  # difference of slow colour that counts as 1, 8-bit CIELAB units
GRADIENT = 0.7  # weight of the gradients against the colour
SHIFT = 6.0  # pixels of the frame by which a picture may be shifted and is aligned
TONE = 12.0  # most by which a picture's mean light is adjusted, 8-bit units
NEAR = 2  # pixels of the frame by which an unchanged edge may move
MATCHED = 5.0  # most by which gradients are scaled to be compared
KNOTS = 12  # of a tone curve
WINDOW = 3.0  # sigma of the windows in which structures are compared
SAME = 0.6  # correlation of two structures from which they are one
FLAT = 2.5  # spread of light in a window, 8-bit units, that is no structure
FAINT = 0.6  # gradients, 8-bit units per pixel, that count as none


@dataclass(frozen=True, eq=False)
class Head:
    """A person's head in a frame: the face as it was found; CIELAB picture, landmarks, mask there.

    All but `face` are in pixels of the frame.
    """

    face: Face
    picture: Field
    points: Points
    mask: Mask

    @classmethod
    def from_image(cls, image: Image, face: Face, matrix: Points) -> Head:
        """The head of `face` in `image`; matrix: maps the image to the frame."""
        frame, points = warp_to_frame(image, matrix), transform(face.landmarks, matrix)
        return cls(face, rgb_to_lab(frame), points, head_mask(frame, points))

    def face_mask(self, forehead: float, share: float = 1.0) -> Mask:
        """`geometry.face_mask` of the landmarks, drawn together to `share` of their distances."""
        middle = self.points.mean(0)
        points = self.points if share == 1 else middle + share * (self.points - middle)
        return face_mask(points, self.mask.shape, forehead)


def frame_matrix(points: Points) -> Points:
    """(2, 3) map that sets a face upright in the frame."""
    along = eye_line(points)
    along = along / max(float(np.linalg.norm(along)), 1e-9)
    turn = np.array([along, [-along[1], along[0]]])
    wide = max(float(np.ptp(points[:17] @ along)), 1e-9)
    matrix = turn * (FACE / wide)
    middle = np.array([FRAME / 2, FRAME * 0.55])
    return np.column_stack([matrix, middle - matrix @ points.mean(0)])


def warp_to_frame(image: Image, matrix: Points) -> Image:
    """(FRAME, FRAME, 3) uint8 RGB: the frame; a large face is shrunk by area first."""
    scale = float(np.sqrt(abs(np.linalg.det(matrix[:, :2]))))
    if scale < 0.7:
        small = rescale(image, scale)
        ratio = np.array([image.shape[1] / small.shape[1], image.shape[0] / small.shape[0]])
        image, matrix = small, np.column_stack([matrix[:, :2] * ratio, matrix[:, 2]])
    edge = cv2.BORDER_REPLICATE
    return cv2.warpAffine(image, matrix, (FRAME, FRAME), flags=cv2.INTER_CUBIC, borderMode=edge)


def rgb_to_lab(image: Image) -> Field:
    """CIELAB as OpenCV codes 8-bit pictures."""
    return cv2.cvtColor(image, cv2.COLOR_RGB2LAB).astype(np.float32)


def head_mask(frame: Image, points: Points) -> Mask:
    """(height, width): hair, face and ears of the person whose landmarks are `points`."""
    tall = float(points[8, 1] - points[17:27, 1].mean())
    wide, middle = float(np.ptp(points[:17, 0])), float(points[:17, 0].mean())
    limit = np.zeros(frame.shape[:2], dtype=bool)
    low = max(round(points[8, 1] + NECK * tall), 1)
    limit[:low, max(round(middle - ASIDE * wide), 0) : round(middle + ASIDE * wide)] = True
    own = ((person_probability(frame) > PERSON) & limit) | face_mask(points, frame.shape, 0.2)
    _, labels = cv2.connectedComponents(own.astype(np.uint8))
    nose = labels[tuple(np.clip(np.rint(points[30][::-1]).astype(int), 0, frame.shape[0] - 1))]
    return labels == nose if nose else own


def align(picture: Field, onto: Field, where: Mask, motion: int = cv2.MOTION_TRANSLATION) -> Field:
    """`picture` moved onto another and matched in light; motion: of OpenCV."""
    aim, light = (np.ascontiguousarray(x[..., 0]) for x in (onto, picture))
    matrix = register_images(aim, light, IDENTITY_MAP, motion, 1e-3, where)
    middle = np.argwhere(where)[:, ::-1].mean(0) if where.any() else np.zeros(2)
    if np.linalg.norm(transform(middle, matrix) - middle) > SHIFT:
        matrix = IDENTITY_MAP
    laid = resample(picture, matrix, (FRAME, FRAME), cv2.BORDER_REPLICATE)
    offset = np.median((onto - laid)[where], axis=0) if where.any() else np.zeros(3)
    return (laid + np.clip(offset, -TONE, TONE)).astype(np.float32)


def picture_distance(one: Field, other: Field, where: Mask) -> float:
    """Distance of two pictures over a mask: 0 for equal ones, about 0.8 for unrelated ones."""
    if not where.any():
        return 0.0
    gradients, colour = _differences(one, other)
    shares = [
        float(apart[where].sum() / max(float(size[where].sum()), 1e-6)) for apart, size in gradients
    ]
    return GRADIENT * float(np.mean(shares)) + (1 - GRADIENT) * float(colour[where].mean())


def structure_distance(source: Field, result: Field, where: Mask) -> float:
    """How far the edges of a result differ from a source's over a mask.

    0 for equal ones, about 0.5 for unrelated ones. The source first gets the result's tone, and at
    each scale the mean sizes of the gradients are matched; the scale at which least differs counts.
    So what was relit, blurred, sharpened or strewn with noise still has its edges at some scale,
    and what is another thing has them at none.
    """
    if not where.any():
        return 0.0
    light, own = (np.ascontiguousarray(x[..., 0]) for x in (source, result))
    light = fit_tone_curve(light[where], own[where])(light).astype(np.float32)
    shares = []
    for sigma in SCALES:
        a, b = (_gradient(x, sigma)[where] for x in (light, own))
        means = [max(float(np.linalg.norm(x, axis=-1).mean()), FAINT / sigma) for x in (a, b)]
        gain = float(np.clip(means[1] / means[0], 1 / MATCHED, MATCHED))
        apart = float(np.linalg.norm(gain * a - b, axis=-1).mean())
        shares.append(max(apart - FAINT / sigma, 0) / (gain * means[0] + means[1]))
    return min(shares)


def fit_tone_curve(source: Array, target: Array) -> Callable[[Array], Array]:
    """The monotone curve from values to others at the same places: medians between KNOTS."""
    parts = np.array_split(np.argsort(source, kind="stable"), KNOTS)
    x, first = np.unique([np.median(source[part]) for part in parts], return_index=True)
    y = np.array([np.median(target[part]) for part in parts])
    y = np.maximum.accumulate(y)[first]
    return lambda values: values + np.interp(values, x, y - x)


def difference_map(one: Field, other: Field) -> Field:
    """(height, width) in [0, 1]: where two pictures differ."""
    gradients, colour = _differences(one, other)
    parts = [cv2.blur(np.stack(pair, -1), (9, 9)) for pair in gradients]
    shares = [part[..., 0] / np.maximum(part[..., 1], 2 * FAINT) for part in parts]
    both: Field = GRADIENT * np.mean(shares, axis=0) + (1 - GRADIENT) * colour
    return np.clip(both, 0, 1)


def _differences(one: Field, other: Field) -> tuple[list[tuple[Field, Field]], Field]:
    """Per scale the norm of the gradients' difference and the sum of their norms; slow colour."""
    gradients = []
    for sigma in SCALES:
        a, b = (_gradient(x[..., 0], sigma) for x in (one, other))
        apart = np.maximum(_norm(a - b) - FAINT / sigma, 0)
        gradients.append((apart, _norm(a) + _norm(b) + FAINT / sigma))
    slow = np.linalg.norm(cv2.GaussianBlur(one - other, (0, 0), SLOW), axis=-1)
    return gradients, np.minimum(slow / FAR, 1)


def _norm(gradient: Field) -> Field:
    return cv2.magnitude(gradient[..., 0], gradient[..., 1])


def _gradient(light: Field, sigma: float) -> Field:
    smooth = cv2.GaussianBlur(np.ascontiguousarray(light), (0, 0), sigma)
    across, down = (cv2.Sobel(smooth, cv2.CV_32F, *way, scale=1 / 8) for way in ((1, 0), (0, 1)))
    return np.stack([across, down], axis=-1)


def hair_likeness(result: Head, avatar: Head) -> float:
    """Intersection of the colour histograms of two heads' hair, in [0, 1]."""
    return float(np.minimum(_hair_histogram(result), _hair_histogram(avatar)).sum())


def _hair_histogram(head: Head) -> Array:
    above = head.mask & ~head.face_mask(0.25)
    above[round(float(head.points[33, 1])) :] = False
    pixels = head.picture[above] if above.any() else np.zeros((1, 3), dtype=np.float32)
    count, _ = np.histogramdd(pixels, bins=(6, 8, 8), range=((0, 256), (80, 200), (80, 200)))
    return count / max(float(count.sum()), 1.0)


def likeness(source: Field, result: Field, where: Mask) -> float:
    """Median correlation of the light of two pictures in small windows over a mask, in [-1, 1].

    A change of tone that varies slowly leaves it near 1; another photograph has about 0.2.
    """
    shared, size = _correlation(source, result)
    told = where & (size > 1.0)  # windows without structure tell nothing
    return float(np.median((shared / size)[told])) if told.any() else 0.0


def _correlation(one: Field, other: Field) -> tuple[Field, Field]:
    """Covariance of the light in windows of WINDOW, and the product of the spreads."""
    a, b = (np.ascontiguousarray(x[..., 0], dtype=np.float32) for x in (one, other))

    def mean(values: Field) -> Field:
        return np.asarray(cv2.GaussianBlur(values, (0, 0), WINDOW))

    variances = [np.maximum(mean(x * x) - mean(x) ** 2, 1e-3) for x in (a, b)]
    return mean(a * b) - mean(a) * mean(b), np.sqrt(variances[0] * variances[1])


def find_replaced(face: Mask, result: Field, before: Field) -> Mask:
    """(height, width): the region around a face whose structure is not what it was before.

    What was relit, recoloured or sharpened correlates with what was there; another head, or another
    photograph's background, does not. Where either is flat, nothing is known to have changed.
    """
    shared, size = _correlation(result, before)
    changed = (shared < SAME * size) & (size > FLAT**2)
    return _keep_connected(changed | face, face, 6)


def find_changed(face: Mask, result: Field, before: Field) -> Mask:
    """(height, width): the region around a face in which a picture is not as it was before.

    A pixel that lies between its neighbours of before is not changed: blur and a small shift leave
    it there.
    """
    changed = cv2.GaussianBlur(range_excess(result, before, NEAR), (0, 0), 1.5) > 8
    return _keep_connected(changed | face, face, 8)


def _keep_connected(region: Mask, face: Mask, gap: int) -> Mask:
    """What is connected with a face, after gaps were closed and specks removed."""
    whole = grow_mask(
        grow_mask(grow_mask(grow_mask(region, gap), -gap), -4), 4
    )  # closed, then opened
    _, labels = cv2.connectedComponents(whole.astype(np.uint8))
    return whole & np.isin(labels, np.unique(labels[face]))


def measure_border(
    result: Field, changed: Mask, known: Sequence[Field], cut: tuple[float, float]
) -> tuple[float, Field]:
    """Share of the changed region's border that has edges which no photograph has, and where.

    known: pictures whose edges are no fault; cut: light at and below which, and at and above which,
    the result's tone has cut all edges off, so that nothing is known.
    """
    light = result[..., 0]
    ring = grow_mask(changed, 3) & ~grow_mask(changed, -3) & (light > cut[0]) & (light < cut[1])
    edges = [_norm(_gradient(x[..., 0], 1.2)) for x in (result, *known)]
    usual = np.max([cv2.dilate(edge, np.ones((9, 9))) for edge in edges[1:]], axis=0)
    fresh = np.maximum(edges[0] - 1.15 * usual - 2.0, 0) * ring
    wide = cv2.dilate((fresh > 0.5).astype(np.uint8), np.ones((5, 5), dtype=np.uint8)) > 0
    return float((wide & ring).sum() / max(int(ring.sum()), 1)), fresh


def range_excess(a: Field, b: Field, reach: int) -> Field:
    """(height, width): how far a picture lies outside of another's values within `reach` pixels."""
    around = np.ones((2 * reach + 1, 2 * reach + 1), dtype=np.uint8)
    over = np.maximum(a - cv2.dilate(b, around), 0) + np.maximum(cv2.erode(b, around) - a, 0)
    length: Field = np.linalg.norm(over, axis=-1)
    return length


def measure_detail(head: Head, where: Mask) -> float:
    """Mean fine detail of the light over a mask."""
    light = np.ascontiguousarray(head.picture[..., 0])
    fine = np.abs(light - cv2.GaussianBlur(light, (0, 0), 2.0))
    return max(float(fine[where].mean()), 0.05) if where.any() else 0.05


def measure_strain(result: Head, avatar: Head) -> tuple[float, float]:
    """Median strain of the flow from the result to the avatar, and the correlation after it.

    Strain is the norm of the flow's gradient: 0 for a rigid shift. The flow is DIS (Kroeger et al.
    2016) on light of equalised contrast.
    """
    inside = result.face_mask(0.0, 0.9)
    if not inside.any():
        return 0.0, 0.0
    equal = cv2.createCLAHE(2.0, (4, 4))
    one, other = (
        equal.apply(np.clip(np.rint(head.picture[..., 0]), 0, 255).astype(np.uint8))
        for head in (result, avatar)
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
