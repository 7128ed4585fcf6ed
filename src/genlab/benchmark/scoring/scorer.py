"""Two scores of a person swap, never pooled: without a reference, and against the ideal result.

    score           = faces · identity^.25 · head^.20 · realism^.20 · expression^.05
                      · background^.10 · copied^.20
    score_reference = faces · identity^.25 · head^.35 · expression^.10 · detail^.15 · seam^.05
                      · background^.10

Each term is in [0, 1]. Where several persons are swapped, a term is the mean over them: a missing
face counts 0, a face too small to measure is left out. A picture that cannot be scored has an
outcome and no number: invalid is not zero. Weights are pinned (`versions`), constants are frozen
(`constants`).

The task is to replace the person: hair, head shape, face and ears. Pose, expression, light, clothes
and surroundings are the template's.

Not measured: hands and glasses in front of a face, teeth, hair below the chin, whether a limb makes
sense. A person in profile has an outcome and no score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from genlab.benchmark.scoring import faces, masks, pictures
from genlab.benchmark.scoring.background import Kept, background
from genlab.benchmark.scoring.constants import DIGEST, REFERENCE_WEIGHTS, VERSION, WEIGHTS
from genlab.benchmark.scoring.faces import Box, Face, Image
from genlab.benchmark.scoring.head import Heads, heads
from genlab.benchmark.scoring.identity import identity
from genlab.benchmark.scoring.pictures import Outcome, Unfit, Views
from genlab.benchmark.scoring.terms import Term, geometric_mean, person_terms, reference_terms

COMPONENTS = (*WEIGHTS, "faces")
REFERENCE_COMPONENTS = (*REFERENCE_WEIGHTS, "faces")
TINY = 14.0  # pixels between the eyes below which an embedding says nothing
TURNED, UNSURE, ALIKE = 0.85, 0.15, 0.45  # turn, spread and distance that are worth a note


@dataclass(frozen=True)
class Score:
    """The score of a picture; scores and components are None where `outcome` is not `scored`.

    score: without a reference; score_reference: against the ideal, None where there is none;
    persons: per swap its terms and what they were measured from; notes: what to know about the
    numbers; versions: of weights, libraries and constants.
    """

    outcome: Outcome
    score: float | None = None
    score_reference: float | None = None
    components: dict[str, float | None] = field(
        default_factory=lambda: dict.fromkeys(COMPONENTS, None)
    )
    components_reference: dict[str, float | None] = field(
        default_factory=lambda: dict.fromkeys(REFERENCE_COMPONENTS, None)
    )
    persons: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Person:
    """One swap of a picture: its avatar, and its terms where its face can be measured.

    terms: None where the face is missing or too small, which `outcome` says; reference: empty
    without an ideal.
    """

    avatar: str
    outcome: Outcome
    note: str = ""
    terms: Mapping[str, Term] | None = None
    reference: Mapping[str, Term] = field(default_factory=dict)
    heads: Heads | None = None
    nearest: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Measured:
    """All that is measured of a picture, from which scores and overlays are made."""

    picture: Image
    persons: list[Person]
    background: Kept
    background_reference: Kept | None
    faces: float
    notes: list[str]


def score(
    template: Path,
    avatars: Mapping[str, Path],
    swaps: Sequence[Mapping[str, Any]],
    image: Path,
    ideal: Path | None = None,
) -> Score:
    """Score the picture `image` as a swap in `template`; plain arguments, fit for a process pool.

    avatars: name to picture; swaps: `{"region": {left, top, width, height}, "avatar": name}`, in
    pixels of the upright template; ideal: the ideal result of a ground-truth case. The same files
    give the same score.
    """
    try:
        found = measure(template, avatars, swaps, image, ideal)
    except Unfit as unfit:
        return Score(unfit.outcome, notes=[unfit.note], versions=versions())
    components = {
        name: found.faces
        if name == "faces"
        else found.background.score
        if name == "background"
        else _mean(found.persons, name, reference=False)
        for name in COMPONENTS
    }
    against: dict[str, float | None] = dict.fromkeys(REFERENCE_COMPONENTS, None)
    if found.background_reference is not None:
        against |= {
            name: _mean(found.persons, name, reference=True)
            for name in REFERENCE_WEIGHTS
            if name != "background"
        }
        against |= {"background": found.background_reference.score, "faces": found.faces}
    return Score(
        "scored",
        _total(components, WEIGHTS),
        _total(against, REFERENCE_WEIGHTS) if found.background_reference is not None else None,
        dict(components),
        against,
        [_described(person) for person in found.persons],
        found.notes,
        versions(),
    )


def versions() -> dict[str, str]:
    """Versions of all that a score rests on."""
    return {
        "constants": VERSION,
        "constants_digest": DIGEST,
        "selfie_segmentation": masks.SHA256,
        **faces.versions(),
    }


def measure(
    template: Path,
    avatars: Mapping[str, Path],
    swaps: Sequence[Mapping[str, Any]],
    image: Path,
    ideal: Path | None = None,
) -> Measured:
    """Measure a picture. Raises `Unfit` where it cannot be scored."""
    before, scale = pictures.template(template)
    after, notes = pictures.result(image, before)
    regions = tuple(_box(swap["region"], scale) for swap in swaps)
    people = pictures.people(template, regions)
    shown = {str(swap["avatar"]): pictures.avatar(avatars[swap["avatar"]]) for swap in swaps}
    results = faces.near(after, regions)
    if all(face is None for face in results):
        raise Unfit("no_face", "no face is found where persons were to be swapped")
    largest = max(face.eyes for face in results if face is not None)
    if largest < TINY:
        raise Unfit("tiny_face", f"the eyes are {largest:.1f} pixels apart; {TINY:.0f} needed")
    aims = (
        [None] * len(people) if ideal is None else pictures.ideal_people(ideal, template, regions)
    )
    persons = [
        _person(
            (after, result),
            (before, person),
            shown,
            str(swap["avatar"]),
            None if aim is None or ideal is None else (pictures.ideal(ideal, template), aim),
        )
        for swap, person, result, aim in zip(swaps, people, results, aims, strict=True)
    ]
    around = background(before, after, people)
    kept, note = _faces_kept(before, after, people, results)
    notes += note + [text for person in persons for text in person.notes]
    if around.shift > 0.5:
        notes.append(f"the picture is shifted by {around.shift:.1f} pixels; aligned")
    against = None
    if ideal is not None:
        against = background(pictures.ideal(ideal, template), after, people, around.matrix)
    return Measured(after, persons, around, against, kept, notes)


def _person(
    after: tuple[Image, Face | None],
    before: tuple[Image, Face],
    shown: Mapping[str, Views],
    name: str,
    ideal: tuple[Image, Face] | None,
) -> Person:
    image, result = after
    if result is None:
        note = f"no face is found where {name} should be"
        return Person(name, "no_face", note, notes=[note])
    if result.eyes < TINY:
        note = f"{name}: the eyes are {result.eyes:.1f} pixels apart, {TINY:.0f} needed; left out"
        return Person(name, "tiny_face", note, notes=[note])
    avatar = _view(shown[name], result)
    who = identity(result, before[1], [face for _, face in shown[name]])
    framed = heads((image, result), before, avatar, ideal)
    reference: dict[str, Term] = {}
    if ideal is not None:
        to_ideal = identity(result, before[1], [ideal[1]])
        reference = reference_terms(framed, to_ideal, result, ideal[1])
    nearest = min(shown, key=lambda other: _distance(result, shown[other]))
    notes = _person_notes(result, who.apart, who.score, name, nearest)
    terms = person_terms(framed, who, result, before[1])
    return Person(name, "scored", "", terms, reference, framed, nearest, notes)


def _described(person: Person) -> dict[str, Any]:
    """A person's terms as plain values, with the sentence of each."""
    terms, reference = person.terms or {}, person.reference
    absent = 0.0 if person.outcome == "no_face" else None
    names = [name for name in WEIGHTS if name != "background"]
    return {
        "avatar": person.avatar,
        "outcome": person.outcome,
        **{name: terms[name].value if name in terms else absent for name in names},
        "reference": {name: term.value for name, term in reference.items()},
        "nearest_avatar": person.nearest or None,
        "parts": {key: value for term in terms.values() for key, value in term.parts.items()},
        "sentences": {name: term.sentence for name, term in terms.items()},
        "notes": list(person.notes),
    }


