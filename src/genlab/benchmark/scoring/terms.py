"""The terms of one swap: each a value in [0, 1], one sentence, and where it loses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np

from genlab.benchmark.scoring import head as head_terms
from genlab.benchmark.scoring.background import Kept
from genlab.benchmark.scoring.constants import FLOORS, HAIR, RAMPS, REALISM_WEIGHTS, ramp
from genlab.benchmark.scoring.faces import Face, Image, Points
from genlab.benchmark.scoring.geometry import expression, face_mask
from genlab.benchmark.scoring.head import (
    Heads,
    aligned,
    detail,
    difference_map,
    distance,
    realism,
    rim,
)
from genlab.benchmark.scoring.identity import Identity
from genlab.benchmark.scoring.masks import FRAME, Field, grown

RED = np.array([230, 30, 30], dtype=np.float32)
STRENGTH = 0.7  # opacity where a term loses everything


@dataclass(frozen=True, eq=False)
class Term:
    """One term of a score.

    value in [0, 1]; heat returns (height, width) in [0, 1]: where it loses; parts: what it was
    measured from; picture: uint8 RGB, the scored one; matrix: (2, 3) map from it to the heat's
    frame, None where the heat covers the picture; person: the avatar's name, "" for the whole
    picture; reference: whether it is a term of `score_reference`.
    """

    term: str
    value: float
    sentence: str
    heat: Callable[[], Field]
    parts: Mapping[str, float]
    picture: Image
    matrix: Points | None = None
    person: str = ""
    reference: bool = False

    @property
    def overlay(self) -> Image:
        """(height, width, 3) uint8 RGB: the picture in grey, red where the term loses."""
        heat, size = self.heat().astype(np.float32), self.picture.shape[1::-1]
        if self.matrix is None:
            heat = np.asarray(cv2.resize(heat, size))
        else:
            flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
            heat = np.asarray(cv2.warpAffine(heat, self.matrix, size, flags=flags))
        grey = cv2.cvtColor(cv2.cvtColor(self.picture, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
        share = STRENGTH * np.clip(heat, 0, 1)[..., None]
        return np.asarray(np.rint(share * RED + (1 - share) * grey), dtype=np.uint8)


Make = Callable[..., Term]
"""`Term` with picture, matrix, person and reference filled in."""


def geometric_mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Weighted geometric mean; the weights sum to 1."""
    return float(np.prod([values[name] ** weight for name, weight in weights.items()]))


def person_terms(
    person: str, heads: Heads, who: Identity, result: Face, template: Face
) -> dict[str, Term]:
    """Terms of `score`, without a reference."""
    make = partial(Term, picture=heads.image, matrix=heads.matrix, person=person)
    terms = (
        _identity(make, heads, who, "the avatar"),
        _head(make, heads),
        _realism(make, heads, who),
        _expression(make, heads, result, template, "the template"),
        _copied(make, heads),
    )
    return {term.term: term for term in terms}


def reference_terms(
    person: str, heads: Heads, who: Identity, result: Face, ideal: Face
) -> dict[str, Term]:
    """Terms of `score_reference`, against the ideal; `who` is measured against the ideal's face."""
    make = partial(Term, picture=heads.image, matrix=heads.matrix, person=person, reference=True)
    terms = (
        _identity(make, heads, who, "the ideal"),
        _covered(make, heads),
        _expression(make, heads, result, ideal, "the ideal"),
        _detail(make, heads),
        _seam(make, heads),
    )
    return {term.term: term for term in terms}


def missing_term(picture: Image, face: Face, person: str, note: str) -> Term:
    """The term of a face that is not there or too small; red where the template has it."""
    heat = np.zeros(picture.shape[:2], dtype=np.float32)
    left, top, right, bottom = face.box
    heat[max(top, 0) : bottom, max(left, 0) : right] = 1
    sentence = f"{note[:1].upper()}{note[1:]}."
    return Term("face", 0.0, sentence, lambda: heat, {}, picture, person=person)


