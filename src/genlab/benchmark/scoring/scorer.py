"""Two scores of a person swap, never pooled: without a reference, and against the ideal result.

Each is a weighted geometric mean of its terms (`WEIGHTS`, `REFERENCE_WEIGHTS` of `constants`) times
`faces`, the fraction of the template's faces that the picture still shows. Each term is in [0, 1].
Where several persons are swapped, a term is the mean over them: a missing face counts 0, a face too
small to measure is left out. A picture that cannot be scored has an outcome and no number: invalid
is not zero. Weights of the models are pinned (`versions`), constants are frozen.

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
from genlab.benchmark.scoring.identity import Identity
from genlab.benchmark.scoring.pictures import FileVersion, Outcome, UnscorableImage, View
from genlab.benchmark.scoring.terms import (
    SwappedPerson,
    Term,
    geometric_mean,
    make_background_term,
    make_missing_term,
)
from genlab.benchmark.scoring.tone import ToneLoss

COMPONENTS = (*WEIGHTS, "faces")
TINY = 14.0  # pixels between the eyes below which an embedding says nothing
CLIPPED = 2.0  # 8-bit units of light within which the ends of a tone count as clipped
TURNED = 0.74  # turn of the head beyond which a note says so
UNSURE = 0.15  # spread of the landmarks beyond which a note says so
ALIKE = 0.45  # distance of avatar and template's person below which a note says so


@dataclass(frozen=True)
class Score:
    """The score of a picture; without numbers where `outcome` is not `scored`.

    score: without a reference; score_reference: against the ideal, None where the case has none;
    terms: every `Term` as a dictionary; notes: remarks on the numbers; versions: of weights,
    libraries and constants.
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
    """Versions of all that a score depends on."""
    return {
        "constants": VERSION,
        "constants_digest": DIGEST,
        "selfie_segmentation": segmentation.SHA256,
        **faces.versions(),
    }


def measure(case: Case, image: Path) -> tuple[Score, list[Term]]:
    """Score a picture, and return the terms with a sentence and an overlay each.

    Raises `UnscorableImage` where the picture cannot be scored.
    """
    template_file = FileVersion.read(case.template)
    template, scale = pictures.load_template(template_file)
    result, notes = pictures.load_result(image, template)
    regions = tuple(_scale_region(swap.region, scale) for swap in case.swaps)
    people = pictures.find_people(template_file, template_file, regions)
    outside, _ = background.background_zones(template.shape, people, 1.0)
    result, lose_tone = tone.restore_tone(template, result, outside)
    names = [swap.avatar for swap in case.swaps]
    avatars = {name: pictures.load_avatar(FileVersion.read(case.avatars[name])) for name in names}
    result_faces = faces.detect_at(result, regions)
    _check_faces(result_faces)
    ideal = None
    ideal_views: list[View | None] = [None] * len(people)
    if case.ideal is not None:
        ideal_file = FileVersion.read(case.ideal)
        ideal = pictures.load_ideal(ideal_file, template_file)
        ideal_faces = pictures.find_people(ideal_file, template_file, regions)
        ideal_views = [View(ideal, face) for face in ideal_faces]
    faces_share, remarks = _count_faces(template_file, result, people, result_faces)
    terms = []
    for name, person, face, ideal_view in zip(
        names, people, result_faces, ideal_views, strict=True
    ):
        person_terms, person_remarks = _measure_person(
            result, face, View(template, person), lose_tone, avatars, name, ideal_view
        )
        terms += person_terms
        remarks += person_remarks
    notes += remarks
    preserved = background.compare_background(template, result, people)
    if preserved.shift > 0.5:
        notes.append(f"the picture is shifted by {preserved.shift:.1f} pixels; aligned")
    terms.append(make_background_term(result, preserved))
    missing = result_faces.count(None)
    total, components = _combine(terms, missing, faces_share)
    scored = Score("scored", total, None, components, notes=notes, versions=versions())
    if ideal is not None:
        preserved = background.compare_background(ideal, result, people, preserved.matrix)
        terms.append(make_background_term(result, preserved, reference=True))
        total, components = _combine(terms, missing, faces_share, reference=True)
        scored = replace(scored, score_reference=total, components_reference=components)
    return replace(scored, terms=[term.as_dict() for term in terms]), terms


def _check_faces(result_faces: Sequence[Face | None]) -> None:
    """Raise `UnscorableImage` where no swapped person shows a face that is large enough."""
    largest = max((face.eyes for face in result_faces if face is not None), default=None)
    if largest is None:
        raise UnscorableImage("no_face", "no face is found where persons were to be swapped")
    if largest < TINY:
        raise UnscorableImage(
            "tiny_face", f"the eyes are {largest:.1f} pixels apart; {TINY:.0f} needed"
        )


