"""The terms of a score, each with a value in [0, 1], a sentence, and a map of where it loses."""

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
from genlab.benchmark.scoring.faces import Face, Image, Points
from genlab.benchmark.scoring.geometry import (
    Field,
    Mask,
    compare_expression,
    grow_mask,
    resample,
)
from genlab.benchmark.scoring.head import Head, hair_likeness, measure_detail, measure_strain
from genlab.benchmark.scoring.identity import Identity

RED = np.array([230, 30, 30], dtype=np.float32)
RIM = 6  # pixels of the frame at a border in which two pictures mix
AROUND = 0.05  # area, relative to the face's, from which changed surroundings are compared too
OPACITY = 0.7  # of red where a term loses everything


@dataclass(frozen=True, eq=False)
class Term:
    """One term of a score.

    value: in [0, 1]; heat: computes where the term loses, (height, width) in [0, 1]; parts: the
    numbers that the value is computed from; picture: the scored picture, uint8 RGB; matrix: (2, 3)
    map from the picture to the heat's frame, None where the heat covers the whole picture; person:
    the avatar's name, "" for the whole picture; reference: whether it belongs to `score_reference`.
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
        """Return the values that are written to JSON."""
        names = ("term", "value", "sentence", "parts", "person", "reference")
        return {name: getattr(self, name) for name in names}

    @property
    def overlay(self) -> Image:
        """The picture in grey, and red where the term loses: (height, width, 3) uint8 RGB."""
        heat = self.heat().astype(np.float32)
        size = self.picture.shape[1::-1]
        lost = cv2.resize(heat, size) if self.matrix is None else resample(heat, self.matrix, size)
        grey = cv2.cvtColor(cv2.cvtColor(self.picture, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
        opacity = OPACITY * np.clip(lost, 0, 1)[..., None]
        return np.rint(opacity * RED + (1 - opacity) * grey).astype(np.uint8)


def geometric_mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Weighted geometric mean; the weights sum to 1."""
    return float(np.prod([values[name] ** weight for name, weight in weights.items()]))


def make_missing_term(picture: Image, face: Face, person: str, note: str) -> Term:
    """Make the term of a face that is missing or too small; red where the template has it."""
    heat = np.zeros(picture.shape[:2], dtype=np.float32)
    left, top, right, bottom = face.box
    heat[max(top, 0) : bottom, max(left, 0) : right] = 1
    sentence = f"{note[:1].upper()}{note[1:]}."
    return Term("face", 0.0, sentence, lambda: heat, {}, picture, person=person)


def make_background_term(
    picture: Image, background: BackgroundScore, *, reference: bool = False
) -> Term:
    """Make the background's term, relative to the template's or the ideal's."""
    sentence = (
        f"{background.everywhere:.0%} of the {'ideal' if reference else 'template'}'s background"
        f" is kept, {background.around:.0%} of it near the heads."
    )
    return Term(
        "background",
        background.score,
        sentence,
        lambda: background.lost,
        {},
        picture,
        reference=reference,
    )


