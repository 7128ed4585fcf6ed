"""Decode TIFFs of more than 8 bits per sample, which Pillow may misread, and pages of stacks."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

Pixels = npt.NDArray[Any]

MIN_IS_WHITE = 0  # value of TIFF's tag PhotometricInterpretation


def is_deep(image: Image.Image) -> bool:
    """Whether a TIFF has more than 8 bits per sample; Pillow may misread these."""
    bits = image.tag_v2.get(258, (1,))  # type: ignore[attr-defined]
    return bool(max(bits if isinstance(bits, tuple) else (bits,)) > 8)


def decode_page(data: bytes, page: int) -> tuple[Pixels, list[str]]:
    """Decode a page of an encoded TIFF; see `read_page`."""
    import tifffile

    with tifffile.TiffFile(io.BytesIO(data)) as file:
        return read_page(file.pages[page])


def read_page(page: Any) -> tuple[Pixels, list[str]]:
    """Decode an open page of tifffile, upright. Raises the exceptions of its decoders.

    Returns pixels (height, width, 1 or 3), and properties and conversions such as `16 bits`.
    """
    pixels = page.asarray()
    if "S" in page.axes and not page.axes.endswith("S"):  # planes one after another
        pixels = np.moveaxis(pixels, page.axes.index("S"), -1)
    if page.photometric == MIN_IS_WHITE and pixels.dtype.kind == "u":
        pixels = np.iinfo(pixels.dtype).max - pixels
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    tag = page.tags.get("Orientation")
    orientation = int(tag.value) if tag else 1
    pixels = turn_upright(pixels, orientation)
    traits = []
    if pixels.dtype != np.uint8:
        traits.append(describe_depth(pixels.dtype))
    if orientation > 1:
        traits.append("rotated")
    if pixels.shape[2] not in (1, 3):  # alpha, or further samples
        pixels = pixels[..., : 3 if pixels.shape[2] > 3 else 1]
        traits.append("samples left")
    return pixels, traits


def turn_upright(pixels: Pixels, orientation: int) -> Pixels:
    """Rotate and mirror pixels (height, width, channels) by an EXIF orientation, 1 to 8."""
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def describe_depth(dtype: np.dtype[Any]) -> str:
    """Return the trait of a type of more than 8 bits: `16 bits`, `32 bits` or `floats`."""
    return "floats" if dtype.kind == "f" else f"{8 * dtype.itemsize} bits"
