"""Does the face look like a photograph? Seam, sharpness, tone and torn features.

All is measured in one frame, 256 pixels square, in which the template's face is about 120 wide: the
result and the template at the same place, the avatar laid over the result's landmarks. What either
of the two photographs has itself is no fault of the swap.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from genlab.benchmark.constants import CONSTANTS, ramp
from genlab.benchmark.faces import Face, Image, Points, scaled
from genlab.benchmark.geometry import cheeks, face_mask, similarity
from genlab.benchmark.identity import Identity

_C: Any = CONSTANTS
FRAME = 256
FACE = 120.0
Field = npt.NDArray[np.float32]


def realism(
    image: Image,
    result: Face,
    template: Image,
    person: Face,
    avatar: Image,
    source: Face,
    identity: Identity,
) -> dict[str, float]:
    """`score`, the root of the product of seam, sharpness, tone and torn; all in [0, 1].

    image, result: the tool's picture and the face in it; template, person: the same place before;
    avatar, source: the picture and face of the person asked for.
    """
    matrix = _framing(person.landmarks)
    points = _moved(person.landmarks, matrix)
    after, before = _framed(image, matrix), _framed(template, matrix)
    onto = similarity(source.landmarks[17:], _moved(result.landmarks, matrix)[17:])
    taken = _framed(avatar, onto)
    marks = {
        "seam": ramp(new_edges(after, before, taken, points), _C["seam"]),
        "sharpness": sharpness(after, before, taken, points),
        "tone": ramp(tone_step(after, before, points), _C["tone"]),
        "torn": torn(identity, *strain(after, taken, points)),
    }
    least = _C["least"]
    kept = [max(mark, float(least[name])) for name, mark in marks.items()]
    return {"score": float(np.sqrt(np.prod(kept))), **marks}


def new_edges(after: Field, before: Field, taken: Field, points: Points) -> float:
    """Mean edge at the rim of the face that neither photograph has near there, CIELAB a pixel."""
    core = face_mask(_shrunk(points, 0.75), after.shape, 0.0)
    reach = face_mask(_shrunk(points, 1.6), after.shape, 0.45)
    known = np.maximum(_widened(_edges(before)), _widened(_edges(taken)))
    fresh = np.maximum(_edges(after) - 1.15 * known - 2.0, 0)
    rim = reach & ~core
    return float(fresh[rim].mean()) if rim.any() else 0.0


def sharpness(after: Field, before: Field, taken: Field, points: Points) -> float:
    """Fine detail of the face against both photographs, as a mark in [0, 1].

    Softer than the softer of the two costs, and so does much harsher than the harsher: noise.
    """
    inside = face_mask(_shrunk(points, 0.85), after.shape, 0.0)
    if not inside.any():
        return 1.0
    got, *known = (max(float(_detail(x)[inside].mean()), 0.05) for x in (after, before, taken))
    harsh = min(1.0, float(_C["sharpness_most"]) * max(known) / got)
    return ramp(got / min(known), _C["sharpness"]) * harsh


def tone_step(after: Field, before: Field, points: Points) -> float:
    """By how much the step in tone from the cheeks to the rim below them has changed, CIELAB.

    It is the step that is compared, not the tone: where the avatar's skin is darker, face and neck
    may both become so.
    """
    skin = cheeks(_shrunk(points, 0.9), after.shape)
    rim = face_mask(_shrunk(points, 1.12), after.shape, 0.0) & ~face_mask(points, after.shape, 0.0)
    rim[: int(points[30, 1])] = False
    if not skin.any() or not rim.any():
        return 0.0
    steps = [np.median(x[skin], axis=0) - np.median(x[rim], axis=0) for x in (after, before)]
    return float(np.linalg.norm(steps[0] - steps[1]))


def torn(identity: Identity, stretch: float, likeness: float) -> float:
    """1 for features that are whole, less where the avatar's were pulled into the template's shape.

    A face that has something of the avatar and exactly the template's shape was bent by triangles:
    mouths and eyes smear. Where it is made of the avatar's own pixels, their strain says so too.
    In an untouched template, which has nothing of the avatar, nothing is torn.

    stretch, likeness: what `strain` found.
    """
    whole = ramp(identity.shape, _C["shape"])
    if likeness >= float(_C["same_pixels"]):
        whole = (whole + ramp(stretch, _C["strain"])) / 2
    return 1.0 - ramp(identity.gain, _C["likeness"]) * (1.0 - whole)


def strain(after: Field, taken: Field, points: Points) -> tuple[float, float]:
    """Median strain of the flow from the result to the avatar, and the correlation after it.

    Strain is the norm of the flow's gradient: 0 for a rigid shift. The flow is Kroeger et al.'s
    (2016) on light of equalised contrast.
    """
    inside = face_mask(_shrunk(points, 0.9), after.shape, 0.0)
    if not inside.any():
        return 0.0, 0.0
    equal = cv2.createCLAHE(2.0, (4, 4))
    one, other = (
        equal.apply(np.clip(np.rint(x[..., 0]), 0, 255).astype(np.uint8)) for x in (after, taken)
    )
    still = np.zeros((FRAME, FRAME, 2), dtype=np.float32)
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    flow = cv2.GaussianBlur(search.calc(one, other, still), (0, 0), 2.4)
    change = [np.gradient(flow[..., axis], axis=way) for axis in (0, 1) for way in (0, 1)]
    size = np.sqrt(sum(part**2 for part in change))
    across, down = np.meshgrid(np.arange(FRAME), np.arange(FRAME))
    x, y = (across + flow[..., 0]).astype(np.float32), (down + flow[..., 1]).astype(np.float32)
    back = np.asarray(cv2.remap(other, x, y, cv2.INTER_LINEAR))
    both = np.corrcoef(back[inside], one[inside])[0, 1]
    return float(np.median(size[inside])), float(np.nan_to_num(both))


def _framing(points: Points) -> Points:
    """The (2, 3) map that sets a face upright in the frame, `FACE` pixels wide at the jaw."""
    along = points[42:48].mean(0) - points[36:42].mean(0)
    along = along / max(float(np.linalg.norm(along)), 1e-9)
    turn = np.array([along, [-along[1], along[0]]])
    wide = max(float(np.ptp(points[:17] @ along)), 1e-9)
    matrix = turn * (FACE / wide)
    middle = np.array([FRAME / 2, FRAME * 0.55])
    return np.column_stack([matrix, middle - matrix @ points.mean(0)])


def _moved(points: Points, matrix: Points) -> Points:
    return np.asarray(points @ matrix[:, :2].T + matrix[:, 2], dtype=np.float64)


def _framed(image: Image, matrix: Points) -> Field:
    """(256, 256, 3) CIELAB of the frame; a large face is shrunk by area: nothing aliases."""
    scale = float(np.sqrt(abs(np.linalg.det(matrix[:, :2]))))
    if scale < 0.7:
        small = scaled(image, scale)
        ratio = np.array([image.shape[1] / small.shape[1], image.shape[0] / small.shape[0]])
        image, matrix = small, np.column_stack([matrix[:, :2] * ratio, matrix[:, 2]])
    laid = cv2.warpAffine(
        image, matrix, (FRAME, FRAME), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(cv2.cvtColor(laid, cv2.COLOR_RGB2LAB), dtype=np.float32)


def _shrunk(points: Points, share: float) -> Points:
    middle = points.mean(0)
    return np.asarray(middle + share * (points - middle), dtype=np.float64)


def _edges(image: Field) -> Field:
    smooth = cv2.GaussianBlur(image, (0, 0), 1.2)
    across = cv2.Sobel(smooth, cv2.CV_32F, 1, 0, scale=1 / 8)
    down = cv2.Sobel(smooth, cv2.CV_32F, 0, 1, scale=1 / 8)
    return np.asarray(np.sqrt((across**2 + down**2).sum(-1)), dtype=np.float32)


def _widened(edges: Field) -> Field:
    return np.asarray(cv2.dilate(edges, np.ones((9, 9), dtype=np.uint8)), dtype=np.float32)


def _detail(image: Field) -> Field:
    light = np.ascontiguousarray(image[..., 0])
    return np.asarray(np.abs(light - cv2.GaussianBlur(light, (0, 0), 2.0)), dtype=np.float32)
