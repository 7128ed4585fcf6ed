"""Decode a picture as it is meant to be seen: upright, in sRGB, one frame.

Not protected: the memory of decoders, which is up to about 4 bytes per pixel.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageCms, ImageOps

from genlab.core.deep_tiff import Pixels, decode_page, describe_depth, is_deep
from genlab.core.errors import GenlabError

# Formats of Pillow that it decodes in this process, without another program.
FORMATS = (
    "JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "PPM", "JPEG2000", "AVIF", "HEIF",
    "TGA", "ICO",
)  # fmt: skip
SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".dib", ".tif", ".tiff",
    ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".avif", ".heic", ".heif", ".tga", ".ico",
)  # fmt: skip
MAX_PIXELS = 300_000_000  # larger pictures are refused
ORIENTATION = 0x0112  # tag of EXIF
MARGIN = 2  # a JPEG is decoded at this many times the requested side, or more
HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")
STARTS = (
    b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"P1", b"P2", b"P3", b"P4",
    b"P5", b"P6", b"\0\0\0\x0cjP  ",
)  # fmt: skip
EIGHT_BITS = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "CMYK", "YCbCr", "LAB", "HSV"}


@dataclass(frozen=True, eq=False)
class DecodedPicture:
    """A decoded picture.

    pixels: (height, width, 1 or 3); uint8, or uint16, int32 or float32 if the file has more than 8
    bits, on a scale that the file does not state. size: width and height of the file's picture,
    upright. traits: properties and conversions, such as `rotated`, `16 bits`, `profile`,
    `transparent`, `frames`.
    """

    pixels: Pixels
    size: tuple[int, int]
    traits: tuple[str, ...] = ()


class UnreadablePictureError(GenlabError):
    """A picture cannot be read."""


def is_picture(start: bytes) -> bool:
    """Whether a file is a picture, by its first 16 bytes and whatever its name."""
    if start[4:8] == b"ftyp":
        return start[8:12] in (*HEIF_BRANDS, b"avif", b"avis")
    return start.startswith(STARTS) or (start[:4] == b"RIFF" and start[8:12] == b"WEBP")


def decode(
    data: bytes, name: str, *, side: int = 0, background: str = "white", frame: int = 0
) -> DecodedPicture:
    """Decode an encoded picture.

    side: side of the square that the picture will be reduced to, so that a JPEG can be decoded at a
    reduced size, MARGIN times that or more; 0 decodes at full size. background: colour behind
    transparent pixels. frame: number of the frame or page. Raises UnreadablePictureError, which
    contains `name`.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sizes, which are checked, and damaged metadata
            return _decode(data, side, background, frame)
    except UnreadablePictureError as error:
        raise UnreadablePictureError(f"{name}: {error}", path=name, fix=error.fix) from error
    except Exception as error:  # decoders raise exceptions of many libraries
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise UnreadablePictureError(
            f"{name}: {_explain_failure(data, reason)}", path=name
        ) from error


def _explain_failure(data: bytes, reason: str) -> str:
    if not data:
        return "it is empty"
    if data[4:8] == b"ftyp" and data[8:12] in HEIF_BRANDS and not _has_heif():
        return "a HEIC picture needs an extra: pip install -e '.[formats]'"
    if not is_picture(data[:16]):
        return f"no picture; it starts with {data[:12]!r}"
    return f"damaged ({reason})"


def count_frames(data: bytes) -> int:
    """Return the number of frames or pages of an encoded picture; 1 if it cannot be opened."""
    try:
        with Image.open(io.BytesIO(data), formats=_list_formats()) as image:
            return int(getattr(image, "n_frames", 1))
    except Exception:  # decoders raise exceptions of many libraries; decode() explains them
        return 1


@cache
def _list_formats() -> tuple[str, ...]:
    """List the FORMATS that the installed Pillow can open."""
    _has_heif()
    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


@cache
def _has_heif() -> bool:
    """Register HEIC with Pillow; whether pillow-heif is installed."""
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return False
    register_heif_opener()
    return True


