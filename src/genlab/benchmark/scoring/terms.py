"""The terms of one swap: each a value in [0, 1], one sentence, and where it loses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cv2
import numpy as np

from genlab.benchmark.scoring.background import BackgroundScore
from genlab.benchmark.scoring.comparison import (
    align,
    difference_map,
    find_changed,
    find_replaced,
    likeness,
    measure_border,
    picture_distance,
    structure_distance,
)
from genlab.benchmark.scoring.constants import (
    FLOORS,
    HAIR_WEIGHT,
    NOISE_DETAIL,
    REALISM_WEIGHTS,
    SAME_PIXELS,
    ramp,
)
from genlab.benchmark.scoring.faces import Face, Image, Points, identity_distance
from genlab.benchmark.scoring.geometry import (
    Field,
    Mask,
    compare_expression,
    grow_mask,
    resample,
    shape_share,
)
from genlab.benchmark.scoring.head import Head, hair_likeness, measure_detail, measure_strain

RED = np.array([230, 30, 30], dtype=np.float32)
RIM = 6  # pixels of the frame at a border in which two pictures mix
AROUND = 0.05  # share of the face from which what was changed around it counts
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
        laid = cv2.resize(heat, size) if self.matrix is None else resample(heat, self.matrix, size)
        grey = cv2.cvtColor(cv2.cvtColor(self.picture, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
        share = STRENGTH * np.clip(laid, 0, 1)[..., None]
        return np.rint(share * RED + (1 - share) * grey).astype(np.uint8)


def geometric_mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Weighted geometric mean; the weights sum to 1."""
    return float(np.prod([values[name] ** weight for name, weight in weights.items()]))


def make_missing_term(picture: Image, face: Face, person: str, note: str) -> Term:
    """The term of a face that is not there or too small; red where the template has it."""
    heat = np.zeros(picture.shape[:2], dtype=np.float32)
    left, top, right, bottom = face.box
    heat[max(top, 0) : bottom, max(left, 0) : right] = 1
    sentence = f"{note[:1].upper()}{note[1:]}."
    return Term("face", 0.0, sentence, lambda: heat, {}, picture, person=person)


def make_background_term(picture: Image, kept: BackgroundScore, *, reference: bool = False) -> Term:
    """The background, against the template's or the ideal's."""
    sentence = (
        f"{kept.everywhere:.0%} of the {'ideal' if reference else 'template'}'s background is kept,"
        f" {kept.around:.0%} of it near the heads."
    )
    return Term(
        "background", kept.score, sentence, lambda: kept.lost, {}, picture, reference=reference
    )


@dataclass(frozen=True)
class Identity:
    """Of one person. score in [0, 1]; distances of embeddings; shape: see `shape_share`."""

    score: float
    to_avatar: float
    to_template: float
    apart: float  # template's person to avatar: what there was to gain
    shape: float

    @classmethod
    def measure(cls, result: Face, template: Face, views: Sequence[Face]) -> Identity:
        """How far the person in the template has become the avatar's.

        The minimum of two values: one of the distance to the avatar, one of the share of the
        distance from the template's person that is covered. The second is exactly 0 for the
        untouched template; the first is 0 for a third person. Where both are 0, a small gain still
        scores slightly above 0, so that bad and worse results do not tie.

        views: the avatar's face, and the same in a mirror; the nearer counts.
        """
        to_avatar = min(identity_distance(result, view) for view in views)
        apart = min(identity_distance(template, view) for view in views)
        gain = 1.0 - to_avatar / max(apart, 1e-9)
        full = min(ramp("identity_distance", to_avatar), ramp("identity_gain", gain))
        score = max(full, FLOORS["trace"] * ramp("trace_gain", gain))
        known = [view.landmarks for view in views]
        shape = shape_share(result.landmarks, template.landmarks, known)
        return cls(score, to_avatar, identity_distance(result, template), apart, shape)


