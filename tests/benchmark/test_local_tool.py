"""The local swap and the controls: who is there afterwards, and what stays as it was."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from genlab.benchmark import faces
from genlab.benchmark.blending import NoFaceError, swapped
from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.faces import Face, Image
from genlab.benchmark.geometry import face_mask
from genlab.benchmark.plugins import ToolFailure
from genlab.benchmark.tools.controls import Blurred, Pasted, WrongPerson
from genlab.benchmark.tools.local import LocalSwap, regions_of

pytestmark = pytest.mark.slow

CASES = Path(__file__).parents[2] / "cases"


def person(image: Image, case: Case) -> Face:
    [face] = faces.near(image, regions_of(case)[:1])
    assert face is not None
    return face


def avatar_face(case: Case) -> Face:
    return faces.found_once(np.asarray(case.open_avatar(case.swaps[0].avatar)))[0]


def test_the_avatar_is_there_and_the_officer_gone(case: Case, template: Image, swap: Image) -> None:
    now = person(swap, case)
    assert faces.identity_distance(now, avatar_face(case)) < faces.SAME
    assert faces.identity_distance(now, person(template, case)) > faces.SAME


def test_all_but_the_face_stays_as_it_was(case: Case, template: Image, swap: Image) -> None:
    assert swap.shape == template.shape
    outside = ~face_mask(person(template, case).landmarks, template.shape, 0.5)
    assert np.array_equal(swap[outside], template[outside])


def test_the_skin_takes_the_templates_tone(case: Case, template: Image, swap: Image) -> None:
    # From the blue-lit avatar no blue comes along: the mean colour of the face stays near.
    mask = face_mask(person(template, case).landmarks, template.shape, 0.0)
    assert np.abs(swap[mask].mean(0) - template[mask].mean(0)).max() < 25


def test_several_persons_are_swapped_each_with_their_own() -> None:
    many = load_case(CASES / "stairs-two-of-four")
    image = np.asarray(asyncio.run(LocalSwap().swap(many, {})))
    avatars = [
        faces.found_once(np.asarray(many.open_avatar(swap.avatar)))[0] for swap in many.swaps
    ]
    for own, face in enumerate(faces.near(image, regions_of(many))):
        assert face is not None
        distances = [faces.identity_distance(face, avatar) for avatar in avatars]
        assert int(np.argmin(distances)) == own


def test_the_loop_goes_on_while_it_works(case: Case) -> None:
    async def count() -> int:
        ticks = 0
        task = asyncio.create_task(LocalSwap().swap(case, {}))
        while not task.done():
            await asyncio.sleep(0.005)
            ticks += 1
        return ticks

    assert asyncio.run(count()) > 5


def test_a_picture_without_a_face_is_named(template: Image) -> None:
    blank = np.full((300, 300, 3), 90, dtype=np.uint8)
    with pytest.raises(NoFaceError, match=r"region \(0, 0, 90, 90\)"):
        swapped(template, [((0, 0, 90, 90), template)])
    with pytest.raises(NoFaceError, match="avatar"):
        swapped(template, [((161, 137, 377, 353), blank)])


def test_pasted_is_a_rectangle_of_the_avatar(case: Case, template: Image) -> None:
    image = np.asarray(asyncio.run(Pasted().swap(case, {})))
    changed = (image != template).any(2)
    rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
    assert changed[rows[0] : rows[-1], columns[0] : columns[-1]].mean() > 0.95
    assert faces.identity_distance(person(image, case), avatar_face(case)) < 0.3


def test_the_wrong_person_is_neither_of_both(case: Case, template: Image) -> None:
    now = person(np.asarray(asyncio.run(WrongPerson().swap(case, {}))), case)
    assert faces.identity_distance(now, avatar_face(case)) > faces.SAME
    assert faces.identity_distance(now, person(template, case)) > faces.SAME


def test_a_region_without_a_face_is_an_outcome(case: Case) -> None:
    region = case.swaps[0].region.model_copy(
        update={"left": 0, "top": 0, "width": 60, "height": 60}
    )
    wrong = case.model_copy(
        update={"swaps": (case.swaps[0].model_copy(update={"region": region}),)}
    )
    for tool in (LocalSwap(), Pasted(), Blurred()):
        with pytest.raises(ToolFailure, match="region"):
            asyncio.run(tool.swap(wrong, {}))
