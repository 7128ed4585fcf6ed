"""Limits of the images that cases, tools and uploads bring, and the one reader that applies them.

Not protected: a decoder's memory, which reaches about 4 bytes per pixel.
"""

from __future__ import annotations

import io
import warnings
from pathlib import Path

from PIL import Image, ImageOps

FORMATS = ("JPEG", "PNG", "WEBP")
MAX_BYTES = 64 << 20  # of an encoded image
MAX_PIXELS = 50_000_000
MIN_SIDE = 64
MAX_SIDE = 16_384


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
        check_bytes(source.stat().st_size)
        source = source.read_bytes()
    if isinstance(source, bytes):
        check_bytes(len(source))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # check_size follows
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


def check_bytes(count: int) -> None:
    """Raise `ImageFault` for a file that is empty or too large."""
    if count == 0:
        raise ImageFault("it is empty")
    if count > MAX_BYTES:
        raise ImageFault(f"it has {count >> 20} MiB, over {MAX_BYTES >> 20}", wrong_size=True)


def check_size(width: int, height: int) -> None:
    """Raise `ImageFault` for sides or a number of pixels outside the limits."""
    size = f"it has {width} × {height} pixels"
    if min(width, height) < MIN_SIDE:
        raise ImageFault(f"{size}; the minimum is {MIN_SIDE} per side", wrong_size=True)
    if max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        raise ImageFault(
            f"{size}; the maximum is {MAX_PIXELS // 10**6} million and {MAX_SIDE} per side",
            wrong_size=True,
        )


def _load(image: Image.Image) -> Image.Image:
    check_size(*image.size)
    image.load()
    upright = ImageOps.exif_transpose(image)
    if upright.has_transparency_data:
        layer = upright.convert("RGBA")
        upright = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    plain = upright.convert("RGB")
    plain.info = {}
    return plain