def _mean(persons: Sequence[Person], name: str, *, reference: bool) -> float:
    """Mean of a term over the persons: a missing face counts 0, a tiny one is left out."""
    values = []
    for person in persons:
        terms = person.reference if reference else person.terms
        if terms:
            values.append(terms[name].value)
        elif person.outcome == "no_face":
            values.append(0.0)
    return float(np.mean(values))


def _total(components: Mapping[str, float | None], weights: Mapping[str, float]) -> float:
    values = {name: value or 0.0 for name, value in components.items()}
    return values["faces"] * geometric_mean(values, weights)


def _view(views: Views, result: Face) -> tuple[Image, Face]:
    """The avatar as it is or mirrored, whichever the result is nearer to."""
    return min(views, key=lambda view: faces.identity_distance(result, view[1]))


def _distance(result: Face, views: Views) -> float:
    return faces.identity_distance(result, _view(views, result)[1])


def _person_notes(result: Face, apart: float, value: float, name: str, nearest: str) -> list[str]:
    notes = []
    if result.turn > TURNED:
        notes.append(f"{name}: the face is turned far; its landmarks are unsure")
    if result.spread > UNSURE:
        notes.append(f"{name}: the landmarks are unsure; the face may be covered in part")
    if apart < ALIKE:
        notes.append(f"{name} looks much like the template's person; identity says little")
    if nearest != name and value < 0.5:
        notes.append(f"where {name} should be stands someone more like {nearest}")
    return notes