def _decode(data: bytes, side: int, background: str, frame: int) -> DecodedPicture:
    # Pillow refuses a picture of more than twice this, before its size can be checked here.
    Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS or 0, MAX_PIXELS)
    with Image.open(io.BytesIO(data), formats=_list_formats()) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            limit = f"at most {MAX_PIXELS // 10**6} million are read"
            raise UnreadablePictureError(
                f"it has {width} × {height} pixels; {limit}", fix="reduce it"
            )
        traits = ["frames"] if getattr(image, "n_frames", 1) > 1 else []
        if frame:
            image.seek(frame)
        if image.format == "TIFF" and is_deep(image):
            pixels, page_traits = decode_page(data, frame)
            return DecodedPicture(pixels, pixels.shape[1::-1], (*traits, *page_traits))
        if side and image.format in ("JPEG", "MPO"):
            scale = MARGIN * side / min(width, height)
            image.draft(None, (int(width * scale), int(height * scale)))
            traits += ["reduced"] if image.size != (width, height) else []
        orientation = image.getexif().get(ORIENTATION, 1)  # before load(), which rotates a TIFF
        image.load()
        upright = image if orientation == 1 else ImageOps.exif_transpose(image)
        size = (height, width) if orientation in (5, 6, 7, 8) else (width, height)
        traits += ["rotated"] if orientation in range(2, 9) else []
        if upright.mode not in EIGHT_BITS:
            pixels = np.asarray(upright)
            dtype = pixels.dtype.newbyteorder("=")
            if upright.mode == "I" and image.format in ("PPM", "PNG"):  # 16 bits, read as 32
                dtype = np.dtype(np.uint16)
            traits.append(describe_depth(dtype))
            return DecodedPicture(pixels.astype(dtype)[..., None], size, tuple(traits))
        plain = make_plain(upright, background, traits)
        pixels = np.asarray(plain)
        return DecodedPicture(pixels.reshape(*pixels.shape[:2], -1), size, tuple(traits))


def make_plain(image: Image.Image, background: str, traits: list[str]) -> Image.Image:
    """Convert an image of 8 bits to L or RGB in sRGB; append what was done to `traits`."""
    icc = image.info.get("icc_profile")
    alpha = None
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        image = rgba.convert("RGB")
        alpha = rgba.getchannel("A")
        if alpha.getextrema()[0] == 255:  # opaque everywhere
            alpha = None
    if image.mode in ("CMYK", "P", "1"):
        traits.append({"CMYK": "CMYK", "P": "palette", "1": "1 bit"}[image.mode])
        image = image.convert("RGB") if image.mode == "P" else image
    if icc and image.mode in ("RGB", "L", "CMYK") and not _is_srgb(icc):
        image = _convert_profile(image, icc, traits)
    plain = image if image.mode == "L" else image.convert("L" if image.mode == "1" else "RGB")
    if alpha is not None:
        traits.append("transparent")
        plain = plain.convert("RGB")
        plain = Image.composite(plain, Image.new("RGB", plain.size, background), alpha)
    return plain


@cache
def _is_srgb(icc: bytes) -> bool:
    """Whether a profile's colours are those of sRGB, within two levels.

    Names of profiles do not tell: "GIMP built-in Linear sRGB" has another curve.
    """
    levels = np.linspace(0, 255, 18).round().astype(np.uint8)
    probe = np.stack(np.meshgrid(levels, levels, levels[::4]), axis=-1).reshape(18, -1, 3)
    try:
        converted = _to_srgb(Image.fromarray(probe), icc)
    except (ImageCms.PyCMSError, OSError, ValueError):
        return False
    return int(np.abs(np.asarray(converted).astype(int) - probe).max()) <= 2


def _convert_profile(image: Image.Image, icc: bytes, traits: list[str]) -> Image.Image:
    """Convert colours to sRGB; a picture whose profile cannot be applied is left unchanged."""
    try:
        converted = _to_srgb(image, icc)
    except (ImageCms.PyCMSError, OSError, ValueError):
        traits.append("profile unreadable")
        return image
    traits.append("profile")
    return converted


def _to_srgb(image: Image.Image, icc: bytes) -> Image.Image:
    profile = ImageCms.ImageCmsProfile(io.BytesIO(icc))
    srgb = ImageCms.createProfile("sRGB")
    return ImageCms.profileToProfile(image, profile, srgb, outputMode="RGB") or image
