"""How far a person of the template has become the avatar: embeddings and shape of the face."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from genlab.benchmark.scoring.constants import FLOORS, ramp
from genlab.benchmark.scoring.faces import Face, identity_distance
from genlab.benchmark.scoring.geometry import shape_share


@dataclass(frozen=True)
class Identity:
    """How far a person has become the avatar.

    score: in [0, 1]; to_avatar, to_template: embedding distances of the result; avatar_to_template:
    embedding distance between both, the most that could be gained; shape: see `shape_share`.
    """

    score: float
    to_avatar: float
    to_template: float
    avatar_to_template: float
    shape: float

    @classmethod
    def measure(cls, result: Face, template: Face, views: Sequence[Face]) -> Identity:
        """Measure how far the person of the template has become the avatar.

        The score is the smaller of two values: one falls with the distance to the avatar and is 0
        for a third person, the other rises with the covered fraction of the distance from template
        to avatar and is exactly 0 for the untouched template. Where it is 0, a small gain still
        scores slightly above 0, so that bad and worse results do not tie.

        views: the avatar's face and the same face mirrored; the nearer one counts.
        """
        to_avatar = min(identity_distance(result, view) for view in views)
        avatar_to_template = min(identity_distance(template, view) for view in views)
        gain = 1.0 - to_avatar / max(avatar_to_template, 1e-9)
        full = min(ramp("identity_distance", to_avatar), ramp("identity_gain", gain))
        score = max(full, FLOORS["trace"] * ramp("trace_gain", gain))
        view_landmarks = [view.landmarks for view in views]
        shape = shape_share(result.landmarks, template.landmarks, view_landmarks)
        to_template = identity_distance(result, template)
        return cls(score, to_avatar, to_template, avatar_to_template, shape)
