"""The terms of one swap: each a value in [0, 1], one sentence, and where it loses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from genlab.benchmark.scoring import head
from genlab.benchmark.scoring.background import Kept
from genlab.benchmark.scoring.constants import FLOORS, HAIR, RAMPS, REALISM_WEIGHTS, ramp
from genlab.benchmark.scoring.faces import Face, Image, Points
from genlab.benchmark.scoring.geometry import Field, expression, face_mask, grown, sample
from genlab.benchmark.scoring.head import Heads, aligned, detail, difference_map, distance
from genlab.benchmark.scoring.identity import Identity
from genlab.benchmark.scoring.masks import FRAME

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

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        names = ("term", "value", "sentence", "parts", "person", "reference")
        return {name: getattr(self, name) for name in names}

    @property
    def overlay(self) -> Image:
        """(height, width, 3) uint8 RGB: the picture in grey, red where the term loses."""
        heat, size = self.heat().astype(np.float32), self.picture.shape[1::-1]
        laid = cv2.resize(heat, size) if self.matrix is None else sample(heat, self.matrix, size)
        grey = cv2.cvtColor(cv2.cvtColor(self.picture, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
        share = STRENGTH * np.clip(laid, 0, 1)[..., None]
        return np.rint(share * RED + (1 - share) * grey).astype(np.uint8)


def geometric_mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Weighted geometric mean; the weights sum to 1."""
    return float(np.prod([values[name] ** weight for name, weight in weights.items()]))


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
    reference = whose == "ideal"
    return Term(
        "background", kept.score, sentence, lambda: kept.lost, {}, picture, reference=reference
    )


