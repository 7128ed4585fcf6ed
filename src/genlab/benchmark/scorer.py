"""The score of a swap: identity, background, realism, landmarks and faces kept.

    total = faces · identity^0.40 · background^0.20 · realism^0.25 · landmarks^0.15

Each is in [0, 1] and shown beside the total. Where several persons are swapped, identity, realism
and landmarks are the means over them, a person who is gone counting 0, and one whose face is too
small to be judged left out. A picture that can't be judged has an outcome and no number: invalid is
not zero. Models are pinned (`faces.versions`),
constants frozen (`constants.VERSION`); both stand in every score.

Body, pose of the body and clothes are background: what is not the template's there costs that
component, by how far its colours are off, and not by whether a limb makes sense.

What it does not see. Hair and the head's outline: a swap may keep the template's or bring the
avatar's, so nothing between the face's rim and the head's is marked; how much of it is the
template's stands in a person's parts (`hair_of_template`: 1 kept, 0 all other), and whether other
hair is the avatar's, or any good, is not told. The head's shape counts as far as the jaw is the
face's rim (seam, landmarks' scale and place), and not above the brows. Hands and glasses before a
face, teeth, the age of a photograph, and persons in profile (an outcome, no score).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from genlab.benchmark import faces, pictures
from genlab.benchmark.background import background
from genlab.benchmark.constants import CONSTANTS, VERSION
from genlab.benchmark.expression import expression
from genlab.benchmark.faces import Box, Face, Image
from genlab.benchmark.identity import identity
from genlab.benchmark.pictures import Outcome, Unfit, Views
from genlab.benchmark.realism import realism

COMPONENTS = ("identity", "background", "realism", "landmarks", "faces")
TINY = 14.0  # pixels between the eyes below which an embedding says nothing
TURNED, UNSURE, ALIKE = 0.85, 0.15, 0.45  # turn, spread and distance that are worth a note


@dataclass(frozen=True)
class Score:
    """What a picture got. `total` and components are None where `outcome` is not `scored`.

    persons: for each swap what was measured, with the parts of every component; notes: what to
    know about the number; versions: of models, libraries and constants.
    """

    outcome: Outcome
    total: float | None = None
    components: dict[str, float | None] = field(
        default_factory=lambda: dict.fromkeys(COMPONENTS, None)
    )
    persons: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return asdict(self)


def score(
    template: Path, avatars: Mapping[str, Path], swaps: Sequence[Mapping[str, Any]], image: Path
) -> Score:
    """Score the picture `image` as a swap in `template`; plain arguments, fit for a process pool.

    avatars: name to picture; swaps: `{"region": {left, top, width, height}, "avatar": name}`, in
    pixels of the upright template. The same files give the same score.
    """
    try:
        return _scored(template, avatars, swaps, image)
    except Unfit as unfit:
        return Score(unfit.outcome, notes=[unfit.note], versions=versions())


def versions() -> dict[str, str]:
    """Versions of all that a score rests on."""
    return {"constants": VERSION, **faces.versions()}


def _scored(
    template: Path, avatars: Mapping[str, Path], swaps: Sequence[Mapping[str, Any]], image: Path
) -> Score:
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
    persons = []
    for swap, person, result in zip(swaps, people, results, strict=True):
        name = str(swap["avatar"])
        persons.append(_person(after, result, before, person, shown, name))
    around = background(before, after, people)
    for found, hair in zip(persons, around.hair, strict=True):
        found["parts"]["hair_of_template"] = hair
    kept, note = _faces_kept(before, after, people, results)
    components: dict[str, float | None] = {
        "identity": _mean(persons, "identity"),
        "background": around.score,
        "realism": _mean(persons, "realism"),
        "landmarks": _mean(persons, "landmarks"),
        "faces": kept,
    }
    notes += note + [text for person in persons for text in person["notes"]]
    if around.shift > 0.5:
        notes.append(f"the picture is shifted by {around.shift:.1f} pixels; aligned")
    return Score("scored", _total(components), components, persons, notes, versions())


def _total(components: Mapping[str, float | None]) -> float:
    weights: Any = CONSTANTS["weights"]
    total = components["faces"] or 0.0
    for name, weight in weights.items():
        total *= float(components[name] or 0.0) ** float(weight)
    return float(total)


def _person(
    after: Image,
    result: Face | None,
    before: Image,
    person: Face,
    shown: Mapping[str, Views],
    name: str,
) -> dict[str, Any]:
    """What one swap got: its three components, their parts and notes."""
    if result is None:
        return _unjudged(name, "no_face", 0.0, f"no face is found where {name} should be")
    if result.eyes < TINY:
        note = f"{name}: the eyes are {result.eyes:.1f} pixels apart, {TINY:.0f} needed; left out"
        return _unjudged(name, "tiny_face", None, note)
    avatar, source = _view(shown[name], result)
    who = identity(result, person, [face for _, face in shown[name]])
    looks = realism(after, result, before, person, avatar, source, who)
    pose = expression(result, person)
    nearest = min(shown, key=lambda other: _distance(result, shown[other]))
    return {
        "avatar": name,
        "outcome": "scored",
        "identity": who.score,
        "realism": looks.pop("score"),
        "landmarks": pose.pop("score"),
        "nearest_avatar": nearest,
        "parts": {
            "distance_to_avatar": who.to_avatar,
            "distance_to_template": who.to_template,
            "distance_between": who.apart,
            "shape_share": who.shape,
            **looks,
            **pose,
        },
        "notes": _person_notes(result, who.apart, who.score, name, nearest),
    }


def _unjudged(name: str, outcome: Outcome, mark: float | None, note: str) -> dict[str, Any]:
    """A person whose face can't be measured, with what it counts in the means; None: nothing."""
    marks = dict.fromkeys(("identity", "realism", "landmarks"), mark)
    return {"avatar": name, "outcome": outcome, **marks, "parts": {}, "notes": [note]}


def _view(views: Views, result: Face) -> tuple[Image, Face]:
    """The avatar as it is or mirrored, whichever the result is nearer to."""
    return min(views, key=lambda view: faces.identity_distance(result, view[1]))


def _distance(result: Face, views: Views) -> float:
    return faces.identity_distance(result, _view(views, result)[1])


def _person_notes(result: Face, apart: float, mark: float, name: str, nearest: str) -> list[str]:
    notes = []
    if result.turn > TURNED:
        notes.append(f"{name}: the face is turned far; its landmarks are unsure")
    if result.spread > UNSURE:
        notes.append(f"{name}: the landmarks are unsure; the face may be covered in part")
    if apart < ALIKE:
        notes.append(f"{name} looks much like the template's person; identity says little")
    if nearest != name and mark < 0.5:
        notes.append(f"where {name} should be stands someone more like {nearest}")
    return notes


def _faces_kept(
    before: Image, after: Image, people: Sequence[Face], results: Sequence[Face | None]
) -> tuple[float, list[str]]:
    """Share of the template's faces that are there, the unswapped ones still themselves.

    Faces that nobody asked for count against it.
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
        notes.append(f"faces that nobody asked for: {extra}")
    return kept / expected * expected / (expected + extra), notes


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


def _mean(persons: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(np.mean([person[name] for person in persons if person[name] is not None]))
