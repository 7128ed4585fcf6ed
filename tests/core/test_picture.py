"""A picture is decoded as it is meant to be seen."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms
from profiles import SPACES, encode_in, make_profile

from genlab.core import picture
from genlab.core.picture import (
    ORIENTATION,
    UnreadablePictureError,
    decode,
    is_picture,
)

RED = (200, 30, 20)
BLUE = (20, 30, 200)


def encode(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def two_tones(mode: str = "RGB", side: int = 16) -> Image.Image:
    """Red above, blue below."""
    pixels = np.empty((side, side, 3), dtype=np.uint8)
    pixels[: side // 2] = RED
    pixels[side // 2 :] = BLUE
    return Image.fromarray(pixels).convert(mode)


def exif_of(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


TRANSPOSE = Image.Transpose
# What undoes an orientation of EXIF.
INVERSE = {
    2: TRANSPOSE.FLIP_LEFT_RIGHT, 3: TRANSPOSE.ROTATE_180, 4: TRANSPOSE.FLIP_TOP_BOTTOM,
    5: TRANSPOSE.TRANSPOSE, 6: TRANSPOSE.ROTATE_90, 7: TRANSPOSE.TRANSVERSE,
    8: TRANSPOSE.ROTATE_270,
}  # fmt: skip


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_a_photograph_is_upright_in_every_format(kind: str, orientation: int) -> None:
    stored = two_tones()
    if orientation > 1:
        stored = stored.transpose(INVERSE[orientation])
    options = {"quality": 95} if kind in ("JPEG", "WEBP") else {}
    pixels = decode(encode(stored, kind, exif=exif_of(orientation), **options), "x").pixels
    assert np.abs(pixels[2, 8].astype(int) - RED).max() < 12
    assert np.abs(pixels[13, 8].astype(int) - BLUE).max() < 12


def test_sixteen_bits_keep_their_values() -> None:
    values = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
    grey = decode(encode(Image.fromarray(values)), "x")
    assert grey.pixels.dtype == np.uint16
    np.testing.assert_array_equal(grey.pixels[..., 0], values)
    assert "16 bits" in grey.traits


def test_a_profile_is_converted_to_srgb() -> None:
    lab = ImageCms.createProfile("LAB")
    wide = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    image = two_tones()
    same = decode(encode(image, icc_profile=wide), "x")
    np.testing.assert_array_equal(same.pixels, np.asarray(image))
    assert "profile" not in same.traits
    foreign = ImageCms.ImageCmsProfile(lab).tobytes()
    damaged = decode(encode(image, icc_profile=foreign[:100] + b"\0" * 100), "x")
    np.testing.assert_array_equal(damaged.pixels, np.asarray(image))
    assert "profile unreadable" in damaged.traits


@pytest.mark.parametrize("name", SPACES)
def test_a_profile_counts_and_not_its_name(name: str) -> None:
    """GIMP embeds "GIMP built-in Linear sRGB": the primaries of sRGB and another curve."""
    image = two_tones()
    stored = Image.open(io.BytesIO(encode_in(image, name)))
    assert np.abs(np.asarray(stored.convert("RGB")).astype(int) - np.asarray(image)).max() > 10
    kinds = {"whole": stored, "palette": stored.quantize(), "layered": stored.convert("RGBA")}
    for kind, picture_ in kinds.items():
        pixels = decode(encode(picture_, icc_profile=make_profile(name)), kind).pixels
        assert np.abs(pixels.astype(int) - np.asarray(image)).max() <= 6, kind


def test_transparency_lies_over_the_background() -> None:
    image = two_tones("RGBA")
    image.putalpha(Image.fromarray(np.repeat(np.uint8([[0], [255]]), 8, 0).repeat(16, 1)))
    over_black = decode(encode(image), "x", background="black")
    assert over_black.pixels[2, 2].tolist() == [0, 0, 0]
    assert over_black.pixels[13, 2].tolist() == list(BLUE)
    assert decode(encode(image.quantize()), "x").pixels[2, 2].tolist() == [255, 255, 255]


@pytest.mark.parametrize("mode", ["CMYK", "P", "1", "L", "LA"])
def test_other_modes_become_grey_or_colour(mode: str) -> None:
    image = two_tones("RGB").quantize() if mode == "P" else two_tones(mode)
    data = encode(image, "TIFF" if mode == "CMYK" else "PNG")
    pixels = decode(data, "x").pixels
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == (1 if mode in ("1", "L") else 3)


def test_an_animation_shows_its_first_frame() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    animation = encode(frames[0], "GIF", save_all=True, append_images=frames[1:])
    decoded = decode(animation, "x")
    assert decoded.pixels[0, 0].tolist() == [255, 0, 0]
    assert "frames" in decoded.traits


def test_a_large_jpeg_is_reduced_while_it_is_decoded() -> None:
    image = two_tones(side=512)
    reduced = decode(encode(image, "JPEG", quality=95), "x", side=32)
    assert reduced.pixels.shape == (64, 64, 3)
    assert reduced.size == (512, 512)
    assert np.abs(reduced.pixels[10, 10].astype(int) - RED).max() < 12


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"<html>not found</html>", "no picture"),
        (encode(two_tones(side=64))[:90], "damaged"),
        (b"\0\0\0\x18ftypheic\0\0\0\0" + bytes(40), "HEIC|damaged"),
    ],
    ids=["empty", "page", "truncated", "heic"],
)
def test_what_cannot_be_read_names_the_file(data: bytes, words: str) -> None:
    with pytest.raises(UnreadablePictureError, match=words) as refused:
        decode(data, "holiday/1.png")
    assert str(refused.value.path) == "holiday/1.png"


def test_a_picture_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "MAX_PIXELS", 100)
    with pytest.raises(UnreadablePictureError) as refused:
        decode(encode(two_tones()), "scan.png")
    assert (str(refused.value.path), refused.value.fix) == ("scan.png", "reduce it")


def test_pictures_are_told_by_their_content() -> None:
    for kind in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "AVIF", "PPM"):
        assert is_picture(encode(two_tones(), kind)[:16]), kind
    assert not is_picture(b"name,label\n1.png")


@pytest.mark.parametrize("turned", [False, True])
def test_heic_is_read_upright_where_the_extra_is_installed(turned: bool) -> None:
    heif = pytest.importorskip("pillow_heif", reason="the extra formats is not installed")
    image = two_tones(side=64)
    exif = exif_of(6) if turned else Image.Exif()
    if turned:
        image = image.rotate(90)
    buffer = io.BytesIO()
    heif.from_pillow(image).save(buffer, quality=95, exif=exif.tobytes())
    pixels = decode(buffer.getvalue(), "photo.heic").pixels.astype(int)
    assert abs(pixels[8, 8] - RED).max() < 8
    assert abs(pixels[56, 56] - BLUE).max() < 8


def test_avif_is_read_by_pillow() -> None:
    pixels = decode(encode(two_tones(side=64), "AVIF", quality=95), "photo.avif").pixels.astype(int)
    assert abs(pixels[8, 8] - RED).max() < 8
