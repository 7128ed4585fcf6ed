"""TIFFs of more than 8 bits keep their values and are turned upright."""

import io

import numpy as np
import pytest
import tifffile
from PIL import Image

from genlab.core.deep_tiff import turn_upright
from genlab.core.picture import ORIENTATION, decode


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pixels_are_turned_as_pillow_turns(orientation: int) -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4, 1)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    buffer = io.BytesIO()
    Image.fromarray(pixels[..., 0]).save(buffer, "PNG", exif=exif)
    plain = decode(buffer.getvalue(), "x").pixels
    np.testing.assert_array_equal(turn_upright(pixels, orientation), plain)


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_deep_tiff_is_decoded_upright_with_its_values(orientation: int) -> None:
    values = (np.arange(48, dtype=np.uint16) * 1365).reshape(6, 8)
    colours = np.stack([values, values // 2, values // 3])
    buffer = io.BytesIO()
    tifffile.imwrite(
        buffer,
        colours,
        planarconfig="separate",
        photometric="rgb",
        extratags=[(ORIENTATION, "H", 1, orientation, True)],
    )
    decoded = decode(buffer.getvalue(), "x")
    expected = turn_upright(np.moveaxis(colours, 0, -1), orientation)
    assert decoded.pixels.dtype == np.uint16
    np.testing.assert_array_equal(decoded.pixels, expected)
    assert decoded.size == expected.shape[1::-1]
    assert decoded.traits == (("16 bits", "rotated") if orientation > 1 else ("16 bits",))


def test_white_of_an_inverted_tiff_is_the_largest_value() -> None:
    values = np.array([[0, 65535]], dtype=np.uint16)
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, values, photometric="miniswhite")
    assert decode(buffer.getvalue(), "x").pixels[..., 0].tolist() == [[65535, 0]]
