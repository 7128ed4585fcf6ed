"""The local swap and the controls: who is in the image afterwards, and what is unchanged."""

import asyncio
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from genlab.benchmark.cases import Case, Region
from genlab.benchmark.cases.files import write_case
from genlab.benchmark.plugins.base import ToolFailure
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Face, Image
from genlab.benchmark.scoring.geometry import face_mask
from genlab.benchmark.tools.controls import CONTROLS, swap_strangers
from genlab.benchmark.tools.face_tool import FaceTool
from genlab.benchmark.tools.local import LOCAL

pytestmark = pytest.mark.slow


def person(image: Image, case: Case) -> Face:
    [face] = faces.detect_at(image, [case.swaps[0].region.box])
    assert face is not None
    return face


def test_the_swap_changes_the_face_alone(case: Case, template: Image, swap: Image) -> None:
    before = person(template, case)
    now = person(swap, case)
    [avatar] = faces.detect(np.asarray(case.open_avatar(case.swaps[0].avatar)))
    assert faces.identity_distance(now, avatar) < faces.SAME_PERSON
    assert faces.identity_distance(now, before) > faces.SAME_PERSON
    assert swap.shape == template.shape
    outside = ~face_mask(before.landmarks, template.shape, 0.5)
    assert np.array_equal(swap[outside], template[outside])
    # From the blue-lit avatar no blue comes along: the mean colour of the face stays near.
    inside = face_mask(before.landmarks, template.shape, 0.0)
    assert np.abs(swap[inside].mean(0) - template[inside].mean(0)).max() < 25


@pytest.mark.parametrize("tool", [LOCAL, *CONTROLS[1:]], ids=lambda tool: tool.tool_id)
def test_a_missing_face_is_an_outcome(case: Case, tmp_path: Path, tool: FaceTool) -> None:
    nowhere = Region(left=0, top=0, width=60, height=60)
    swap = case.swaps[0].model_copy(update={"region": nowhere})
    with pytest.raises(ToolFailure, match=r"case_fault: .*region \(0, 0, 60, 60\)"):
        asyncio.run(tool.swap(case.model_copy(update={"swaps": [swap]}), {}))
    blank = tmp_path / "blank.png"
    PIL.Image.new("RGB", (300, 300), (90, 90, 90)).save(blank)
    avatars = dict.fromkeys(case.avatars, blank)
    with pytest.raises(ToolFailure, match=r"case_fault: .*avatar"):
        asyncio.run(tool.swap(case.model_copy(update={"avatars": avatars}), {}))


def test_a_case_without_a_stranger_is_the_cases_fault(case: Case, tmp_path: Path) -> None:
    alone = write_case(tmp_path / "alone", **dict(case))  # no case beside it
    with pytest.raises(ToolFailure, match=r"case_fault: .*add a case"):
        swap_strangers(alone, {})
