"""The local swap and the controls: who is there afterwards, and what is unchanged."""

import asyncio
from typing import Any

import numpy as np
import pytest

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins.base import ToolFailure
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Face, Image
from genlab.benchmark.scoring.geometry import face_mask
from genlab.benchmark.tools.blending import NoFaceError, swapped
from genlab.benchmark.tools.controls import Blurred, Pasted
from genlab.benchmark.tools.local import LocalSwap, regions_of

pytestmark = pytest.mark.slow


def person(image: Image, case: Case) -> Face:
    [face] = faces.near(image, regions_of(case)[:1])
    assert face is not None
    return face


def avatar_face(case: Case) -> Face:
    return faces.found_once(np.asarray(case.open_avatar(case.swaps[0].avatar)))[0]


def test_the_swap_changes_the_face_alone(case: Case, template: Image, swap: Image) -> None:
    before, now = person(template, case), person(swap, case)
    assert faces.identity_distance(now, avatar_face(case)) < faces.SAME
    assert faces.identity_distance(now, before) > faces.SAME
    assert swap.shape == template.shape
    outside = ~face_mask(before.landmarks, template.shape, 0.5)
    assert np.array_equal(swap[outside], template[outside])
    # From the blue-lit avatar no blue comes along: the mean colour of the face stays near.
    inside = face_mask(before.landmarks, template.shape, 0.0)
    assert np.abs(swap[inside].mean(0) - template[inside].mean(0)).max() < 25


def test_a_picture_without_a_face_is_named(template: Image) -> None:
    blank = np.full((300, 300, 3), 90, dtype=np.uint8)
    with pytest.raises(NoFaceError, match=r"region \(0, 0, 90, 90\)"):
        swapped(template, [((0, 0, 90, 90), template)])
    with pytest.raises(NoFaceError, match="avatar"):
        swapped(template, [((161, 137, 377, 353), blank)])


@pytest.mark.parametrize("tool", [LocalSwap(), Pasted(), Blurred()])
def test_a_region_without_a_face_is_an_outcome(case: Case, tool: Any) -> None:
    region = case.swaps[0].region.model_copy(update={"left": 0, "top": 0, "width": 60})
    one = case.swaps[0].model_copy(update={"region": region.model_copy(update={"height": 60})})
    with pytest.raises(ToolFailure, match="region"):
        asyncio.run(tool.swap(case.model_copy(update={"swaps": (one,)}), {}))
