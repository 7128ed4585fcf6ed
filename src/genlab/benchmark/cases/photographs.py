"""Read photographs within limits, upright and without metadata, and crop their faces.

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
from genlab.core.picture import ORIENTATION, make_plain

if TYPE_CHECKING:
    from genlab.benchmark.scoring.faces import Face

FORMATS = ("JPEG", "PNG", "WEBP")
MAX_BYTES = 64 << 20  # of an encoded image
MAX_PIXELS = 50_000_000
ASPECT = 0.02  # relative difference up to which two aspect ratios count as the same
MIN_SIDE = 64
MAX_SIDE = 16_384
TEMPLATE_SIDE = 1024  # longest side of a template in pixels
AVATAR_SIDE = 512
HEAD = 2.3  # side of an avatar in widths of its face


class ImageFault(GenlabError):  # noqa: N818 - may be an outcome of a tool
    """An image that cannot be used; `wrong_size` says whether its size is the reason."""

    def __init__(self, reason: str, *, wrong_size: bool = False) -> None:
        super().__init__(reason)
        self.wrong_size = wrong_size


def read_photograph(source: bytes | Path | Image.Image, name: str = "") -> Image.Image:
    """Read an image completely: sRGB, upright by its EXIF rotation, without metadata.

    Transparent pixels become white, as a page shows them. name: what messages call an image that
    is not a file. Raises `ImageFault` for a missing file, another format, a truncated file and an
    image outside the limits.
    """
    name = name or (str(source) if isinstance(source, Path) else "the photograph")
    start = source[:40] if isinstance(source, bytes) else b""
    with _image_faults(name, start), warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # _check_size follows
        if isinstance(source, Image.Image):
            return _load(source, name)
        count = source.stat().st_size if isinstance(source, Path) else len(source)
        if not 0 < count <= MAX_BYTES:
            reason = f"it has {count >> 20} MiB, over {MAX_BYTES >> 20}" if count else "it is empty"
            raise ImageFault(f"{name}: {reason}", wrong_size=count > 0)
        file = source if isinstance(source, Path) else io.BytesIO(source)
        with Image.open(file, formats=FORMATS) as image:
            return _load(image, name)


def upright_size(path: Path) -> tuple[int, int]:
    """Width and height of an image file, upright. Raises as `read_photograph`."""
    with _image_faults(str(path)), Image.open(path, formats=FORMATS) as image:
        _check_size(image, str(path))
        turned = image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8)
        return (image.height, image.width) if turned else image.size


def same_shape(first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Whether two sizes (width, height) have nearly the same aspect ratio."""
    ratio = (first[0] / first[1]) / (second[0] / second[1])
    return 1 / (1 + ASPECT) <= ratio <= 1 + ASPECT


def shrink(image: Image.Image, longest: int) -> Image.Image:
    """Return a copy whose longer side is at most `longest` pixels."""
    image = image.copy()
    image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return image


def crop_avatar(image: Image.Image, name: str = "the photograph") -> Image.Image:
    """Crop head and shoulders of the only person; bystanders in the background do not count.

    Raises a `GenlabError` where there is no person or more than one.
    """
    from genlab.benchmark.scoring import faces  # OpenCV is an extra
    from genlab.benchmark.scoring.persons import drop_bystanders

    persons = drop_bystanders(faces.detect(np.asarray(image)))
    if len(persons) != 1:
        count = "no face is found" if not persons else f"{len(persons)} faces are found"
        raise GenlabError(f"{name}: {count}; an avatar shows one person, from the front")
    return crop_head(image, persons[0])


def crop_head(image: Image.Image, face: Face) -> Image.Image:
    """Crop head and shoulders around a face, at most AVATAR_SIDE pixels per side."""
    left, top, right, bottom = face.box
    half = HEAD * max(right - left, bottom - top) / 2
    x = (left + right) / 2
    y = (top + bottom) / 2
    crop = image.crop(
        (
            max(0.0, x - half),
            max(0.0, y - half),
            min(float(image.width), x + half),
            min(float(image.height), y + half),
        )
    )
    return shrink(crop, AVATAR_SIDE)


@contextmanager
def _image_faults(name: str, start: bytes = b"") -> Iterator[None]:
    """Raise every error of reading an image as an `ImageFault`; start: its first bytes."""
    try:
        yield
    except ImageFault:
        raise
    except FileNotFoundError as error:
        raise ImageFault(f"{name} is missing; put the image there, or name another") from error
    except Exception as error:  # decoders raise whatever their libraries do
        reason = f"it is truncated or not a JPEG, PNG or WebP image ({error})"
        reason += f"; it starts with {start!r}" if start else ""
        too_large = isinstance(error, Image.DecompressionBombError)
        raise ImageFault(f"{name}: {reason}", wrong_size=too_large) from error


def _check_size(image: Image.Image, name: str) -> None:
    width, height = image.size
    limits = ""
    if min(width, height) < MIN_SIDE:
        limits = f"the minimum is {MIN_SIDE} per side"
    elif max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        limits = f"the maximum is {MAX_PIXELS // 10**6} million and {MAX_SIDE} per side"
    if limits:
        reason = f"it has {width} × {height} pixels; {limits}"
        raise ImageFault(f"{name}: {reason}", wrong_size=True)


def _load(image: Image.Image, name: str) -> Image.Image:
    _check_size(image, name)
    image.load()
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I;16"):  # grey of 16 bits, which convert() would clip
        upright = Image.fromarray((np.asarray(upright) >> 8).astype(np.uint8))
    plain = make_plain(upright, "white", []).convert("RGB")
    plain.info = {}
    return plain
