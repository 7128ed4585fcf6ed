"""A minimal image tool: it mirrors the template and swaps nobody."""

import asyncio
from collections.abc import Mapping
from typing import Any

from PIL import Image, ImageOps

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins.base import Needs, Option

AXES = {"horizontal": ImageOps.mirror, "vertical": ImageOps.flip}


class Mirror:
    """The template, mirrored."""

    tool_id = "mirror"  # also the name of the folder its images go to
    title = "Mirror"
    # A tool behind a paid service says so:
    #     Needs(key="MY_SERVICE_KEY", cost=0.02, concurrency=2, network=True)
    # `options` are its settings: --option mirror.axis=vertical
    needs = Needs(options={"axis": Option("left for right, or top for bottom", tuple(AXES))})

    def unavailable(self) -> str:
        """Why it can't be used here, one line; "" where it can."""
        return ""

    async def swap(self, case: Case, options: Mapping[str, Any]) -> Image.Image:
        """The image of a case. Work that takes long belongs in a thread, as here.

        `case.swaps` says which region becomes which avatar; `case.open_avatar(name)` opens one.
        A failure is raised as `genlab.benchmark.plugins.base.ToolFailure`.
        """
        turn = AXES[options.get("axis", "horizontal")]
        return await asyncio.to_thread(lambda: turn(case.open_template()))
