"""Control tools, whose rank on a leaderboard is known.

`control_untouched` returns the template and scores 0. `control_wrong_person` swaps in somebody
else. `control_pasted` pastes a rectangle. `control_blurred` blurs the right swap, in three
strengths.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image

from genlab.benchmark.plugins.base import Needs, Option, ToolFailure
from genlab.benchmark.plugins.contender import checked_options
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Face, Image
from genlab.benchmark.tools.local import regions_of, swapped_case

if TYPE_CHECKING:
    from genlab.benchmark.cases import Case

GROWN = 1.25  # a pasted rectangle over the detector's box
STRENGTHS = {1: 0.02, 2: 0.03, 3: 0.045}  # Gaussian sigma of the blur, in widths of the face
STRANGER = 0.60  # embedding distance from which somebody is surely somebody else


class _Control:
    """Common part of the controls: they need the face models only."""

    needs = Needs(concurrency=2, options={})

    def unavailable(self) -> str:
        """Why it cannot run here, "" where it can."""
        return faces.available()


class Untouched(_Control):
    """The template as it is."""

    tool_id = "control_untouched"
    version = "1"
    title = "Control: untouched template"

    def unavailable(self) -> str:
        """ "": it needs nothing."""
        return ""

    async def swap(self, case: Case, options: Mapping[str, Any]) -> PIL.Image.Image:
        """The template of `case`."""
        return await asyncio.to_thread(case.open_template)


class Pasted(_Control):
    """A rectangle of the avatar's picture over each face."""

    tool_id = "control_pasted"
    version = "1"
    title = "Control: pasted rectangle"

    async def swap(self, case: Case, options: Mapping[str, Any]) -> PIL.Image.Image:
        """The template of `case` with rectangles pasted. Raises a `ToolFailure`."""
        return await asyncio.to_thread(pasted_case, case)


class WrongPerson(_Control):
    """The local swap with somebody who was not asked for."""

    tool_id = "control_wrong_person"
    version = "1"
    title = "Control: wrong person"

    async def swap(self, case: Case, options: Mapping[str, Any]) -> PIL.Image.Image:
        """The local swap of `case` with another person in each place. Raises a `ToolFailure`."""
        return await asyncio.to_thread(wrong_person_case, case)


class Blurred(_Control):
    """The local swap, blurred; the option `strength` is 1, 2 (the default) or 3."""

    tool_id = "control_blurred"
    version = "1"
    title = "Control: blurred swap"
    needs = Needs(
        concurrency=2,
        options={"strength": Option("how much, 2 if left out", tuple(map(str, STRENGTHS)))},
    )

    async def swap(self, case: Case, options: Mapping[str, Any]) -> PIL.Image.Image:
        """The local swap of `case` with blurred faces. Raises a `ToolFailure`."""
        strength = int(checked_options(self, options).get("strength", 2))
        return await asyncio.to_thread(blurred_case, case, strength)


def pasted(image: Image, target: Face, avatar: Image, source: Face) -> Image:
    """`image` with the avatar's box, grown by a quarter, laid over that of the face `target`."""
    left, top, right, bottom = _grown(target, image)
    a, b, c, d = _grown(source, avatar)
    piece = PIL.Image.fromarray(avatar[b:d, a:c]).resize((right - left, bottom - top))
    result = image.copy()
    result[top:bottom, left:right] = np.asarray(piece)
    return result


def blurred(image: Image, face: Face, strength: int) -> Image:
    """`image` with the face blurred by a Gaussian of `STRENGTHS[strength]` widths of it."""
    import cv2

    from genlab.benchmark.scoring.geometry import face_mask

    wide = float(np.ptp(face.landmarks[:17, 0]))
    soft = cv2.GaussianBlur(image, (0, 0), STRENGTHS[strength] * wide)
    mask = face_mask(face.landmarks, image.shape).astype(np.float32)
    share = np.asarray(cv2.GaussianBlur(mask, (0, 0), 0.03 * wide))[..., None]
    return np.asarray(np.rint(share * soft + (1 - share) * image), dtype=np.uint8)


def _grown(face: Face, image: Image) -> faces.Box:
    left, top, right, bottom = face.box
    more = round((right - left) * (GROWN - 1) / 2)
    height, width = image.shape[:2]
    return (
        max(left - more, 0),
        max(top - more, 0),
        min(right + more, width),
        min(bottom + more, height),
    )


def pasted_case(case: Case) -> PIL.Image.Image:
    image = np.asarray(case.open_template())
    for swap, target in zip(case.swaps, _targets(case), strict=True):
        avatar = np.asarray(case.open_avatar(swap.avatar))
        image = pasted(image, target, avatar, _largest(avatar, swap.avatar))
    return PIL.Image.fromarray(image)


def blurred_case(case: Case, strength: int) -> PIL.Image.Image:
    image = np.asarray(swapped_case(case))
    for target in _targets(case):
        image = blurred(image, target, strength)
    return PIL.Image.fromarray(image)


def wrong_person_case(case: Case) -> PIL.Image.Image:
    """Somebody else for each swap: another avatar, else another person of the template, else one
    of the cases beside this one."""
    from genlab.benchmark.tools.blending import laid_over

    template = np.asarray(case.open_template())
    image = template
    for swap, target in zip(case.swaps, _targets(case), strict=True):
        asked = np.asarray(case.open_avatar(swap.avatar))
        source = _largest(asked, swap.avatar)
        for picture, face in _candidates(case, swap.avatar, template):
            away = (faces.identity_distance(face, other) for other in (source, target))
            if min(away) >= STRANGER:
                image = laid_over(image, target, picture, face)
                break
        else:
            raise ToolFailure(
                "error", f"no photograph shows another person than {swap.avatar}; add a case"
            )
    return PIL.Image.fromarray(image)


def _candidates(case: Case, asked: str, template: Image) -> Iterator[tuple[Image, Face]]:
    for name in case.avatars:
        if name != asked:
            picture = np.asarray(case.open_avatar(name))
            yield picture, _largest(picture, name)
    for face in faces.found_once(template):
        yield template, face
    for path in sorted(case.folder.parent.glob("*/avatar_*")):
        if path.parent != case.folder:
            with PIL.Image.open(path) as opened:
                picture = np.asarray(opened.convert("RGB"))
            for face in faces.found_once(picture)[:1]:
                yield picture, face


def _targets(case: Case) -> list[Face]:
    found = faces.near(np.asarray(case.open_template()), regions_of(case))
    targets = [face for face in found if face is not None]
    if len(targets) < len(found):
        raise ToolFailure(
            "error", "a region of the template shows no face; correct it in case.yaml"
        )
    return targets


def _largest(picture: Image, name: str) -> Face:
    found = faces.found_once(picture)
    if not found:
        raise ToolFailure("error", f"the avatar {name} shows no face")
    return found[0]