def background_term(picture: Image, kept: Kept, whose: str) -> Term:
    """The background, against the template's or the ideal's."""
    sentence = (
        f"{kept.everywhere:.0%} of the {whose}'s background is kept, {kept.around:.0%} of it near"
        " the heads."
    )
    return Term(
        "background", kept.score, sentence, lambda: kept.lost, {}, picture,
        reference=whose == "ideal",
    )  # fmt: skip


def _identity(make: Make, heads: Heads, who: Identity, whom: str) -> Term:
    sentence = (
        f"The face is {who.to_avatar:.2f} from {whom} and {who.to_template:.2f} from the"
        " template's person (0.4 and less: the same person)."
    )
    parts = {
        "distance_to_avatar": who.to_avatar,
        "distance_to_template": who.to_template,
        "distance_between": who.apart,
    }
    return make("identity", who.score, sentence, lambda: _on_face(heads, 1 - who.score), parts)


def _head(make: Make, heads: Heads) -> Term:
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

    return make("head", value, sentence, heat, {"old_hair_gone": gone, "hair_likeness": hair})


def _realism(make: Make, heads: Heads, who: Identity) -> Term:
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
    return make(
        "realism",
        value,
        sentence,
        lambda: np.maximum(np.clip(fresh / 8, 0, 1), _on_face(heads, lost)),
        {**parts, "shape_share": who.shape},
    )


def _expression(make: Make, heads: Heads, result: Face, other: Face, whose: str) -> Term:
    parts = expression(result, other)
    value = parts.pop("score")
    worst = min(parts, key=lambda name: parts[name])
    sentence = (
        f"Pose and expression are those of {whose}."
        if parts[worst] > 0.9
        else f"Against {whose}, the {worst} differs most ({parts[worst]:.2f})."
    )
    return make("expression", value, sentence, lambda: _on_face(heads, 1 - value), parts)


def _copied(make: Make, heads: Heads) -> Term:
    away = head_terms.copied(heads)
    value = max(ramp(away, RAMPS["copied"]), FLOORS["copied"])
    sentence = (
        "The face is not made of the avatar's pixels."
        if value > 0.9
        else f"The face is the avatar's photograph, pasted or warped (distance {away:.2f})."
    )
    return make(
        "copied", value, sentence, lambda: _on_face(heads, 1 - value), {"copied_distance": away}
    )


def _covered(make: Make, heads: Heads) -> Term:
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

    return make("head", value, sentence, heat, {"covered": covered})


def _detail(make: Make, heads: Heads) -> Term:
    assert heads.ideal is not None
    inside = face_mask(heads.ideal.points, (FRAME, FRAME), 0.1)
    ratio = detail(heads.result.picture, inside) / detail(heads.ideal.picture, inside)
    harsh = min(1.0, 2.0 / ratio)
    value = max(ramp(ratio, RAMPS["detail"]) * harsh, FLOORS["detail"])
    sentence = f"The face has {ratio:.0%} of the ideal's fine detail."
    return make(
        "detail", value, sentence, lambda: _on_face(heads, 1 - value), {"detail_ratio": ratio}
    )


def _seam(make: Make, heads: Heads) -> Term:
    assert heads.ideal is not None
    template = heads.template.picture
    share, fresh = head_terms.border(heads.still, template, [template, heads.ideal.picture])
    value = max(ramp(share, RAMPS["seam"]), FLOORS["seam"])
    sentence = f"{share:.0%} of the changed region's border has edges that no photograph has."
    return make("seam", value, sentence, lambda: np.clip(fresh / 8, 0, 1), {"border_share": share})


def _on_face(heads: Heads, amount: float) -> Field:
    return np.asarray(
        face_mask(heads.result.points, (FRAME, FRAME), 0.1) * amount, dtype=np.float32
    )
