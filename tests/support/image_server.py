"""A real server on loopback that speaks OpenAI's images and chat, and misbehaves by script.

with ImageServer([status(429, {"Retry-After": "1"}), image()]) as server:
    tool = EndpointTool(Entry(id="t", base_url=server.url, model="m"))
    ...
    assert server.requests[1].fields["model"] == "m"
"""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from email import message_from_bytes
from functools import cache
from typing import Any

from loopback import Reply, ScriptedServer, html, payload, raw, status
from PIL import Image

__all__ = ["ImageServer", "Reply", "Request", "html", "payload", "raw", "status"]


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    headers: dict[str, str]  # names in lower case
    fields: dict[str, str]
    images: tuple[bytes, ...] = ()

    def template(self) -> Image.Image:
        """The first image that came along."""
        return Image.open(io.BytesIO(self.images[0])).convert("RGB")


def answer(data: bytes, *, usage: dict[str, Any] | None = None, **more: Any) -> Reply:
    """An answer with these bytes as its image."""
    text = base64.b64encode(data).decode()
    return payload({"created": 0, "data": [{"b64_json": text}], "usage": usage}, **more)


def said(text: str | None, *, refusal: str | None = None, **more: Any) -> Reply:
    """A chat's answer with this text."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "1", "object": "chat.completion", "created": 0, "model": "eye-1"}
    return payload({**head, "choices": [choice]}, **more)


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """An image file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def turned(seconds: float = 0.0) -> Reply:
    """What the small benchmark scores 1: the first image upside down."""
    return Reply(turned=True, seconds=seconds)


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


def rotated(image: Image.Image) -> bytes:
    """A JPEG that lies on its side, with the EXIF word that says so."""
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    return encoded(image.transpose(Image.Transpose.ROTATE_90), "JPEG", exif=exif, quality=95)


class ImageServer(ScriptedServer[Request]):
    """The server of images and of chat completions about them."""

    paths = ("/v1/images/edits", "/v1/images/generations", "/v1/chat/completions")

    def parse(self, path: str, headers: Mapping[str, str], content: bytes) -> Request:
        if headers["content-type"].startswith("application/json"):
            fields = {
                name: value if isinstance(value, str) else json.dumps(value)
                for name, value in json.loads(content).items()
            }
            return Request(path, dict(headers), fields)
        head = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
        fields, images = {}, []
        for part in message_from_bytes(head + content).walk():
            name = part.get_param("name", header="content-disposition")
            data = part.get_payload(decode=True)
            if part.get_filename() is not None:
                images.append(data)
            elif name is not None:
                fields[str(name)] = data.decode()
        return Request(path, dict(headers), fields, tuple(images))

    def complete(self, reply: Reply, request: Request) -> Reply:
        if not reply.turned:
            return reply
        image = encoded(request.template().rotate(180), compress_level=1)
        return answer(image, seconds=reply.seconds)

    def named(self) -> Reply:
        """The image that an answer named by its address."""
        return raw(encoded(Image.new("RGB", (64, 64), "navy")), kind="image/png")