@dataclass(frozen=True, eq=False)
class SwappedPerson:
    """A swapped person, from which the terms of one of both scores are made.

    person: the avatar's name; image: the scored picture, matrix: its map to the frame of `result`
    and `template`; toned: the template's picture with what the result's tone lost; still: the
    result's picture, aligned on it around the head; model: the head that is wanted, the avatar's
    laid over the result's landmarks, or the ideal's; who: identity against the model; views: the
    avatar's picture and its mirror, laid as `model`, with the same loss as `toned`; cut: light
    at and beyond which the result's tone cut off edges; reference: whether the model is the
    ideal's.
    """

    person: str
    image: Image
    matrix: Points
    result: Head
    template: Head
    toned: Field
    still: Field
    model: Head
    who: Identity
    views: Sequence[Field]
    cut: tuple[float, float]
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
        whose, other = "the template", self.template
        if self.reference:
            whose, other = "the ideal", self.model
        parts = compare_expression(self.result.face, other.face)
        value = parts.pop("score")
        worst = min(parts, key=lambda name: parts[name])
        sentence = f"Against {whose}, the {worst} differs most ({parts[worst]:.2f})."
        if parts[worst] > 0.9:
            sentence = f"Pose and expression are those of {whose}."
        return self._make("expression", value, sentence, parts)

    def head(self) -> Term:
        """The template's hair and outline gone, the avatar's hair there."""
        template = self.template
        where = grow_mask(template.mask, 4) & ~template.face_mask(
            0.1, 0.9
        )  # hair, ears and outline
        gone = structure_distance(self.toned, self.still, where)
        hair = hair_likeness(self.result, self.model)
        new = ramp("gone", gone)
        value = max(new ** (1 - HAIR_WEIGHT) * ramp("hair", hair) ** HAIR_WEIGHT, FLOORS["head"])
        sentence = (
            f"{new:.0%} of the template's hair and outline is gone; the hair's colours agree with"
            f" the avatar's by {hair:.0%}."
        )
        parts = {"old_hair_gone": gone, "hair_likeness": hair}

        def heat() -> Field:
            return (1 - difference_map(self.still, self.toned)) * where

        return self._make("head", value, sentence, parts, heat)

    def realism(self) -> Term:
        """A photograph without border, blur, noise or distortion."""
        share, fresh = self._border()
        parts = {
            "seam": ramp("seam", share),
            "sharpness": self._sharpness(),
            "undistorted": self._undistorted(),
        }
        names = {
            "seam": "a visible border",
            "sharpness": "blur or noise",
            "undistorted": "distortion",
        }
        worst = min(parts, key=lambda name: parts[name])
        sentence = f"The main fault is {names[worst]} ({parts[worst]:.2f})."
        if parts[worst] > 0.9:
            sentence = "The face looks like a photograph."
        lost = max(1 - parts["sharpness"], 1 - parts["undistorted"])

        def heat() -> Field:
            return np.maximum(np.clip(fresh / 8, 0, 1), self._on_face(lost))

        shape = {"shape_share": self.who.shape}
        value = geometric_mean(parts, REALISM_WEIGHTS)
        return self._make("realism", value, sentence, parts | shape, heat)

    def copied(self) -> Term:
        """Not made of the avatar's pixels, neither the face nor what was changed around it."""
        inside, own = self.result.face_mask(0.0, 0.85), self.result.picture
        replaced = find_replaced(self.result.face_mask(0.0), self.still, self.toned)
        beyond = self.model.mask & grow_mask(replaced, -RIM)
        around = beyond & ~grow_mask(self.result.face_mask(0.1), RIM)
        best = [align(view, own, inside, cv2.MOTION_AFFINE) for view in self.views]
        away = min(structure_distance(view, own, inside) for view in best)
        parts = {"copied_distance": away}
        value = ramp("copied", away)
        if around.sum() > AROUND * inside.sum():
            both = inside | around
            best += [align(view, own, both, cv2.MOTION_AFFINE) for view in self.views]
            beside = max(likeness(view, own, around) for view in best)
            parts["copied_likeness_around"] = beside
            value = min(value, ramp("copied_around", beside))
            value = max(value, FLOORS["copied"])
        sentence = f"The face is the avatar's photograph, pasted or warped (distance {away:.2f})."
        if value > 0.9:
            sentence = "The face is not made of the avatar's pixels."
        return self._make("copied", value, sentence, parts)

    def covered(self) -> Term:
        """The share of the distance from the template's head to the ideal's."""
        where, ideal = self.template.mask | self.model.mask, self.model.picture
        near = align(self.result.picture, ideal, grow_mask(where, 20))
        before = picture_distance(self.template.picture, ideal, where)
        covered = 1 - picture_distance(near, ideal, where) / max(before, 1e-6)
        sentence = f"{max(covered, 0):.0%} of the distance from the template's head to the ideal's."

        def heat() -> Field:
            return difference_map(near, ideal) * where

        parts = {"covered": covered}
        return self._make("head", ramp("covered", covered), sentence, parts, heat)

    def detail(self) -> Term:
        """Fine detail against the ideal's."""
        inside = self.model.face_mask(0.1)
        ratio = measure_detail(self.result, inside) / measure_detail(self.model, inside)
        value = ramp("detail", ratio, min(1.0, 2.0 / ratio))
        sentence = f"The face has {ratio:.0%} of the ideal's fine detail."
        return self._make("detail", value, sentence, {"detail_ratio": ratio})

    def seam(self) -> Term:
        """No border around what was changed."""
        share, fresh = self._border()
        sentence = f"{share:.0%} of the changed region's border has edges that no photograph has."
        parts = {"border_share": share}

        def heat() -> Field:
            return np.clip(fresh / 8, 0, 1)

        return self._make("seam", ramp("seam", share), sentence, parts, heat)

    def _border(self) -> tuple[float, Field]:
        known = [self.toned, self.model.picture]
        return measure_border(self.still, self._changed, known, self.cut)

    @cached_property
    def _changed(self) -> Mask:
        return find_changed(self.result.face_mask(0.0), self.still, self.toned)

    def _sharpness(self) -> float:
        """Fine detail of the face against the softer of template and avatar.

        Much more than the harsher of the two is noise and costs as well.
        """
        inside = self.result.face_mask(0.0)
        got, *known = (
            measure_detail(head, inside) for head in (self.result, self.template, self.model)
        )
        return ramp("sharpness", got / min(known), min(1.0, NOISE_DETAIL * max(known) / got))

    def _undistorted(self) -> float:
        """1 for a face that was not warped, less where the avatar's own pixels were strained.

        A face of other pixels than the avatar's counts as undistorted: its shape alone does not
        show a warp.
        """
        stretch, likeness = measure_strain(self.result, self.model)
        if likeness < SAME_PIXELS:
            return 1.0
        both = ramp("shape", self.who.shape) + ramp("strain", stretch)
        return max(both / 2, FLOORS["undistorted"])

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
        frame = (self.image, self.matrix, self.person, self.reference)
        return Term(name, value, sentence, heat, parts, *frame)

    def _on_face(self, amount: float) -> Field:
        return self.result.face_mask(0.1) * amount
