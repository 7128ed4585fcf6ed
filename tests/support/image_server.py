"""A real server on loopback that speaks OpenAI's images and chat, and misbehaves by script.

    with ImageServer([status(429, {"Retry-After": "1"}), image()]) as server:
        tool = EndpointTool(Entry(id="t", base_url=server.url, model="m"))
        ...
        assert server.requests[1].fields["model"] == "m"

A script is a list of replies, one a request, of which the last goes on, or a function from a
request to a reply. `sent` says which requests were answered whole with an image, and when.
"""

from __future__ import annotations

import base64
import io
import json
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

PATHS = ("/v1/images/edits", "/v1/images/generations", "/v1/chat/completions")


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


@dataclass(frozen=True)
class Reply:
    """What the server does with one request; made by the functions below."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0  # before it says anything
    hang: bool = False  # say nothing until the server is closed
    tear: bool = False  # reset the connection in the middle of the body
    turned: bool = False  # the first image upside down


def status(code: int, headers: dict[str, str] | None = None, /, **error: Any) -> Reply:
    """An HTTP error with OpenAI's error body."""
    told = {"message": f"scripted {code}", "type": None, "param": None, "code": None, **error}
    body = json.dumps({"error": told}).encode()
    return Reply(body, code, {"Content-Type": "application/json", **(headers or {})})


def answer(data: bytes, *, usage: dict[str, Any] | None = None, **more: Any) -> Reply:
    """An answer with these bytes as its image."""
    text = base64.b64encode(data).decode()
    return payload({"created": 0, "data": [{"b64_json": text}], "usage": usage}, **more)


def payload(value: Any, **more: Any) -> Reply:
    """An answer with this JSON."""
    return Reply(json.dumps(value).encode(), headers={"Content-Type": "application/json"}, **more)


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


def html() -> Reply:
    """A page of a proxy with status 200."""
    return Reply(
        b"<html><body>Log in to the hotel</body></html>", 200, {"Content-Type": "text/html"}
    )


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


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that were killed; anything else is a fault of the script."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


Script = Sequence[Reply] | Callable[[Request], Reply]


class ImageServer:
    """The server; `url` is its base URL, `requests` what it was asked, in order."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Request] = []
        self.sent: list[tuple[float, Request]] = []  # seconds of time.time()
        self._script = script
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._http = _Quiet(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> ImageServer:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def reply(self, request: Request) -> Reply:
        """What the script says to a request."""
        with self._lock:
            place = len(self.requests)
            self.requests.append(request)
            if callable(self._script):
                return self._script(request)
            return self._script[min(place, len(self._script) - 1)]

    def wait(self, seconds: float) -> None:
        """Wait that long, or until the server is closed."""
        self._closing.wait(seconds)


def _handler(server: ImageServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(length)
            if len(data) < length:  # the client was killed while it sent
                self.close_connection = True
                return
            if self.path not in PATHS:
                self.write(status(404, message=f"no such path: {self.path}"))
                return
            request = self.parsed(data)
            reply = server.reply(request)
            if reply.hang:
                server.wait(60)
                self.close_connection = True
                return
            if reply.seconds:
                server.wait(reply.seconds)
            if reply.turned:
                reply = answer(encoded(request.template().rotate(180), compress_level=1))
            with suppress(OSError):  # the client has gone
                self.write(reply)
                if reply.status == 200 and not reply.tear:
                    server.sent.append((time.time(), request))

        def do_GET(self) -> None:
            """An image that an answer named by its address."""
            image = encoded(Image.new("RGB", (64, 64), "navy"))
            self.write(Reply(image, 200, {"Content-Type": "image/png"}))

        def parsed(self, data: bytes) -> Request:
            headers = {name.lower(): value for name, value in self.headers.items()}
            if headers["content-type"].startswith("application/json"):
                fields = {
                    name: value if isinstance(value, str) else json.dumps(value)
                    for name, value in json.loads(data).items()
                }
                return Request(self.path, headers, fields)
            head = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
            fields, images = {}, []
            for part in message_from_bytes(head + data).walk():
                name = part.get_param("name", header="content-disposition")
                content = part.get_payload(decode=True)
                if part.get_filename() is not None:
                    images.append(content)
                elif name is not None:
                    fields[str(name)] = content.decode()
            return Request(self.path, headers, fields, tuple(images))

        def write(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if reply.tear:
                self.wfile.write(reply.body[: len(reply.body) // 2])
                self.wfile.flush()
                linger = struct.pack("ii", 1, 0)  # close with a reset, not with a goodbye
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.close_connection = True
            else:
                self.wfile.write(reply.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep quiet: what was asked stands in `requests`."""

    return Handler