@dataclass(frozen=True, eq=False)
class SwappedPerson:
    """What is measured of a swapped person; makes the terms of `score` or `score_reference`.

    person: the avatar's name; image: the scored picture; matrix: its map to the frame of `result`
    and `template`; template_clipped: the template's picture, clipped as the result's tone clips;
    result_aligned: the result's picture, aligned on it around the head; model: the head that is
    expected, either the avatar's, mapped onto the result's landmarks, or the ideal's; who: identity
    relative to the model; views: the avatar's picture and its mirror image, mapped as `model` and
    clipped as `template_clipped`; clipping: lowest and highest light beyond which the result's tone
    clipped edges; reference: whether the model is the ideal's.
    """

    person: str
    image: Image
    matrix: Points
    result: Head
    template: Head
    template_clipped: Field
    result_aligned: Field
    model: Head
    who: Identity
    views: Sequence[Field]
    clipping: tuple[float, float]
    reference: bool = False

    def terms(self) -> list[Term]:
        """Make the terms of `score`, or of `score_reference`."""
        terms = [self.identity(), self.expression()]
        if self.reference:
            return [*terms, self.covered(), self.detail(), self.seam()]
        return [*terms, self.head(), self.realism(), self.copied()]

    def identity(self) -> Term:
        """Whether the face is the avatar's, by distances of embeddings."""
        who = self.who
        target = "the ideal" if self.reference else "the avatar"
        sentence = (
            f"The face is {who.to_avatar:.2f} from {target} and {who.to_template:.2f} from the"
            " template's person (0.4 and less: the same person)."
        )
        parts = {
            "distance_to_avatar": who.to_avatar,
            "distance_to_template": who.to_template,
            "distance_between": who.avatar_to_template,
        }
        return self._make("identity", who.score, sentence, parts)

    def expression(self) -> Term:
        """Whether pose and expression are the template's, or the ideal's."""
        target, label = (self.model, "ideal") if self.reference else (self.template, "template")
        parts = compare_expression(self.result.face, target.face)
        value = parts.pop("score")
        worst = min(parts, key=lambda name: parts[name])
        sentence = f"Against the {label}, the {worst} differs most ({parts[worst]:.2f})."
        if parts[worst] > 0.9:
            sentence = f"Pose and expression are those of the {label}."
        return self._make("expression", value, sentence, parts)

    def head(self) -> Term:
        """Whether the template's hair and outline are gone and the hair is the avatar's."""
        hair_and_outline = grow_mask(self.template.mask, 4) & ~self.template.face_mask(0.1, 0.9)
        distance = structure_distance(self.template_clipped, self.result_aligned, hair_and_outline)
        hair = hair_likeness(self.result, self.model)
        gone = ramp("gone", distance)
        value = max(gone ** (1 - HAIR_WEIGHT) * ramp("hair", hair) ** HAIR_WEIGHT, FLOORS["head"])
        sentence = (
            f"{gone:.0%} of the template's hair and outline is gone; the hair's colours agree with"
            f" the avatar's by {hair:.0%}."
        )
        parts = {"old_hair_gone": distance, "hair_likeness": hair}

        def heat() -> Field:
            unchanged = 1 - difference_map(self.result_aligned, self.template_clipped)
            return unchanged * hair_and_outline

        return self._make("head", value, sentence, parts, heat)

    def realism(self) -> Term:
        """Whether the face looks like a photograph: no border, blur, noise or distortion."""
        border_share, new_edges = self._border()
        parts = {
            "seam": ramp("seam", border_share),
            "sharpness": self._sharpness(),
            "undistorted": self._undistorted(),
        }
        faults = {
            "seam": "a visible border",
            "sharpness": "blur or noise",
            "undistorted": "distortion",
        }
        worst = min(parts, key=lambda name: parts[name])
        sentence = f"The main fault is {faults[worst]} ({parts[worst]:.2f})."
        if parts[worst] > 0.9:
            sentence = "The face looks like a photograph."
        lost_on_face = max(1 - parts["sharpness"], 1 - parts["undistorted"])

        def heat() -> Field:
            return np.maximum(np.clip(new_edges / 8, 0, 1), self._on_face(lost_on_face))

        shape = {"shape_share": self.who.shape}
        value = geometric_mean(parts, REALISM_WEIGHTS)
        return self._make("realism", value, sentence, parts | shape, heat)

    def copied(self) -> Term:
        """Whether the face and its changed surroundings are more than the avatar's own pixels."""
        face = self.result.face_mask(0.0, 0.85)
        picture = self.result.picture
        replaced = find_replaced(
            self.result.face_mask(0.0), self.result_aligned, self.template_clipped
        )
        around = self.model.mask & grow_mask(replaced, -RIM)
        around &= ~grow_mask(self.result.face_mask(0.1), RIM)
        aligned = [align(view, picture, face, cv2.MOTION_AFFINE) for view in self.views]
        distance = min(structure_distance(view, picture, face) for view in aligned)
        parts = {"copied_distance": distance}
        value = ramp("copied", distance)
        if around.sum() > AROUND * face.sum():
            head = face | around
            aligned += [align(view, picture, head, cv2.MOTION_AFFINE) for view in self.views]
            likeness_around = max(likeness(view, picture, around) for view in aligned)
            parts["copied_likeness_around"] = likeness_around
            value = min(value, ramp("copied_around", likeness_around))
            value = max(value, FLOORS["copied"])
        sentence = (
            f"The face is the avatar's photograph, pasted or warped (distance {distance:.2f})."
        )
        if value > 0.9:
            sentence = "The face is not made of the avatar's pixels."
        return self._make("copied", value, sentence, parts)

    def covered(self) -> Term:
        """How much of the distance from the template's head to the ideal's is covered."""
        heads = self.template.mask | self.model.mask
        ideal = self.model.picture
        result = align(self.result.picture, ideal, grow_mask(heads, 20))
        before = picture_distance(self.template.picture, ideal, heads)
        covered = 1 - picture_distance(result, ideal, heads) / max(before, 1e-6)
        sentence = f"{max(covered, 0):.0%} of the distance from the template's head to the ideal's."

        def heat() -> Field:
            return difference_map(result, ideal) * heads

        parts = {"covered": covered}
        return self._make("head", ramp("covered", covered), sentence, parts, heat)

    def detail(self) -> Term:
        """Fine detail relative to the ideal's."""
        face = self.model.face_mask(0.1)
        ratio = measure_detail(self.result, face) / measure_detail(self.model, face)
        value = ramp("detail", ratio, min(1.0, 2.0 / ratio))
        sentence = f"The face has {ratio:.0%} of the ideal's fine detail."
        return self._make("detail", value, sentence, {"detail_ratio": ratio})

    def seam(self) -> Term:
        """Whether the changed region has no visible border."""
        share, new_edges = self._border()
        sentence = f"{share:.0%} of the changed region's border has edges that no photograph has."
        parts = {"border_share": share}

        def heat() -> Field:
            return np.clip(new_edges / 8, 0, 1)

        return self._make("seam", ramp("seam", share), sentence, parts, heat)

    def _border(self) -> tuple[float, Field]:
        photographs = [self.template_clipped, self.model.picture]
        return measure_border(self.result_aligned, self._changed, photographs, self.clipping)

    @cached_property
    def _changed(self) -> Mask:
        face = self.result.face_mask(0.0)
        return find_changed(face, self.result_aligned, self.template_clipped)

    def _sharpness(self) -> float:
        """Fine detail of the face relative to the softer of template and model.

        Much more detail than in the sharper of the two is noise, and lowers the value again.
        """
        face = self.result.face_mask(0.0)
        detail = measure_detail(self.result, face)
        expected = [measure_detail(head, face) for head in (self.template, self.model)]
        noise_factor = min(1.0, NOISE_DETAIL * max(expected) / detail)
        return ramp("sharpness", detail / min(expected), noise_factor)

    def _undistorted(self) -> float:
        """1 for a face without distortion, less where the avatar's own pixels were strained.

        A face that is not made of the avatar's pixels counts as undistorted: its shape alone does
        not show that it was warped.
        """
        strain, correlation = measure_strain(self.result, self.model)
        if correlation < SAME_PIXELS:
            return 1.0
        total = ramp("shape", self.who.shape) + ramp("strain", strain)
        return max(total / 2, FLOORS["undistorted"])

    def _make(
        self,
        name: str,
        value: float,
        sentence: str,
        parts: Mapping[str, float],
        heat: Callable[[], Field] | None = None,
    ) -> Term:
        """Make a term of this person; heat: the whole face where None."""
        heat = heat or (lambda: self._on_face(1 - value))
        frame = (self.image, self.matrix, self.person, self.reference)
        return Term(name, value, sentence, heat, parts, *frame)

    def _on_face(self, amount: float) -> Field:
        return self.result.face_mask(0.1) * amount