def _measure_person(
    image: Image,
    face: Face | None,
    template: View,
    lose_tone: ToneLoss,
    avatars: Mapping[str, tuple[View, View]],
    name: str,
    ideal: View | None,
) -> tuple[list[Term], list[str]]:
    """Make the terms of one swap, and remarks on it.

    avatars: each with its picture and its mirror image; name: the avatar of this swap.
    """
    if face is None or face.eyes < TINY:
        note = f"no face is found where {name} should be"
        if face is not None:
            note = f"{name}: the eyes are {face.eyes:.1f} pixels apart, {TINY:.0f} needed; left out"
        return [make_missing_term(image, template.face, name, note)], [note]
    # Each avatar as it is or mirrored, whichever is nearer to the result.
    nearer_views = {
        avatar: min(views, key=lambda view: faces.identity_distance(face, view.face))
        for avatar, views in avatars.items()
    }
    who = Identity.measure(face, template.face, [view.face for view in avatars[name]])
    swap = _frame_person(
        image, face, template, lose_tone, avatars[name], nearer_views[name], name, who
    )
    terms = swap.terms()
    if ideal is not None:
        model = Head.from_image(*ideal, swap.matrix)
        to_ideal = Identity.measure(face, template.face, [ideal.face])
        terms += replace(swap, model=model, who=to_ideal, reference=True).terms()
    nearest = min(
        nearer_views,
        key=lambda avatar: faces.identity_distance(face, nearer_views[avatar].face),
    )
    remarks = {
        f"{name}: the face is turned far; its landmarks are unsure": (
            abs(head_turn(face.landmarks)) > TURNED
        ),
        f"{name}: the landmarks are unsure; the face may be covered in part": face.spread > UNSURE,
        f"{name} looks much like the template's person; identity says little": (
            who.avatar_to_template < ALIKE
        ),
        f"where {name} should be stands someone more like {nearest}": (
            nearest != name and who.score < 0.5
        ),
    }
    return terms, [remark for remark, holds in remarks.items() if holds]


def _frame_person(
    image: Image,
    face: Face,
    template: View,
    lose_tone: ToneLoss,
    views: Sequence[View],
    nearer_view: View,
    name: str,
    who: Identity,
) -> SwappedPerson:
    """Warp result, template and avatar into the frame of the template's face.

    views: the avatar's picture and its mirror image; nearer_view: the one nearer to the result.
    """
    matrix = frame_matrix(template.face.landmarks)
    inner_landmarks = transform(face.landmarks, matrix)[17:]
    framed_views = []
    for view in views:
        onto_result = fit_similarity(view.face.landmarks[17:], inner_landmarks)
        framed_views.append(rgb_to_lab(lose_tone(warp_to_frame(view.picture, onto_result))))
    black_and_white = np.array([[[0] * 3, [255] * 3]], dtype=np.uint8)
    darkest, lightest = rgb_to_lab(lose_tone(black_and_white))[0, :, 0]
    onto_result = fit_similarity(nearer_view.face.landmarks[17:], inner_landmarks)
    template_head = Head.from_image(*template, matrix)
    result_head = Head.from_image(image, face, matrix)
    template_clipped = rgb_to_lab(lose_tone(warp_to_frame(template.picture, matrix)))
    return SwappedPerson(
        person=name,
        image=image,
        matrix=matrix,
        result=result_head,
        template=template_head,
        template_clipped=template_clipped,
        result_aligned=align(result_head.picture, template_clipped, ~template_head.mask),
        model=Head.from_image(*nearer_view, onto_result),
        who=who,
        views=framed_views,
        clipping=(float(darkest) + CLIPPED, float(lightest) - CLIPPED),
    )


def _combine(
    terms: Sequence[Term], missing: int, faces_share: float, *, reference: bool = False
) -> tuple[float, dict[str, float]]:
    """Combine terms into a score and its components, each the mean over the persons.

    missing: number of missing faces, which count 0; faces_share: fraction of the faces that the
    picture still shows.
    """
    weights = REFERENCE_WEIGHTS if reference else WEIGHTS
    components = {}
    for name in weights:
        values = [term.value for term in terms if (term.term, term.reference) == (name, reference)]
        absent = [] if name == "background" else [0.0] * missing
        components[name] = float(np.mean([*values, *absent]))
    total = faces_share * geometric_mean(components, weights)
    return total, {**components, "faces": faces_share}


def _count_faces(
    file: FileVersion, result: Image, people: Sequence[Face], result_faces: Sequence[Face | None]
) -> tuple[float, list[str]]:
    """Fraction of the template's faces that the result still shows, and notes.

    Persons who are not swapped must still be themselves. Additional faces lower the fraction.
    """
    template, _ = pictures.load_template(file)
    bystanders = [
        face
        for face in pictures.find_all_faces(file)
        if all(faces.are_apart(face.box, person.box) for person in people)
    ]
    notes = []
    count = float(sum(face is not None for face in result_faces))
    for face in bystanders:
        left, top, right, bottom = face.box
        box = (slice(max(top, 0), bottom), slice(max(left, 0), right))
        if np.abs(result[box].astype(np.int16) - template[box]).mean() < 1.0:
            count += 1
            continue
        [result_face] = faces.detect_at(result, [face.box])
        if (
            result_face is not None
            and faces.identity_distance(result_face, face) <= faces.SAME_PERSON
        ):
            count += 1
        else:
            notes.append("a person who was not to be swapped is gone or changed")
    template_boxes = [face.box for face in (*people, *bystanders)]
    additional = sum(
        all(faces.are_apart(box, template_box) for template_box in template_boxes)
        for box in faces.detect_boxes(result)
    )
    if additional:
        notes.append(f"additional faces: {additional}")
    return count / (len(people) + len(bystanders) + additional), notes


def _scale_region(region: Region, scale: float) -> Box:
    left = region.left * scale
    top = region.top * scale
    right = left + region.width * scale
    bottom = top + region.height * scale
    return round(left), round(top), round(right), round(bottom)
