"""Tools that need the face models only, and the faces that a case's swaps are about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL.Image

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins.base import Needs, ToolFailure
from genlab.benchmark.scoring import faces
from genlab.benchmark.scoring.faces import Face, Image
from genlab.benchmark.scoring.pictures import View

NEEDS = Needs(concurrency=2, options={})


@dataclass(frozen=True)
class FaceTool:
    """An offline tool; make: the picture of a case with options, which may raise `ToolFailure`."""

    tool_id: str
    title: str
    make: Callable[[Case, Mapping[str, Any]], Image]
    needs: Needs = NEEDS
    version: str = "1"

    def unavailable(self) -> str:
        """Why it cannot run here, "" where it can."""
        return faces.available()

    async def swap(self, case: Case, options: Mapping[str, Any]) -> PIL.Image.Image:
        """The picture of a case; see `ImageTool.swap`."""
        return PIL.Image.fromarray(await asyncio.to_thread(self.make, case, options))


def find_pairs(case: Case) -> list[tuple[Face, View]]:
    """For each swap the template's face, and the avatar's picture with its face.

    Raises a `ToolFailure` where a region or an avatar shows none.
    """
    pairs = []
    targets = faces.near(np.asarray(case.open_template()), [swap.region.box for swap in case.swaps])
    for swap, target in zip(case.swaps, targets, strict=True):
        if target is None:
            raise ToolFailure(
                "error",
                f"the template's region {swap.region.box} shows no face; correct it in case.yaml",
            )
        avatar = np.asarray(case.open_avatar(swap.avatar))
        pairs.append((target, View(avatar, find_largest(avatar, swap.avatar))))
    return pairs


def find_largest(picture: Image, name: str) -> Face:
    """The largest face of an avatar. Raises a `ToolFailure` where there is none."""
    found = faces.found(picture)
    if not found:
        raise ToolFailure("error", f"the avatar {name} shows no face")
    return found[0]
