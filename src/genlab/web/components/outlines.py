"""Templates with the faces to replace outlined, numbered, and connected to their avatars."""

from __future__ import annotations

import base64
import io
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageDraw

from genlab.benchmark.cases import Case, Region, load_case

COLOUR = "#e8590c"
LARGE = 640
THUMBNAIL = 0.22  # side of an avatar in widths of the template


def outline(image: Image.Image, regions: Sequence[Region], chosen: Collection[int]) -> Image.Image:
    """The image with its faces outlined and numbered from 1; chosen ones have a thick line."""
    drawn = image.copy()
    pen = ImageDraw.Draw(drawn)
    for number, region in enumerate(regions, 1):
        pen.rectangle(_box(region), outline=COLOUR, width=6 if number in chosen else 2)
        size = max(18, region.height // 4)
        place = (region.left + 6, region.top + 2)
        pen.text(
            place, str(number), fill=COLOUR, font_size=size, stroke_width=1, stroke_fill="white"
        )
    return drawn


def connect(case: Case) -> str:
    """The template over its avatars, a line from each face to who replaces it, as a data URL."""
    return _connect(case.folder, case.digest)


@lru_cache(maxsize=128)
def _connect(folder: Path, digest: str) -> str:
    case = load_case(folder)
    template = case.open_template()
    side, gap = round(template.width * THUMBNAIL), round(template.width * 0.03)
    height = template.height + 2 * gap + side
    sheet = Image.new("RGB", (template.width, height), "white")
    sheet.paste(template, (0, 0))
    pen = ImageDraw.Draw(sheet)
    stroke = max(2, template.width // 200)
    ordered = sorted(case.swaps, key=lambda swap: swap.region.left)
    for number, swap in enumerate(ordered):
        left, top, right, bottom = _box(swap.region)
        x = gap + number * (side + gap)
        avatar = case.open_avatar(swap.avatar).resize((side, side), Image.Resampling.LANCZOS)
        y = template.height + gap
        sheet.paste(avatar, (x, y))
        pen.rectangle((left, top, right, bottom), outline=COLOUR, width=stroke)
        pen.rectangle((x, y, x + side, y + side), outline=COLOUR, width=stroke)
        pen.line(((left + right) / 2, bottom, x + side / 2, y), fill=COLOUR, width=stroke)
    sheet.thumbnail((LARGE, 2 * LARGE), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    sheet.save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _box(region: Region) -> tuple[int, int, int, int]:
    return (
        region.left, region.top, region.left + region.width, region.top + region.height,
    )  # fmt: skip
