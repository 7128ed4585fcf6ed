"""Two scores of a person swap, never pooled: without a reference, and against the ideal result.

Each is a weighted geometric mean of its terms (`WEIGHTS`, `REFERENCE_WEIGHTS` of `constants`) times
`faces`, the share of the template's faces that are there. Each term is in [0, 1]. Where several
persons are swapped, a term is the mean over them: a missing face counts 0, a face too small to
measure is left out. A picture that cannot be scored has an outcome and no number: invalid is not
zero. Weights of the models are pinned (`versions`), constants are frozen.

The task is to replace the person: hair, head shape, face and ears. Pose, expression, light, clothes
and surroundings are the template's.

Not measured: hands and glasses in front of a face, teeth, hair below the chin, whether a limb makes
sense. A person in profile has an outcome and no score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from genlab.benchmark.cases import Case, Region
from genlab.benchmark.scoring import background, faces, pictures, segmentation, tone
from genlab.benchmark.scoring.comparison import align
from genlab.benchmark.scoring.constants import DIGEST, REFERENCE_WEIGHTS, VERSION, WEIGHTS
from genlab.benchmark.scoring.faces import Box, Face, Image
from genlab.benchmark.scoring.geometry import fit_similarity, head_turn, transform
from genlab.benchmark.scoring.head import Head, frame_matrix, rgb_to_lab, warp_to_frame
from genlab.benchmark.scoring.pictures import FileVersion, Outcome, UnscorableImage, View
from genlab.benchmark.scoring.terms import (
    Identity,
    SwappedPerson,
    Term,
    geometric_mean,
    make_background_term,
    make_missing_term,
)
from genlab.benchmark.scoring.tone import ToneLoss

COMPONENTS = (*WEIGHTS, "faces")
TINY = 14.0  # pixels between the eyes below which an embedding says nothing
CUT = 2.0  # 8-bit units of light within which a tone's ends count as cut off
# Turn, spread and distance that are worth a note.
TURNED, UNSURE, ALIKE = 0.74, 0.15, 0.45


@dataclass(frozen=True)
class Score:
    """The score of a picture; without numbers where `outcome` is not `scored`.

    score: without a reference; score_reference: against the ideal, None where there is none;
    terms: the plain values of every `Term`; notes: what to know about the numbers; versions: of
    weights, libraries and constants.
    """

    outcome: Outcome
    score: float | None = None
    score_reference: float | None = None
    components: Mapping[str, float] = field(default_factory=dict)
    components_reference: Mapping[str, float] = field(default_factory=dict)
    terms: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)


def score(case: Case, image: Path) -> Score:
    """Score the picture `image` as a result of a case. The same files give the same score."""
    try:
        return measure(case, image)[0]
    except UnscorableImage as unfit:
        return Score(unfit.outcome, notes=[unfit.note], versions=versions())


def versions() -> dict[str, str]:
    """Versions of all that a score rests on."""
    return {
        "constants": VERSION,
        "constants_digest": DIGEST,
        "selfie_segmentation": segmentation.SHA256,
        **faces.versions(),
    }


def measure(case: Case, image: Path) -> tuple[Score, list[Term]]:
    """Measure a picture: its score, and the terms with a sentence and an overlay each.

    Raises `UnscorableImage` where the picture cannot be scored.
    """
    known = FileVersion.read(case.template)
    before, scale = pictures.load_template(known)
    after, notes = pictures.load_result(image, before)
    regions = tuple(_scaled(swap.region, scale) for swap in case.swaps)
    people = pictures.find_people(known, known, regions)
    after, lose = tone.restore_tone(
        before, after, background.background_zones(before.shape, people, 1.0)[0]
    )
    names = [swap.avatar for swap in case.swaps]
    shown = {name: pictures.load_avatar(FileVersion.read(case.avatars[name])) for name in names}
    results = faces.detect_at(after, regions)
    largest = max((face.eyes for face in results if face is not None), default=None)
    if largest is None:
        raise UnscorableImage("no_face", "no face is found where persons were to be swapped")
    if largest < TINY:
        raise UnscorableImage(
            "tiny_face", f"the eyes are {largest:.1f} pixels apart; {TINY:.0f} needed"
        )
    aims: list[View | None] = [None] * len(people)
    if case.ideal is not None:
        aim_file = FileVersion.read(case.ideal)
        aim = pictures.load_ideal(aim_file, known)
        aims = [View(aim, face) for face in pictures.find_people(aim_file, known, regions)]
    kept, remarks = _count_faces(known, after, people, results)
    terms = []
    for name, person, face, view in zip(names, people, results, aims, strict=True):
        found, own = _measure_person(after, face, View(before, person), lose, shown, name, view)
        terms += found
        remarks += own
    notes += remarks
    around = background.compare_background(before, after, people)
    if around.shift > 0.5:
        notes.append(f"the picture is shifted by {around.shift:.1f} pixels; aligned")
    terms.append(make_background_term(after, around))
    missing = results.count(None)
    total, components = _combine(terms, missing, kept)
    got = Score("scored", total, None, components, notes=notes, versions=versions())
    if case.ideal is not None:
        against = background.compare_background(aim, after, people, around.matrix)
        terms.append(make_background_term(after, against, reference=True))
        total, components = _combine(terms, missing, kept, reference=True)
        got = replace(got, score_reference=total, components_reference=components)
    return replace(got, terms=[term.as_dict() for term in terms]), terms


def _measure_person(
    image: Image,
    face: Face | None,
    before: View,
    lose: ToneLoss,
    shown: Mapping[str, tuple[View, View]],
    name: str,
    ideal: View | None,
) -> tuple[list[Term], list[str]]:
    """The terms of one swap, and remarks on it."""
    if face is None or face.eyes < TINY:
        note = f"no face is found where {name} should be"
        if face is not None:
            note = f"{name}: the eyes are {face.eyes:.1f} pixels apart, {TINY:.0f} needed; left out"
        return [make_missing_term(image, before.face, name, note)], [note]
    # Each avatar as it is or mirrored, whichever the result is nearer to.
    nearer = {
        avatar: min(views, key=lambda view: faces.identity_distance(face, view.face))
        for avatar, views in shown.items()
    }
    who = Identity.measure(face, before.face, [view.face for view in shown[name]])
    matrix = frame_matrix(before.face.landmarks)
    aim = transform(face.landmarks, matrix)[17:]
    laid = [(view, fit_similarity(view.face.landmarks[17:], aim)) for view in shown[name]]
    views = [rgb_to_lab(lose(warp_to_frame(view.picture, onto))) for view, onto in laid]
    ends = rgb_to_lab(lose(np.array([[[0] * 3, [255] * 3]], dtype=np.uint8)))[0, :, 0]
    cut = float(ends[0]) + CUT, float(ends[1]) - CUT
    onto = fit_similarity(nearer[name].face.landmarks[17:], aim)
    old, new = Head.from_image(*before, matrix), Head.from_image(image, face, matrix)
    toned = rgb_to_lab(lose(warp_to_frame(before.picture, matrix)))
    still, model = align(new.picture, toned, ~old.mask), Head.from_image(*nearer[name], onto)
    swap = SwappedPerson(name, image, matrix, new, old, toned, still, model, who, views, cut)
    terms = swap.terms()
    if ideal is not None:
        model, to_ideal = (
            Head.from_image(*ideal, matrix),
            Identity.measure(face, before.face, [ideal.face]),
        )
        terms += replace(swap, model=model, who=to_ideal, reference=True).terms()
    nearest = min(nearer, key=lambda avatar: faces.identity_distance(face, nearer[avatar].face))
    remarks = {
        f"{name}: the face is turned far; its landmarks are unsure": (
            abs(head_turn(face.landmarks)) > TURNED
        ),
        f"{name}: the landmarks are unsure; the face may be covered in part": face.spread > UNSURE,
        f"{name} looks much like the template's person; identity says little": who.apart < ALIKE,
        f"where {name} should be stands someone more like {nearest}": (
            nearest != name and who.score < 0.5
        ),
    }
    return terms, [remark for remark, holds in remarks.items() if holds]


def _combine(
    terms: Sequence[Term], missing: int, kept: float, *, reference: bool = False
) -> tuple[float, dict[str, float]]:
    """A score and its components, each the mean over the persons.

    missing: faces that are not there, which count 0; kept: share of the faces that are there.
    """
    weights = REFERENCE_WEIGHTS if reference else WEIGHTS
    components = {}
    for name in weights:
        values = [one.value for one in terms if (one.term, one.reference) == (name, reference)]
        absent = [] if name == "background" else [0.0] * missing
        components[name] = float(np.mean([*values, *absent]))
    return kept * geometric_mean(components, weights), {**components, "faces": kept}


def _count_faces(
    file: FileVersion, after: Image, people: Sequence[Face], results: Sequence[Face | None]
) -> tuple[float, list[str]]:
    """Share of the template's faces that are there, the unswapped ones still themselves.

    Additional faces lower it.
    """
    before = pictures.load_template(file)[0]
    others = [
        face
        for face in pictures.find_all_faces(file)
        if all(faces.are_apart(face.box, person.box) for person in people)
    ]
    notes = []
    kept = float(sum(face is not None for face in results))
    for face in others:
        part = (slice(max(face.box[1], 0), face.box[3]), slice(max(face.box[0], 0), face.box[2]))
        if np.abs(after[part].astype(np.int16) - before[part]).mean() < 1.0:
            kept += 1
            continue
        [now] = faces.detect_at(after, [face.box])
        if now is not None and faces.identity_distance(now, face) <= faces.SAME_PERSON:
            kept += 1
        else:
            notes.append("a person who was not to be swapped is gone or changed")
    expected = len(people) + len(others)
    known = [face.box for face in (*people, *others)]
    extra = sum(
        all(faces.are_apart(box, old) for old in known) for box in faces.detect_boxes(after)
    )
    if extra:
        notes.append(f"additional faces: {extra}")
    return kept / (expected + extra), notes


def _scaled(region: Region, scale: float) -> Box:
    left, top = region.left * scale, region.top * scale
    right, bottom = left + region.width * scale, top + region.height * scale
    return round(left), round(top), round(right), round(bottom)
