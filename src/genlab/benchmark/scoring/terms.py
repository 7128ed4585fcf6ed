"""The terms of one swap: each a value in [0, 1], one sentence, and where it loses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from genlab.benchmark.scoring import head as head_terms
from genlab.benchmark.scoring.constants import FLOORS, HAIR, RAMPS, REALISM_WEIGHTS, ramp
from genlab.benchmark.scoring.expression import expression
from genlab.benchmark.scoring.faces import Face
from genlab.benchmark.scoring.geometry import face_mask
from genlab.benchmark.scoring.head import Heads, aligned, detail, difference_map, distance, rim
from genlab.benchmark.scoring.identity import Identity
from genlab.benchmark.scoring.masks import FRAME, Field, grown
from genlab.benchmark.scoring.realism import realism


@dataclass(frozen=True, eq=False)
class Term:
    """One term: value in [0, 1]; parts: what it was measured from; heat: where it loses.

    heat returns (height, width) in [0, 1]: of the frame for a person's terms, of the compared
    picture for the background.
    """

    value: float
    sentence: str
    heat: Callable[[], Field]
    parts: Mapping[str, float] = field(default_factory=dict)


def geometric_mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Weighted geometric mean; the weights sum to 1."""
    return float(np.prod([values[name] ** weight for name, weight in weights.items()]))


def person_terms(heads: Heads, who: Identity, result: Face, template: Face) -> dict[str, Term]:
    """Terms of `score`, without a reference."""
    return {
        "identity": _identity(heads, who, "the avatar"),
        "head": _head(heads),
        "realism": _realism(heads, who),
        "expression": _expression(heads, result, template, "the template"),
        "copied": _copied(heads),
    }


def reference_terms(heads: Heads, who: Identity, result: Face, ideal: Face) -> dict[str, Term]:
    """Terms of `score_reference`, against the ideal; `who` is measured against the ideal's face."""
    return {
        "identity": _identity(heads, who, "the ideal"),
        "head": _covered(heads),
        "expression": _expression(heads, result, ideal, "the ideal"),
        "detail": _detail(heads),
        "seam": _seam(heads),
    }


def _identity(heads: Heads, who: Identity, whom: str) -> Term:
    sentence = (
        f"The face is {who.to_avatar:.2f} from {whom} and {who.to_template:.2f} from the"
        " template's person (0.4 and less: the same person)."
    )
    parts = {
        "distance_to_avatar": who.to_avatar,
        "distance_to_template": who.to_template,
        "distance_between": who.apart,
    }
    return Term(who.score, sentence, lambda: _on_face(heads, 1 - who.score), parts)


def _head(heads: Heads) -> Term:
    where = rim(heads.template)
    still = heads.still
    gone = distance(still, heads.template.picture, where)
    hair = head_terms.hair_likeness(heads.result, heads.avatar)
    new, like = ramp(gone, RAMPS["gone"]), max(ramp(hair, RAMPS["hair"]), FLOORS["hair"])
    value = max(new ** (1 - HAIR) * like**HAIR, FLOORS["head"])
    sentence = (
        f"{new:.0%} of the template's hair and outline is gone; the hair's colours agree with the"
        f" avatar's by {hair:.0%}."
    )

    def heat() -> Field:
        return np.asarray((1 - difference_map(still, heads.template.picture)) * where)

    return Term(value, sentence, heat, {"old_hair_gone": gone, "hair_likeness": hair})


def _realism(heads: Heads, who: Identity) -> Term:
    parts, fresh = realism(heads, who)
    names = {"seam": "a visible border", "sharpness": "blur or noise", "undistorted": "distortion"}
    worst = min(parts, key=lambda name: parts[name])
    sentence = (
        "The face looks like a photograph."
        if parts[worst] > 0.9
        else f"The main fault is {names[worst]} ({parts[worst]:.2f})."
    )
    value = geometric_mean(parts, REALISM_WEIGHTS)
    lost = max(1 - parts["sharpness"], 1 - parts["undistorted"])
    return Term(
        value,
        sentence,
        lambda: np.maximum(np.clip(fresh / 8, 0, 1), _on_face(heads, lost)),
        {**parts, "shape_share": who.shape},
    )


def _expression(heads: Heads, result: Face, other: Face, whose: str) -> Term:
    parts = expression(result, other)
    value = parts.pop("score")
    worst = min(parts, key=lambda name: parts[name])
    sentence = (
        f"Pose and expression are those of {whose}."
        if parts[worst] > 0.9
        else f"Against {whose}, the {worst} differs most ({parts[worst]:.2f})."
    )
    return Term(value, sentence, lambda: _on_face(heads, 1 - value), parts)


def _copied(heads: Heads) -> Term:
    away = head_terms.copied(heads)
    value = max(ramp(away, RAMPS["copied"]), FLOORS["copied"])
    sentence = (
        "The face is not made of the avatar's pixels."
        if value > 0.9
        else f"The face is the avatar's photograph, pasted or warped (distance {away:.2f})."
    )
    return Term(value, sentence, lambda: _on_face(heads, 1 - value), {"copied_distance": away})


def _covered(heads: Heads) -> Term:
    assert heads.ideal is not None
    ideal = heads.ideal.picture
    where = heads.template.mask | heads.ideal.mask
    wide = grown(where, 20)
    near = aligned(heads.result.picture, ideal, wide)
    before = distance(heads.template.picture, ideal, where)
    covered = 1 - distance(near, ideal, where) / max(before, 1e-6)
    value = max(ramp(covered, RAMPS["covered"]), FLOORS["covered"])
    sentence = f"{max(covered, 0):.0%} of the distance from the template's head to the ideal's."

    def heat() -> Field:
        return np.asarray(difference_map(near, ideal) * where)

    return Term(value, sentence, heat, {"covered": covered})


def _detail(heads: Heads) -> Term:
    assert heads.ideal is not None
    inside = face_mask(heads.ideal.points, (FRAME, FRAME), 0.1)
    ratio = detail(heads.result.picture, inside) / detail(heads.ideal.picture, inside)
    harsh = min(1.0, 2.0 / ratio)
    value = max(ramp(ratio, RAMPS["detail"]) * harsh, FLOORS["detail"])
    sentence = f"The face has {ratio:.0%} of the ideal's fine detail."
    return Term(value, sentence, lambda: _on_face(heads, 1 - value), {"detail_ratio": ratio})


def _seam(heads: Heads) -> Term:
    assert heads.ideal is not None
    template = heads.template.picture
    share, fresh = head_terms.border(heads.still, template, [template, heads.ideal.picture])
    value = max(ramp(share, RAMPS["seam"]), FLOORS["seam"])
    sentence = f"{share:.0%} of the changed region's border has edges that no photograph has."
    return Term(value, sentence, lambda: np.clip(fresh / 8, 0, 1), {"border_share": share})


def _on_face(heads: Heads, amount: float) -> Field:
    return np.asarray(
        face_mask(heads.result.points, (FRAME, FRAME), 0.1) * amount, dtype=np.float32
    )
