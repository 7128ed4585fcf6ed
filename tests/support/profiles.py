"""Colour profiles (ICC.1:2010) of a matrix and a curve, as cameras and screens embed them."""

import io
import struct
from typing import Any

from PIL import Image, ImageCms

SRGB_CURVE = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
# Columns of red, green and blue in the connection space (D50), and the curve: a gamma, or the five
# parameters of a power with a straight start.
SPACES: dict[str, tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]] = {
    "Display P3": (
        ((0.51512, 0.24120, -0.00105), (0.29198, 0.69225, 0.04189), (0.15710, 0.06657, 0.78407)),
        SRGB_CURVE,
    ),
    "Adobe RGB (1998)": (
        ((0.60974, 0.31111, 0.01947), (0.20528, 0.62567, 0.06087), (0.14919, 0.06322, 0.74457)),
        (563 / 256,),
    ),
    "sRGB, linear": (
        ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410)),
        (1.0,),
    ),
}


def make_profile(name: str) -> bytes:
    """Return the ICC profile of one of SPACES."""
    columns, curve = SPACES[name]
    words = name.encode("utf-16-be")
    text = b"mluc" + struct.pack(">5I", 0, 1, 12, 0x656E5553, len(words)) + struct.pack(">I", 28)
    tags = {b"desc": text + words, b"cprt": text + words, b"wtpt": _xyz((0.9642, 1.0, 0.82491))}
    power = b"para" + struct.pack(">IHH", 0, 3 if len(curve) > 1 else 0, 0)
    power += b"".join(map(_fixed, curve))
    for letter, column in zip((b"r", b"g", b"b"), columns, strict=True):
        tags |= {letter + b"XYZ": _xyz(column), letter + b"TRC": power}
    table = b""
    body = b""
    start = 132 + 12 * len(tags)  # where the body begins: after header and table of tags
    for tag, data in tags.items():
        data += b"\0" * (-len(data) % 4)
        table += tag + struct.pack(">2I", start + len(body), len(data))
        body += data
    head = struct.pack(
        ">I4sI4s4s4s", start + len(body), b"lcms", 0x04300000, b"mntr", b"RGB ", b"XYZ "
    )
    head += struct.pack(">6H4s", 2026, 1, 1, 0, 0, 0, b"acsp") + bytes(28)
    head += _fixed(0.9642) + _fixed(1.0) + _fixed(0.82491)
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def _fixed(value: float) -> bytes:
    return struct.pack(">i", round(value * 65536))


def _xyz(values: tuple[float, ...]) -> bytes:
    return b"XYZ \0\0\0\0" + b"".join(map(_fixed, values))


def encode_in(image: Image.Image, name: str, kind: str = "PNG", **options: Any) -> bytes:
    """An sRGB picture encoded in another space, with its profile; "sRGB": as it is."""
    buffer = io.BytesIO()
    if name != "sRGB":
        profile = make_profile(name)
        target = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        image = ImageCms.profileToProfile(image, ImageCms.createProfile("sRGB"), target) or image
        options["icc_profile"] = profile
    image.save(buffer, kind, **options)
    return buffer.getvalue()
