"""Photographs: read within limits, upright, without metadata; crops of their faces.

Not protected: a decoder's memory, which reaches about 4 bytes per pixel.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps

from genlab.core.errors import GenlabError

if TYPE_CHECKING:  # dlib takes a second to import
    from genlab.benchmark.scoring.faces import Face

FORMATS = ("JPEG", "PNG", "WEBP")
MAX_BYTES = 64 << 20  # of an encoded image
MAX_PIXELS = 50_000_000
MIN_SIDE = 64
MAX_SIDE = 16_384
ORIENTATION = 0x0112  # tag of EXIF
TEMPLATE_SIDE = 1024  # longest side of a template in pixels
AVATAR_SIDE = 512
HEAD = 2.3  # side of an avatar in widths of its face


class ImageFault(ValueError):  # noqa: N818 - an outcome of a tool, not a bug
    """An image that cannot be used; `wrong_size` says whether its size is the reason."""

    def __init__(self, reason: str, *, wrong_size: bool = False) -> None:
        super().__init__(reason)
        self.wrong_size = wrong_size


def read_image(source: bytes | Path | Image.Image) -> Image.Image:
    """Read an image completely: RGB, upright by its EXIF rotation, without metadata.

    Transparent pixels become white, as a page shows them. Raises `ImageFault` for another format,
    a truncated file and an image outside the limits, `OSError` for a path that cannot be read.
    """
    if isinstance(source, Path):
        _check_bytes(source.stat().st_size)
        source = source.read_bytes()
    if isinstance(source, bytes):
        _check_bytes(len(source))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # _check_size follows
            if isinstance(source, Image.Image):
                return _load(source)
            with Image.open(io.BytesIO(source), formats=FORMATS) as image:
                return _load(image)
    except ImageFault:
        raise
    except Image.DecompressionBombError as error:
        raise ImageFault(str(error), wrong_size=True) from error
    except Exception as error:  # decoders raise whatever their libraries do
        start = f"; it starts with {source[:40]!r}" if isinstance(source, bytes) else ""
        raise ImageFault(
            f"it is truncated or not a JPEG, PNG or WebP image ({error}){start}"
        ) from error


def read_photograph(source: Path | bytes, name: str = "the photograph") -> Image.Image:
    """Read an image as `read_image` does.

    name: how messages call an image given as bytes. Raises a `GenlabError` where it is no JPEG, PNG
    or WebP, is truncated, or is outside the limits.
    """
    with _named(name if isinstance(source, bytes) else str(source)):
        return read_image(source)


def upright_size(path: Path) -> tuple[int, int]:
    """Width and height of an image file, upright. Raises as `read_photograph`."""
    with _named(str(path)), Image.open(path, formats=FORMATS) as image:
        _check_size(*image.size)
        turned = image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8)
        return (image.height, image.width) if turned else image.size


def shrink(image: Image.Image, longest: int) -> Image.Image:
    """A copy with the longer side at most `longest`."""
    image = image.copy()
    image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return image


def find_faces(image: Image.Image) -> list[Face]:
    """Faces of an image from left to right."""
    from genlab.benchmark.scoring import faces

    return sorted(faces.found(np.asarray(image)), key=lambda face: face.box)


def crop_avatar(image: Image.Image, name: str = "the photograph") -> Image.Image:
    """Head and shoulders of the one person shown. Raises a `GenlabError` where there is not one."""
    found = find_faces(image)
    if len(found) != 1:
        count = "no face is found" if not found else f"{len(found)} faces are found"
        raise GenlabError(f"{name}: {count}; an avatar shows one person, from the front")
    return crop_head(image, found[0])


def crop_head(image: Image.Image, face: Face) -> Image.Image:
    """Head and shoulders around a face, at most AVATAR_SIDE pixels per side."""
    left, top, right, bottom = face.box
    half = HEAD * max(right - left, bottom - top) / 2
    x, y = (left + right) / 2, (top + bottom) / 2
    low = (max(0.0, x - half), max(0.0, y - half))
    high = (min(float(image.width), x + half), min(float(image.height), y + half))
    return shrink(image.crop((*low, *high)), AVATAR_SIDE)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Turn the errors of reading an image into a `GenlabError` that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise GenlabError(f"{name} is missing; put the image there, or name another") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise GenlabError(f"{name}: {error}; save it again, or scale it down") from error


def _check_bytes(count: int) -> None:
    if count == 0:
        raise ImageFault("it is empty")
    if count > MAX_BYTES:
        raise ImageFault(f"it has {count >> 20} MiB, over {MAX_BYTES >> 20}", wrong_size=True)


def _check_size(width: int, height: int) -> None:
    size = f"it has {width} × {height} pixels"
    if min(width, height) < MIN_SIDE:
        raise ImageFault(f"{size}; the minimum is {MIN_SIDE} per side", wrong_size=True)
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        limits = f"{MAX_PIXELS // 10**6} million and {MAX_SIDE} per side"
        raise ImageFault(f"{size}; the maximum is {limits}", wrong_size=True)


def _load(image: Image.Image) -> Image.Image:
    _check_size(*image.size)
    image.load()
    upright = ImageOps.exif_transpose(image)
    if upright.has_transparency_data:
        layer = upright.convert("RGBA")
        upright = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    plain = upright.convert("RGB")
    plain.info = {}
    return plain
