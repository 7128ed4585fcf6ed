"""Replies of an image endpoint, sound and broken; `ImageServer` gives them on loopback."""

import base64
import struct
import zlib
from functools import cache
from typing import Any

from llm_server import completion
from loopback import Reply, Request, encoded, html, payload, raw, status
from loopback import Server as ImageServer

__all__ = ["ImageServer", "Reply", "Request", "encoded", "html", "payload", "raw", "status"]


def answer(data: bytes, *, usage: dict[str, Any] | None = None, **more: Any) -> Reply:
    """An answer with these bytes as its image."""
    text = base64.b64encode(data).decode()
    return payload({"created": 0, "data": [{"b64_json": text}], "usage": usage}, **more)


def said(text: str | None, *, refusal: str | None = None, **more: Any) -> Reply:
    """A chat's answer with this text."""
    return payload(completion(text, refusal=refusal), **more)


def turned(seconds: float = 0.0) -> Reply:
    """What the small benchmark scores 1: the first image upside down."""

    def make(request: Request) -> Reply:
        image = request.template().rotate(180)
        return answer(encoded(image, compress_level=1), seconds=seconds)

    return Reply(make=make)


def packed() -> Reply:
    """Sixty kilobytes that unpack to sixty-four megabytes."""
    squeezer = zlib.compressobj(9, wbits=31)
    body = b"".join(squeezer.compress(bytes(1 << 20)) for _ in range(64)) + squeezer.flush()
    return Reply(body, 200, {"Content-Type": "application/json", "Content-Encoding": "gzip"})


def refused() -> Reply:
    """The content policy steps in."""
    return status(
        400,
        message="Your request was rejected by the safety system.",
        code="moderation_blocked",
        type="image_generation_user_error",
    )


@cache
def bomb(side: int = 10_000) -> bytes:
    """A PNG of side × side black pixels (100 million) in a hundred kilobytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    squeezer = zlib.compressobj(1)
    rows = b"".join(squeezer.compress(bytes(1 + 3 * side)) for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", rows + squeezer.flush())
        + chunk(b"IEND", b"")
    )
