"""Does the face look like a photograph? Border, detail and distortion, in the frame of the head."""

from __future__ import annotations

import cv2
import numpy as np

from genlab.benchmark.scoring.constants import FLOORS, MOST_DETAIL, RAMPS, SAME_PIXELS, ramp
from genlab.benchmark.scoring.geometry import face_mask
from genlab.benchmark.scoring.head import Heads, border, detail
from genlab.benchmark.scoring.identity import Identity
from genlab.benchmark.scoring.masks import FRAME, Field


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
    back = np.asarray(cv2.remap(other, x, y, cv2.INTER_LINEAR))
    both = np.corrcoef(back[inside], one[inside])[0, 1]
    return float(np.median(size[inside])), float(np.nan_to_num(both))
