"""A minimal image tool, which mirrors the template and swaps nobody."""

import asyncio
from collections.abc import Mapping
from typing import Any

from PIL import Image, ImageOps

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins.base import Needs, Option

AXES = {"horizontal": ImageOps.mirror, "vertical": ImageOps.flip}


class Mirror:
    """Return the template, mirrored."""

    tool_id = "mirror"  # also the name of the folder of its images
    title = "Mirror"
    # A tool that calls a paid service declares it:
    #     Needs(key="MY_SERVICE_KEY", cost=0.02, concurrency=2, network=True)
    # `options` are the settings of the tool: --option mirror.axis=vertical
    needs = Needs(options={"axis": Option("left for right, or top for bottom", tuple(AXES))})

    def unavailable(self) -> str:
        """Return why the tool cannot be used here, in one line; "" if it can."""
        return ""

    async def swap(self, case: Case, options: Mapping[str, Any]) -> Image.Image:
        """Return the image for a case. Long computations belong in a thread, as here.

        `case.swaps` lists each region with its avatar; `case.open_avatar(name)` opens an avatar.
        Raises `genlab.benchmark.plugins.base.ToolFailure` on failure.
        """
        turn = AXES[options.get("axis", "horizontal")]
        return await asyncio.to_thread(lambda: turn(case.open_template()))
