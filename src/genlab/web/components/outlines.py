"""Templates with the faces to replace outlined, numbered, and connected to their avatars."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import streamlit as st
from PIL import Image, ImageDraw

from genlab.benchmark.cases import Case, Region
from genlab.web.components.look import data_url

COLOUR = "#e8590c"


def outline(image: Image.Image, regions: Sequence[Region], chosen: Collection[int]) -> Image.Image:
    """The image with its faces outlined and numbered from 1; chosen ones have a thick line."""
    drawn = image.copy()
    pen = ImageDraw.Draw(drawn)
    for number, region in enumerate(regions, 1):
        pen.rectangle(_box(region), outline=COLOUR, width=6 if number in chosen else 2)
        place, size = (region.left + 6, region.top + 2), max(18, region.height // 4)
        pen.text(place, str(number), COLOUR, font_size=size, stroke_width=1, stroke_fill="white")
    return drawn


@st.cache_data(max_entries=128, show_spinner=False, hash_funcs={Case: lambda case: case.digest})
def connect(case: Case) -> str:
    """The template over its avatars, a line from each face to who replaces it, as a data URL."""
    template = case.open_template()
    side, gap = round(template.width * 0.22), round(template.width * 0.03)
    top = template.height + gap
    sheet = Image.new("RGB", (template.width, top + side + gap), "white")
    sheet.paste(template, (0, 0))
    pen = ImageDraw.Draw(sheet)
    stroke = max(2, template.width // 200)
    for number, swap in enumerate(sorted(case.swaps, key=lambda swap: swap.region.left)):
        face = _box(swap.region)
        left = gap + number * (side + gap)
        avatar = case.open_avatar(swap.avatar).resize((side, side), Image.Resampling.LANCZOS)
        sheet.paste(avatar, (left, top))
        pen.rectangle(face, outline=COLOUR, width=stroke)
        pen.rectangle((left, top, left + side, top + side), outline=COLOUR, width=stroke)
        middle = ((face[0] + face[2]) / 2, face[3])
        pen.line((*middle, left + side / 2, top), fill=COLOUR, width=stroke)
    sheet.thumbnail((640, 1280), Image.Resampling.LANCZOS)
    return data_url(sheet, "jpeg")


def _box(region: Region) -> tuple[int, int, int, int]:
    right, bottom = region.left + region.width, region.top + region.height
    return region.left, region.top, right, bottom
