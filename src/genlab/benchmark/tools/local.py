"""`baseline_local`: a landmark warp that runs offline.

The avatar's face is mapped onto the template's by a similarity of their landmarks, then bent
smoothly by 35 % of the remaining difference: bent all the way, mouths and eyes would tear. Its tone
is matched to the template's cheeks. Near the seam it is blended by Poisson blending (Pérez, Gangnet
& Blake 2003); inside, the face stays as it is.

It does not turn a face, open a mouth, move glasses or hair, or handle a hand in front of a face.
Hair, head and body stay the template's.
"""

from collections.abc import Mapping
from typing import Any

import cv2
import numpy as np

from genlab.benchmark.cases import Case
from genlab.benchmark.scoring.faces import Face, Image, Points, rescale
from genlab.benchmark.scoring.geometry import (
    Field,
    Mask,
    cheek_mask,
    face_mask,
    fit_similarity,
    transform,
)
from genlab.benchmark.scoring.head import rgb_to_lab
from genlab.benchmark.tools.face_tool import (
    FaceTool,
    blend_images,
    find_pairs,
    jaw_width,
    lab_to_rgb,
    mirror_to_match,
)

PULL = 0.35  # fraction of the way from the avatar's shape to the template's
MIRROR_MARGIN = 0.15  # by how much closer the turn of the mirrored avatar must be
SOFT = 0.15  # sigma of one landmark's pull, in widths of the face
FOREHEAD = 0.08  # heights from chin to brow: more would take hair
CONTRAST = ((0.8, 0.5, 0.5), (1.25, 1.0, 1.0))  # limits of the change of contrast: light, a, b
CHROMA_SHARE = 0.85  # fraction of the template's smooth changes of chroma that is taken over
LIGHT_SHARE = 0.5  # the same of light
SMOOTH = 0.16  # sigma of what counts as smooth, in widths of the face
SEAM = 0.10  # width of the Poisson seam, in widths of the face


def swap_locally(case: Case, options: Mapping[str, Any]) -> Image:
    """Make every swap of a case in its template; there are no options."""
    image = np.asarray(case.open_template())
    for target, avatar in find_pairs(case):
        image = lay_over(image, target, *avatar)
    return image


def lay_over(image: Image, target: Face, avatar: Image, source: Face) -> Image:
    """Replace the face `target` of `image` by the face `source` of `avatar`.

    An avatar who looks the other way is mirrored first: a parting on the wrong side is less visible
    than a nose that points the wrong way.
    """
    avatar, landmarks = mirror_to_match(avatar, source.landmarks, target.landmarks, MIRROR_MARGIN)
    side = jaw_width(target.landmarks)
    low = np.maximum(target.landmarks.min(0) - 0.8 * side, 0).astype(int)
    high = np.minimum(target.landmarks.max(0) + 0.8 * side, image.shape[1::-1]).astype(int)
    window = (slice(low[1], high[1]), slice(low[0], high[0]))
    crop = np.ascontiguousarray(image[window])
    points = target.landmarks - low
    warped, shape = _warp(avatar, landmarks, points, crop.shape[:2])
    mask = face_mask(points, crop.shape, FOREHEAD) & face_mask(shape, crop.shape, FOREHEAD)
    result = image.copy()
    result[window] = blend_seam(match_tone(warped, shape, crop, points), crop, mask, side)
    return result


def _warp(
    avatar: Image, source: Points, target: Points, shape: tuple[int, ...]
) -> tuple[Image, Points]:
    """Warp the avatar onto the template's face; returns the picture and its new landmarks."""
    scale = float(np.sqrt(np.linalg.det(fit_similarity(source[17:], target[17:])[:, :2])))
    if scale < 0.7:  # shrink by area first, since a warp samples points
        small = rescale(avatar, scale)
        ratio = np.array([small.shape[1] / avatar.shape[1], small.shape[0] / avatar.shape[0]])
        avatar = small
        source = source * ratio
    matrix = fit_similarity(source[17:], target[17:])
    landmarks = transform(source, matrix)
    pull = PULL * (target - landmarks)
    # The pull at every pixel: a Gaussian mean of the landmarks' pulls, computed coarsely.
    grid = np.stack(np.meshgrid(np.arange(shape[1]), np.arange(shape[0])), axis=-1)
    distance = ((grid[2::4, 2::4, None] - (landmarks + pull)) ** 2).sum(-1)
    weight = np.exp(-distance / (2 * (SOFT * jaw_width(target)) ** 2)) + 1e-9
    mean = weight @ pull / weight.sum(-1, keepdims=True)
    before_pull = grid - cv2.resize(mean, shape[::-1])
    back = cv2.invertAffineTransform(matrix)
    positions = (before_pull @ back[:, :2].T + back[:, 2]).astype(np.float32)
    warped = cv2.remap(
        avatar,
        positions[..., 0],
        positions[..., 1],
        cv2.INTER_CUBIC,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return warped, landmarks + pull


def match_tone(warped: Image, shape: Points, crop: Image, points: Points) -> Image:
    """Match the tone of the warped face: the mean on the cheeks, contrast, and smooth changes.

    Low frequencies hold the light of the scene, high frequencies the detail of the face.
    """
    source = rgb_to_lab(warped)
    target = rgb_to_lab(crop)
    skin = source[cheek_mask(shape, crop.shape)]
    target_skin = target[cheek_mask(points, crop.shape)]
    if len(skin) < 20 or len(target_skin) < 20:
        return warped
    inside = face_mask(points, crop.shape, 0.0) & face_mask(shape, crop.shape, 0.0)
    contrast = target[inside].std(0) / np.maximum(source[inside].std(0), 1.0)
    source = (source - skin.mean(0)) * np.clip(contrast, *CONTRAST) + target_skin.mean(0)
    drift = _blur_inside(target - source, inside, SMOOTH * jaw_width(points))
    shares = np.array([LIGHT_SHARE, CHROMA_SHARE, CHROMA_SHARE], dtype=np.float32)
    return lab_to_rgb(source + drift * shares)


def _blur_inside(field: Field, inside: Mask, reach: float) -> Field:
    """Gaussian mean of `field` over the pixels `inside`, extended beyond them."""
    weight = cv2.GaussianBlur(inside.astype(np.float32), (0, 0), reach) + 1e-4
    return cv2.GaussianBlur(field * inside[..., None], (0, 0), reach) / weight[..., None]


def blend_seam(face: Image, surroundings: Image, mask: Mask, side: float) -> Image:
    """Put `face` into its surroundings, with Poisson blending near the border of `mask`.

    All three have one size; side: width of the face in pixels.
    """
    if not mask.any():
        return surroundings
    rows = np.flatnonzero(mask.any(1))
    columns = np.flatnonzero(mask.any(0))
    # The clone is centred on the mask's bounding rectangle.
    middle = (int(columns[0] + columns[-1] + 1) // 2, int(rows[0] + rows[-1] + 1) // 2)
    flag = mask.astype(np.uint8) * 255
    seam = cv2.seamlessClone(face, surroundings, flag, middle, cv2.NORMAL_CLONE).astype(np.float32)
    depth = cv2.distanceTransform(mask.astype(np.uint8), cv2.DIST_L2, 5)
    inside = np.clip(depth / (SEAM * side), 0, 1)
    inside = (inside**2 * (3 - 2 * inside))[..., None]
    edge = np.clip(depth / (0.03 * side), 0, 1)[..., None]
    return blend_images(inside * face + (1 - inside) * seam, surroundings, edge)


LOCAL = FaceTool("baseline_local", "Local swap by landmarks", swap_locally, version="2")