@dataclass(frozen=True, eq=False)
class Measured:
    """A swapped person, from which the terms of one of both scores are made.

    person: the avatar's name; who: identity against the avatar, or against the ideal; face: that
    of the result; other: the face whose pose and expression it should have, the template's or the
    ideal's; reference: whether it is measured against the ideal.
    """

    person: str
    heads: Heads
    who: Identity
    face: Face
    other: Face
    reference: bool = False

    def terms(self) -> list[Term]:
        """The terms of `score`, or of `score_reference`."""
        own = (self.head, self.realism, self.copied)
        if self.reference:
            own = (self.covered, self.detail, self.seam)
        return [make() for make in (self.identity, self.expression, *own)]

    def identity(self) -> Term:
        """Distance of embeddings."""
        who, whom = self.who, "the ideal" if self.reference else "the avatar"
        sentence = (
            f"The face is {who.to_avatar:.2f} from {whom} and {who.to_template:.2f} from the"
            " template's person (0.4 and less: the same person)."
        )
        parts = {
            "distance_to_avatar": who.to_avatar,
            "distance_to_template": who.to_template,
            "distance_between": who.apart,
        }
        return self._make("identity", who.score, sentence, parts)

    def expression(self) -> Term:
        """Pose and expression."""
        whose = "the ideal" if self.reference else "the template"
        parts = expression(self.face, self.other)
        value = parts.pop("score")
        worst = min(parts, key=lambda name: parts[name])
        sentence = f"Against {whose}, the {worst} differs most ({parts[worst]:.2f})."
        if parts[worst] > 0.9:
            sentence = f"Pose and expression are those of {whose}."
        return self._make("expression", value, sentence, parts)

    def head(self) -> Term:
        """The template's hair and outline gone, the avatar's hair there."""
        still, template = self.heads.still, self.heads.template
        where = head.rim(template)
        gone = distance(still, template.picture, where)
        hair = head.hair_likeness(self.heads.result, self.heads.avatar)
        new, like = ramp(gone, RAMPS["gone"]), max(ramp(hair, RAMPS["hair"]), FLOORS["hair"])
        value = max(new ** (1 - HAIR) * like**HAIR, FLOORS["head"])
        sentence = (
            f"{new:.0%} of the template's hair and outline is gone; the hair's colours agree with"
            f" the avatar's by {hair:.0%}."
        )
        parts = {"old_hair_gone": gone, "hair_likeness": hair}

        def heat() -> Field:
            return (1 - difference_map(still, template.picture)) * where

        return self._make("head", value, sentence, parts, heat)

    def realism(self) -> Term:
        """A photograph without border, blur, noise or distortion."""
        parts, fresh = head.realism(self.heads, self.who)
        names = {
            "seam": "a visible border",
            "sharpness": "blur or noise",
            "undistorted": "distortion",
        }
        worst = min(parts, key=lambda name: parts[name])
        sentence = f"The main fault is {names[worst]} ({parts[worst]:.2f})."
        if parts[worst] > 0.9:
            sentence = "The face looks like a photograph."
        value = geometric_mean(parts, REALISM_WEIGHTS)
        lost = max(1 - parts["sharpness"], 1 - parts["undistorted"])

        def heat() -> Field:
            return np.maximum(np.clip(fresh / 8, 0, 1), self._on_face(lost))

        parts = {**parts, "shape_share": self.who.shape}
        return self._make("realism", value, sentence, parts, heat)

    def copied(self) -> Term:
        """Not made of the avatar's pixels."""
        away = head.copied(self.heads)
        value = max(ramp(away, RAMPS["copied"]), FLOORS["copied"])
        sentence = f"The face is the avatar's photograph, pasted or warped (distance {away:.2f})."
        if value > 0.9:
            sentence = "The face is not made of the avatar's pixels."
        return self._make("copied", value, sentence, {"copied_distance": away})

    def covered(self) -> Term:
        """The share of the distance from the template's head to the ideal's."""
        ideal, template = self.heads.known_ideal, self.heads.template
        where = template.mask | ideal.mask
        near = aligned(self.heads.result.picture, ideal.picture, grown(where, 20))
        before = distance(template.picture, ideal.picture, where)
        covered = 1 - distance(near, ideal.picture, where) / max(before, 1e-6)
        value = max(ramp(covered, RAMPS["covered"]), FLOORS["covered"])
        sentence = f"{max(covered, 0):.0%} of the distance from the template's head to the ideal's."

        def heat() -> Field:
            return difference_map(near, ideal.picture) * where

        return self._make("head", value, sentence, {"covered": covered}, heat)

    def detail(self) -> Term:
        """Fine detail against the ideal's."""
        ideal = self.heads.known_ideal
        inside = face_mask(ideal.points, (FRAME, FRAME), 0.1)
        ratio = detail(self.heads.result.picture, inside) / detail(ideal.picture, inside)
        value = max(ramp(ratio, RAMPS["detail"]) * min(1.0, 2.0 / ratio), FLOORS["detail"])
        sentence = f"The face has {ratio:.0%} of the ideal's fine detail."
        return self._make("detail", value, sentence, {"detail_ratio": ratio})

    def seam(self) -> Term:
        """No border around what was changed."""
        template = self.heads.template.picture
        known = [template, self.heads.known_ideal.picture]
        share, fresh = head.border(self.heads.still, template, known)
        value = max(ramp(share, RAMPS["seam"]), FLOORS["seam"])
        sentence = f"{share:.0%} of the changed region's border has edges that no photograph has."
        parts = {"border_share": share}
        return self._make("seam", value, sentence, parts, lambda: np.clip(fresh / 8, 0, 1))

    def _make(
        self,
        name: str,
        value: float,
        sentence: str,
        parts: Mapping[str, float],
        heat: Callable[[], Field] | None = None,
    ) -> Term:
        """A term; heat: the whole face where None."""
        heat = heat or (lambda: self._on_face(1 - value))
        frame = (self.heads.image, self.heads.matrix, self.person, self.reference)
        return Term(name, value, sentence, heat, parts, *frame)

    def _on_face(self, amount: float) -> Field:
        return face_mask(self.heads.result.points, (FRAME, FRAME), 0.1) * amount
