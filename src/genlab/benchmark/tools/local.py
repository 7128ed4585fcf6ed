"""`baseline_local`: a landmark warp that runs offline.

It does not turn a face, open a mouth, move glasses, or handle a hand in front of a face. Hair, head
and body stay the template's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image

from genlab.benchmark.plugins.base import Needs, ToolFailure
from genlab.benchmark.scoring import faces

if TYPE_CHECKING:
    from genlab.benchmark.cases import Case


class LocalSwap:
    """Swap faces by their landmarks, offline."""

    tool_id = "baseline_local"
    version = "1"
    title = "Local swap by landmarks"
    needs = Needs(concurrency=2, options={})

    def unavailable(self) -> str:
        """Why it cannot run here, "" where it can."""
        return faces.available()

    async def swap(self, case: Case, options: Mapping[str, Any]) -> PIL.Image.Image:
        """The template of `case` with every swap done; it has no options."""
        return await asyncio.to_thread(swapped_case, case)


def swapped_case(case: Case) -> PIL.Image.Image:
    """The local swap of a case. Raises a `ToolFailure` where a region or an avatar has no face."""
    from genlab.benchmark.tools.blending import NoFaceError, swapped

    avatars = [np.asarray(case.open_avatar(swap.avatar)) for swap in case.swaps]
    swaps = list(zip(regions_of(case), avatars, strict=True))
    try:
        return PIL.Image.fromarray(swapped(np.asarray(case.open_template()), swaps))
    except NoFaceError as error:
        raise ToolFailure("error", str(error)) from error


def regions_of(case: Case) -> list[faces.Box]:
    """The regions of a case's swaps as left, top, right, bottom."""
    regions = [swap.region for swap in case.swaps]
    return [(r.left, r.top, r.left + r.width, r.top + r.height) for r in regions]
