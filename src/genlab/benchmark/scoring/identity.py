"""Identity: the distance of face embeddings, and the shape of the face."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import Delaunay

from genlab.benchmark.scoring.constants import FLOORS, ramp
from genlab.benchmark.scoring.faces import Face, Points, identity_distance

INNER = np.arange(17, 68)  # brows, nose, eyes and mouth: the jaw is set less surely


@dataclass(frozen=True)
class Identity:
    """Of one person. score in [0, 1]; distances of embeddings; shape: see `shape_share`."""

    score: float
    to_avatar: float
    to_template: float
    apart: float  # template's person to avatar: what there was to gain
    shape: float


def identity(result: Face, template: Face, views: Sequence[Face]) -> Identity:
    """How far the person in the template has become the avatar's.

    The minimum of two values: one of the distance to the avatar, one of the share of the distance
    from the template's person that is covered. The second is exactly 0 for the untouched template;
    the first is 0 for a third person. Where both are 0, a small gain still scores slightly above 0,
    so that bad and worse results do not tie.

    views: the avatar's face, and the same in a mirror; the nearer counts.
    """
    to_avatar = min(identity_distance(result, view) for view in views)
    apart = min(identity_distance(template, view) for view in views)
    gain = 1.0 - to_avatar / max(apart, 1e-9)
    full = min(ramp("identity_distance", to_avatar), ramp("identity_gain", gain))
    score = max(full, FLOORS["trace"] * ramp("trace_gain", gain))
    share = shape_share(result.landmarks, template.landmarks, [view.landmarks for view in views])
    return Identity(score, to_avatar, identity_distance(result, template), apart, share)


def shape_share(result: Points, template: Points, views: Sequence[Points]) -> float:
    """0 where the features have exactly the template's shape, 1 where they have the avatar's.

    The bending against each: of a triangulation of the inner landmarks, the greater logarithm of
    the two stretches of every triangle, weighted by area.
    """
    from_template = bending(template, result)
    from_avatar = min(bending(view, result) for view in views)
    return from_template / max(from_template + from_avatar, 1e-9)


def bending(before: Points, after: Points) -> float:
    """Mean |log stretch| of the triangles between the inner landmarks; 0 for a mere shift."""
    a, b = before[INNER], after[INNER]
    # A similarity is no bending: both are brought to one size.
    a, b = a - a.mean(0), b - b.mean(0)
    a, b = a / max(float(a.std()), 1e-9), b / max(float(b.std()), 1e-9)
    corners = Delaunay(a).simplices
    sides = np.stack([a[corners[:, i]] - a[corners[:, 0]] for i in (1, 2)], axis=-1)
    bent = np.stack([b[corners[:, i]] - b[corners[:, 0]] for i in (1, 2)], axis=-1)
    area = np.abs(np.linalg.det(sides))
    whole = area > 1e-4
    maps = bent[whole] @ np.linalg.inv(sides[whole])
    stretch = np.maximum(np.linalg.svd(maps, compute_uv=False), 0.05)
    return float(np.average(np.abs(np.log(stretch)).max(-1), weights=area[whole]))
