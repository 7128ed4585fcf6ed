"""What a tool sends for a case: PNG files and an instruction that says who becomes whom."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins.base import Part

Size = tuple[int, int]
WHOLE: Part = (0.0, 0.0, 1.0, 1.0)
BORDER = (128, 128, 128)  # models keep a plain border better than a mirrored one


@dataclass(frozen=True)
class Inputs:
    """A case as a request's content.

    template, avatars: PNG files; the instruction calls the template image 1 and the avatars
    image 2 and following. size: width and height of the template file. part: the share of it that
    is the template. swaps: per person the region in the template's pixels and the avatar's number
    from 1.
    """

    template: bytes
    avatars: tuple[bytes, ...]
    size: Size
    part: Part
    swaps: list[dict[str, Any]]
    instruction: str

    @property
    def images(self) -> list[bytes]:
        """Template and avatars."""
        return [self.template, *self.avatars]


def make_inputs(case: Case, sizes: Sequence[Size] = ()) -> Inputs:
    """Read a case's images and write its instruction.

    sizes: those that the tool can process; the template goes into the one of nearest aspect ratio,
    with a grey border. () = its own size.
    """
    template = case.open_template()
    canvas, part = template, WHOLE
    if sizes:
        aspect = template.width / template.height
        canvas, part = letterbox(template, min(sizes, key=lambda s: abs(s[0] / s[1] / aspect - 1)))
    names = list(dict.fromkeys(swap.avatar for swap in case.swaps))
    swaps = [
        {"avatar": names.index(swap.avatar) + 1, "region": swap.region.model_dump()}
        for swap in case.swaps
    ]
    return Inputs(
        encode_png(canvas),
        tuple(encode_png(case.open_avatar(name)) for name in names),
        canvas.size,
        part,
        swaps,
        write_instruction(swaps, template.size, part),
    )


def write_instruction(swaps: Sequence[dict[str, Any]], size: Size, part: Part = WHOLE) -> str:
    """The task in words, for a model that sees the images.

    size: width and height of the template, which fills `part` of image 1.
    """
    lines = [
        "Image 1 is a photograph. Replace persons in it as follows, and change nothing else: keep"
        " framing, background, light, poses, clothes, hands and all other persons."
    ]
    for swap in swaps:
        x, y = center(swap["region"], size)
        x, y = part[0] + (part[2] - part[0]) * x, part[1] + (part[3] - part[1]) * y
        lines.append(
            f"The person whose face is at {x:.0%} of the width from the left and {y:.0%} of the"
            f" height from the top becomes the person of image {swap['avatar'] + 1}: that person's"
            " face, head and hair, with the pose and expression of the person replaced."
        )
    lines.append("Answer with one photograph of the same size that looks as if taken so.")
    return "\n".join(lines)


def describe(case: Case) -> str:
    """The case in words, for a model that sees no images."""
    count = len(case.swaps)
    persons = "a person" if count == 1 else f"{count} persons"
    return f"A photograph of {persons}, faces clearly visible. {case.title}."


def center(region: dict[str, int], size: Size) -> tuple[float, float]:
    """The centre of a region as shares of the width and height."""
    x = (region["left"] + region["width"] / 2) / size[0]
    return x, (region["top"] + region["height"] / 2) / size[1]


def letterbox(image: Image.Image, size: Size) -> tuple[Image.Image, Part]:
    """The whole image centred on a canvas of `size`, and the part of it that it fills."""
    scale = min(size[0] / image.width, size[1] / image.height)
    width, height = round(image.width * scale), round(image.height * scale)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    canvas = Image.new("RGB", size, BORDER)
    canvas.paste(image.resize((width, height), Image.Resampling.LANCZOS), (left, top))
    part = (left / size[0], top / size[1], (left + width) / size[0], (top + height) / size[1])
    return canvas, part


def encode_png(image: Image.Image) -> bytes:
    """The image as a PNG file."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()