def _faces_kept(
    before: Image, after: Image, people: Sequence[Face], results: Sequence[Face | None]
) -> tuple[float, list[str]]:
    """Share of the template's faces that are there, the unswapped ones still themselves.

    Additional faces lower it.
    """
    others = [
        face
        for face in faces.found_once(before)
        if all(_apart(face.box, person.box) for person in people)
    ]
    notes = []
    kept = float(sum(face is not None for face in results))
    for face in others:
        part = (slice(max(face.box[1], 0), face.box[3]), slice(max(face.box[0], 0), face.box[2]))
        if np.abs(after[part].astype(np.int16) - before[part]).mean() < 1.0:
            kept += 1
            continue
        [now] = faces.near(after, [face.box])
        if now is not None and faces.identity_distance(now, face) <= faces.SAME:
            kept += 1
        else:
            notes.append("a person who was not to be swapped is gone or changed")
    expected = len(people) + len(others)
    known = [face.box for face in (*people, *others)]
    extra = sum(all(_apart(box, old) for old in known) for box in faces.boxes(after))
    if extra:
        notes.append(f"additional faces: {extra}")
    return kept / (expected + extra), notes


def _apart(first: Box, second: Box) -> bool:
    """Whether the middle of the first box lies outside the second, and the other way round."""

    def outside(a: Box, b: Box) -> bool:
        x, y = (a[0] + a[2]) / 2, (a[1] + a[3]) / 2
        return not (b[0] <= x <= b[2] and b[1] <= y <= b[3])

    return outside(first, second) and outside(second, first)


def _box(region: Mapping[str, Any], scale: float) -> Box:
    left, top = region["left"] * scale, region["top"] * scale
    right, bottom = left + region["width"] * scale, top + region["height"] * scale
    return round(left), round(top), round(right), round(bottom)
