"""`baseline_local`: a landmark warp that runs offline.

The avatar's face is laid over the template's by a similarity of their landmarks, pulled 35 % of the
rest of the way, softly: pulled all the way by triangles, mouths and eyes tear. Its tone becomes
that of the template's cheeks. Near the seam Poisson blending (Pérez, Gangnet & Blake 2003) takes
over, inside the face stays as it is.

It does not turn a face, open a mouth, move glasses, or handle a hand in front of a face. Hair, head
and body stay the template's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from genlab.benchmark.cases import Case
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Face, Image, Points
from genlab.benchmark.scoring.geometry import Mask, cheeks, face_mask, similarity
from genlab.benchmark.scoring.masks import Field, lab, moved
from genlab.benchmark.tools.compositing import jaw_width, lab_to_rgb, mix, turn_alike
from genlab.benchmark.tools.face_tool import FaceTool, find_pairs, open_template

# Mouth, and each eye with its brow.
FEATURES = (np.r_[48:60], np.r_[17:22, 36:42], np.r_[22:27, 42:48])
PULL = 0.35  # share of the way from the avatar's shape to the template's
MIRROR = 0.15  # by how much nearer in turn the mirrored avatar must be
SOFT = 0.30  # reach of one landmark's pull, in widths of the face
FOREHEADS = (0.35, 0.27, 0.2, 0.14, 0.08, 0.03)  # how much forehead may be taken, most first
SKIN = (-70.0, 60.0, 24.0)  # a pixel is skin within these of the cheeks: darker, lighter, chroma
HUE, LIGHT = 0.85, 0.5  # share of the template's slow changes of chroma and light that is taken
CONTRAST = (
    (0.8, 0.5, 0.5),
    (1.25, 1.0, 1.0),
)  # minimum and maximum change of contrast: light, a, b
BLOWN = (215.0, 245.0)  # 8-bit light from which a photograph holds no colour any more
SLOW = 0.16  # what is slow: a Gaussian of so many widths of the face
RIM = 0.12  # how deep hair at the rim is cut away, in widths of the face
SEAM = 0.10  # width of the Poisson seam, in widths of the face


def swap_locally(case: Case, options: Mapping[str, Any]) -> Image:
    """The template of `case` with every swap done; it has no options."""
    image = open_template(case)
    for pair in find_pairs(case):
        image = lay_over(image, pair.target, pair.avatar, pair.source)
    return image


def lay_over(image: Image, target: Face, avatar: Image, source: Face) -> Image:
    """`image` with the face `source` of `avatar` in the place of its face `target`.

    An avatar who looks the other way is mirrored first: a parting on the wrong side shows less than
    a nose that points backwards.
    """
    avatar, known = turn_alike(avatar, source.landmarks, target.landmarks, MIRROR)
    side = jaw_width(target.landmarks)
    low = np.maximum(target.landmarks.min(0) - 0.8 * side, 0).astype(int)
    high = np.minimum(target.landmarks.max(0) + 0.8 * side, image.shape[1::-1]).astype(int)
    window = slice(low[1], high[1]), slice(low[0], high[0])
    room = np.ascontiguousarray(image[window])
    points = target.landmarks - low
    warped, shape = _warp(avatar, known, points, room.shape[:2])
    forehead = min(_find_forehead(room, points), _find_forehead(warped, shape))
    mask = face_mask(points, room.shape, forehead) & face_mask(shape, room.shape, forehead)
    coloured = match_tone(warped, shape, room, points)
    result = image.copy()
    result[window] = blend(coloured, room, _trim(mask, coloured, points, side), side)
    return result


def _warp(
    avatar: Image, source: Points, target: Points, shape: tuple[int, ...]
) -> tuple[Image, Points]:
    """The avatar's picture in the template's place, and where its landmarks came to lie."""
    scale = float(np.sqrt(np.linalg.det(similarity(source[17:], target[17:])[:, :2])))
    if scale < 0.7:  # shrink by area first, since a warp samples points
        small = faces.scaled(avatar, scale)
        ratio = np.array([small.shape[1] / avatar.shape[1], small.shape[0] / avatar.shape[0]])
        avatar, source = small, source * ratio
    matrix = similarity(source[17:], target[17:])
    laid = moved(source, matrix)
    pull = PULL * (target - laid)
    grid = np.stack(np.meshgrid(np.arange(shape[1]), np.arange(shape[0])), axis=-1)
    places = grid.astype(np.float64) - _spread_pull(
        grid, laid + pull, pull, SOFT * jaw_width(target)
    )
    back = cv2.invertAffineTransform(matrix)
    look = (places @ back[:, :2].T + back[:, 2]).astype(np.float32)
    warped = cv2.remap(
        avatar, look[..., 0], look[..., 1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(warped, dtype=np.uint8), laid + pull


def _spread_pull(
    grid: npt.NDArray[Any], points: Points, pull: Points, reach: float
) -> npt.NDArray[np.float64]:
    """(height, width, 2): the pull at every pixel, a Gaussian mean of the landmarks' pulls."""
    step = 4
    coarse = grid[::step, ::step].astype(np.float64)
    away = ((coarse[:, :, None, :] - points) ** 2).sum(-1)
    weight = np.exp(-away / (2 * (reach / 2) ** 2)) + 1e-9
    mean = weight @ pull / weight.sum(-1, keepdims=True)
    fine = np.empty((*grid.shape[:2], 2), dtype=np.float64)
    # Pixel centres of the coarse grid lie at multiples of `step`, so it is sampled by hand.
    x, y = (grid / step).astype(np.float32).transpose(2, 0, 1)
    for axis in range(2):
        fine[..., axis] = cv2.remap(
            mean[..., axis].astype(np.float32),
            x,
            y,
            cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REPLICATE,
        )
    return fine


