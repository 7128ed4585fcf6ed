"""Photographs of cases: read within limits, upright, without metadata; their faces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from genlab.benchmark.limits import FORMATS, ImageFault, check_size, read_image
from genlab.core.errors import GenlabError

if TYPE_CHECKING:  # dlib takes a second to import
    from genlab.benchmark.scoring.faces import Face

ORIENTATION = 0x0112  # tag of EXIF
TEMPLATE_SIDE = 1024  # longest side of a template in pixels
AVATAR_SIDE = 512
HEAD = 2.3  # side of an avatar in widths of its face


def read_photograph(source: Path | bytes, name: str = "the photograph") -> Image.Image:
    """Decode an image as RGB, upright as its EXIF says, without metadata.

    name: how messages call an image given as bytes. Raises a `GenlabError` where it is no JPEG, PNG
    or WebP, is truncated, or is outside the limits.
    """
    name = name if isinstance(source, bytes) else str(source)
    try:
        return read_image(source)
    except FileNotFoundError as error:
        raise GenlabError(f"{name} is missing; put the image there, or name another") from error
    except (ImageFault, OSError) as error:
        raise GenlabError(f"{name}: {error}; save it again, or scale it down") from error


def upright_size(path: Path) -> tuple[int, int]:
    """Width and height of an image file, upright. Raises as `read_photograph`."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            check_size(*image.size)
            turned = image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8)
            return (image.height, image.width) if turned else image.size
    except FileNotFoundError as error:
        raise GenlabError(f"{path} is missing; put the image there, or name another") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise GenlabError(f"{path}: {error}; save it again, or scale it down") from error


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
