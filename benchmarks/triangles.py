"""A deliberately bad swap: the avatar's face warped by triangles onto the template's landmarks.

Every landmark is moved all the way, so that a closed mouth is pulled open, lips smear and the
avatar's face gets the template's shape. Tone and seam are as good as the local swap's: the score
has to see the warp itself.
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
from scipy.spatial import Delaunay

from genlab.benchmark.scoring.faces import Face, Image, Points
from genlab.benchmark.scoring.geometry import face_mask
from genlab.benchmark.tools.local import blend, match_tone

FOREHEAD = 0.3


def warp_by_triangles(image: Image, target: Face, avatar: Image, source: Face) -> Image:
    """`image` with the face `source` of `avatar` warped to the place of its face `target`."""
    goal, known = _with_forehead(target.landmarks), _with_forehead(source.landmarks)
    warped, inside = _warp(avatar, known, goal, image)
    face = np.where(
        inside[..., None], match_tone(warped, target.landmarks, image, target.landmarks), image
    )
    mask = face_mask(target.landmarks, image.shape, 0.25) & inside
    mask = cv2.erode(mask.astype(np.uint8), np.ones((5, 5), dtype=np.uint8)) > 0
    wide = float(np.ptp(target.landmarks[:17, 0]))
    return blend(np.ascontiguousarray(face), image, mask, wide)


def _with_forehead(points: Points) -> Points:
    brows = points[17:27]
    return np.concatenate([points, brows + FOREHEAD * (brows.mean(0) - points[8])])


def _warp(
    avatar: Image, source: Points, target: Points, image: Image
) -> tuple[Image, npt.NDArray[np.bool_]]:
    """The avatar's picture mapped triangle by triangle, and where there are triangles."""
    height, width = image.shape[:2]
    mesh = Delaunay(target)
    rows, columns = np.mgrid[:height, :width]
    places = np.c_[columns.ravel(), rows.ravel()].astype(np.float64)
    which = mesh.find_simplex(places)
    hit = which >= 0
    to_corner = mesh.transform[which[hit]]
    two = np.einsum("nij,nj->ni", to_corner[:, :2], places[hit] - to_corner[:, 2])
    shares = np.c_[two, 1 - two.sum(1)]
    look = np.zeros((height * width, 2), dtype=np.float32)
    look[hit] = (source[mesh.simplices[which[hit]]] * shares[..., None]).sum(1)
    across, down = look.reshape(height, width, 2).transpose(2, 0, 1).copy()
    warped = cv2.remap(avatar, across, down, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(warped, dtype=np.uint8), hit.reshape(height, width)