def _find_forehead(image: Image, points: Points) -> float:
    """How much of a forehead is bare, in heights from chin to brow: no hair, no cap."""
    bare = _find_skin(image, points)
    below = face_mask(points, image.shape, FOREHEADS[-1])
    for share in FOREHEADS[:-1]:
        strip = face_mask(points, image.shape, share) & ~below
        if strip.any() and bare[strip].mean() > 0.93:
            return share
    return FOREHEADS[-1]


def _find_skin(image: Image, points: Points) -> Mask:
    """(height, width): where the picture has about the colour of the cheeks; none if unknown."""
    tone = lab(image)
    skin = tone[cheeks(points, image.shape)]
    if len(skin) < 20:
        return np.zeros(image.shape[:2], dtype=np.bool_)
    off = tone - np.median(skin, axis=0)
    darker, lighter, chroma = SKIN
    bare = (off[..., 0] > darker) & (off[..., 0] < lighter)
    return np.asarray(bare & (np.hypot(off[..., 1], off[..., 2]) < chroma))


def _trim(mask: Mask, face: Image, points: Points, side: float) -> Mask:
    """`mask` without what is no skin at its rim, but for the features: hair, collar, background."""
    depth = cv2.distanceTransform(mask.astype(np.uint8), cv2.DIST_L2, 5)
    foreign = (
        mask
        & (depth < RIM * side)
        & ~_find_skin(face, points)
        & ~_draw_features(points, mask, side)
    )
    kept = (mask & ~_grow(foreign, 0.05 * side)).astype(np.uint8)
    count, labels, sizes, _ = cv2.connectedComponentsWithStats(kept)
    if count < 2 or kept.sum() < 0.6 * mask.sum():
        return mask
    return np.asarray(labels == 1 + int(np.argmax(sizes[1:, cv2.CC_STAT_AREA])))


def _draw_features(points: Points, mask: Mask, side: float) -> Mask:
    """Mouth, eyes and brows with a little around them."""
    drawn = np.zeros(mask.shape, dtype=np.uint8)
    for part in FEATURES:
        hull = cv2.convexHull(np.rint(points[part]).astype(np.int32))
        cv2.fillConvexPoly(drawn, hull, 1)
    return _grow(drawn > 0, 0.10 * side)


def _grow(mask: Mask, width: float) -> Mask:
    size = max(3, round(width)) | 1
    return np.asarray(cv2.dilate(mask.astype(np.uint8), np.ones((size, size), dtype=np.uint8)) > 0)


def match_tone(warped: Image, shape: Points, room: Image, points: Points) -> Image:
    """`warped` with the template's mean tone on the cheeks, and most of its slow changes.

    Low frequencies hold the light of the scene, high frequencies the detail of the face.
    """
    source, target = lab(warped), lab(room)
    mine, theirs = source[cheeks(shape, room.shape)], target[cheeks(points, room.shape)]
    if len(mine) < 20 or len(theirs) < 20:
        return warped
    reach = SLOW * jaw_width(points)
    inside = face_mask(points, room.shape, 0.0) & face_mask(shape, room.shape, 0.0)
    contrast = target[inside].std(0) / np.maximum(source[inside].std(0), 1.0)
    # White has no hue: take the skin's.
    blown = np.clip((source[..., :1] - BLOWN[0]) / (BLOWN[1] - BLOWN[0]), 0, 1)
    source[..., 1:] += blown * (mine.mean(0)[1:] - source[..., 1:])
    source = (source - mine.mean(0)) * np.clip(contrast, CONTRAST[0], CONTRAST[1]) + theirs.mean(0)
    drift = _blur_inside(target - source, inside, reach) * np.array(
        [LIGHT, HUE, HUE], dtype=np.float32
    )
    return lab_to_rgb(source + drift)


def _blur_inside(field: Field, inside: Mask, reach: float) -> Field:
    """The Gaussian mean of `field` over the pixels `inside`, continued beyond them."""
    weight = cv2.GaussianBlur(inside.astype(np.float32), (0, 0), reach) + 1e-4
    return np.asarray(
        cv2.GaussianBlur(field * inside[..., None], (0, 0), reach) / weight[..., None]
    )


def blend(face: Image, room: Image, mask: Mask, side: float) -> Image:
    """Poisson near the border of `mask`, `face` itself inside, `room` outside.

    All three are of one size; side: width of the face in pixels.
    """
    if not mask.any():
        return room
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    # The clone is centred on the mask's bounding rectangle.
    middle = (int(columns[0] + columns[-1] + 1) // 2, int(rows[0] + rows[-1] + 1) // 2)
    flag = mask.astype(np.uint8) * 255
    seam = cv2.seamlessClone(face, room, flag, middle, cv2.NORMAL_CLONE).astype(np.float32)
    depth = cv2.distanceTransform(mask.astype(np.uint8), cv2.DIST_L2, 5)
    inside = np.clip(depth / (SEAM * side), 0, 1)
    inside = (inside**2 * (3 - 2 * inside))[..., None]
    edge = np.clip(depth / (0.03 * side), 0, 1)[..., None]
    return mix(inside * face + (1 - inside) * seam, room, edge)


LOCAL = FaceTool("baseline_local", "Local swap by landmarks", swap_locally)
