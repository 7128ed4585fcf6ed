"""The content of a request for a case: PNG files and an instruction that says who becomes whom."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from genlab.benchmark.cases import Case

Size = tuple[int, int]
BORDER = (128, 128, 128)  # models preserve a plain border better than a mirrored one


@dataclass(frozen=True)
class Inputs:
    """A case as a request's content.

    images: PNG files, the template first; the instruction numbers them from 1. size: width and
    height of the template file. swaps: per person the region in the template's pixels and the
    avatar's number from 1.
    """

    title: str
    images: list[bytes]
    size: Size
    swaps: list[dict[str, Any]]
    instruction: str


def make_inputs(case: Case, sizes: Sequence[Size] = ()) -> Inputs:
    """Read a case's images and write its instruction.

    sizes: those that the tool can process; the template goes into the one of nearest aspect ratio,
    with a grey border. () = its own size.
    """
    canvas = template = case.open_template()
    if sizes:
        aspect = template.width / template.height
        size = min(sizes, key=lambda size: abs(size[0] / size[1] / aspect - 1))
        box = letterbox(template.size, size)
        inside = template.resize((box[2] - box[0], box[3] - box[1]), Image.Resampling.LANCZOS)
        canvas = Image.new("RGB", size, BORDER)
        canvas.paste(inside, box)
    names = list(dict.fromkeys(swap.avatar for swap in case.swaps))
    swaps = [
        {"avatar": names.index(swap.avatar) + 1, "region": swap.region.model_dump()}
        for swap in case.swaps
    ]
    images = []
    for image in (canvas, *map(case.open_avatar, names)):
        buffer = io.BytesIO()
        image.save(buffer, "PNG", compress_level=3)
        images.append(buffer.getvalue())
    instruction = write_instruction(swaps, template.size, canvas.size)
    return Inputs(case.title, images, canvas.size, swaps, instruction)


def write_instruction(
    swaps: Sequence[dict[str, Any]], size: Size, canvas: Size | None = None
) -> str:
    """Write the task for a model that sees the images.

    size: width and height of the template, which lies in the middle of image 1, of size `canvas`.
    """
    canvas = canvas or size
    lines = [
        "Image 1 is a photograph. Replace persons in it as follows, and change nothing else: keep"
        " framing, background, light, poses, clothes, hands and all other persons."
    ]
    left, top, right, bottom = letterbox(size, canvas)
    for swap in swaps:
        region = swap["region"]
        x = left + (region["left"] + region["width"] / 2) / size[0] * (right - left)
        y = top + (region["top"] + region["height"] / 2) / size[1] * (bottom - top)
        lines.append(
            f"The person whose face is at {x / canvas[0]:.0%} of the width from the left and"
            f" {y / canvas[1]:.0%} of the height from the top becomes the person of image"
            f" {swap['avatar'] + 1}: that person's face, head and hair, with the pose and"
            " expression of the person replaced."
        )
    lines.append("Answer with one photograph of the same size that looks as if taken so.")
    return "\n".join(lines)


def letterbox(size: Size, canvas: Size) -> tuple[int, int, int, int]:
    """Fit an image of `size` into the middle of a canvas: left, top, right, bottom."""
    scale = min(canvas[0] / size[0], canvas[1] / size[1])
    width = round(size[0] * scale)
    height = round(size[1] * scale)
    left = (canvas[0] - width) // 2
    top = (canvas[1] - height) // 2
    return left, top, left + width, top + height
