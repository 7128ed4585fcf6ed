"""One real server on loopback: OpenAI's chat and images and ComfyUI's queue, sound or broken.

with Server([status(429, {"Retry-After": "3"}), good("fine")]) as server:
    backend = OpenAIBackend(..., base_url=server.url, api_key="test")
    ...
    assert server.requests[1].body["max_tokens"] == 64

A script is a list of replies, one per request, of which the last goes on, or a function from a
request to a reply. What a script may say, in each protocol, stands in `replies`.
"""

from __future__ import annotations

import io
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image
from typing_extensions import Self

PATHS = ("/v1/chat/completions", "/v1/images/edits", "/v1/images/generations")
COMFY_PATHS = ("/upload/image", "/prompt", "/history/", "/view", "/queue", "/interrupt")


@dataclass(frozen=True)
class Request:
    """What a client sent: JSON, or the fields of a form and its images."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: dict[str, Any]
    images: tuple[bytes, ...] = ()

    @property
    def prompt(self) -> str:
        """The content of the last message."""
        return str(self.body["messages"][-1]["content"])

    @property
    def structured(self) -> bool:
        """Whether it asks for an answer in a schema."""
        return "response_format" in self.body

    @property
    def fields(self) -> dict[str, str]:
        """The body with every value as text."""
        return {k: v if isinstance(v, str) else json.dumps(v) for k, v in self.body.items()}

    def template(self) -> Image.Image:
        """The first image that came along."""
        return Image.open(io.BytesIO(self.images[0])).convert("RGB")


@dataclass(frozen=True)
class Reply:
    """What the server does with one request."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0  # before it says anything
    hang: bool = False  # say nothing until the server is closed
    tear: bool = False  # reset the connection in the middle of the body
    drip: float = 0.0  # seconds between two bytes
    make: Callable[[Request], Reply] | None = None  # the reply, where it depends on the request


def raw(body: bytes, status: int = 200, kind: str = "application/json", **more: Any) -> Reply:
    """Any bytes with any status and content type."""
    return Reply(body, status, {"Content-Type": kind}, **more)


def payload(value: Any, **more: Any) -> Reply:
    """An answer with this JSON."""
    return raw(json.dumps(value).encode(), **more)


def status(code: int, headers: dict[str, str] | None = None, /, **error: Any) -> Reply:
    """An HTTP error with OpenAI's error body; `message`, `type`, `param` and `code` fill it."""
    body = {"message": f"scripted {code}", "type": None, "param": None, "code": None, **error}
    headers = {"Content-Type": "application/json", **(headers or {})}
    return Reply(json.dumps({"error": body}).encode(), code, headers)


def html() -> Reply:
    """A page of a proxy with status 200."""
    return raw(b"<html><body>Log in to the hotel's network</body></html>", kind="text/html")


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """An image file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def _parse(path: str, headers: dict[str, str], content: bytes) -> Request:
    if not headers.get("content-type", "").startswith("multipart"):
        return Request(path, headers, json.loads(content or b"{}"))
    head = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
    fields = {}
    images = []
    for section in message_from_bytes(head + content).walk():
        name = section.get_param("name", header="content-disposition")
        data = section.get_payload(decode=True)
        if section.get_filename() is not None:
            images.append(data)
        elif name is not None:
            fields[str(name)] = data.decode()
    return Request(path, headers, fields, tuple(images))


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that were killed; anything else is a fault of the script."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Server:
    """The server; `url` is its base URL, `requests` what it was asked at PATHS, in order.

    comfy: answers requests at COMFY_PATHS, below `root`.
    `sent` says which requests were answered whole with status 200, and when (time.time()).
    """

    def __init__(
        self,
        script: Sequence[Reply] | Callable[[Request], Reply] = (),
        comfy: Callable[[Request], Reply] | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.sent: list[tuple[float, Request]] = []
        self.images: list[Reply] = []  # to requests for an image by its address, before the image
        self.closing = threading.Event()
        self.lock = threading.Lock()
        self._script = script
        self._comfy = comfy
        self._http = _Quiet(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    @property
    def root(self) -> str:
        """The address without a path: ComfyUI's."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        """The base URL for a client of OpenAI's protocol."""
        return f"{self.root}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, request: Request) -> Reply:
        """What the script of the request's protocol says to it."""
        with self.lock:
            if self._comfy is not None and request.path.startswith(COMFY_PATHS):
                return self._comfy(request)
            if request.path not in PATHS:
                return status(404, message=f"no such path: {request.path}")
            place = len(self.requests)
            self.requests.append(request)
            if callable(self._script):
                reply = self._script(request)
            else:
                reply = self._script[min(place, len(self._script) - 1)]
        return reply.make(request) if reply.make else reply


class _Handler(BaseHTTPRequestHandler):
    owner: Server

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        content = self.rfile.read(length)
        if len(content) < length:  # the client was killed while it sent
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.reply(_parse(self.path, headers, content))

    def reply(self, request: Request) -> None:
        reply = self.owner.answer(request)
        if self.owner.closing.wait(60 if reply.hang else reply.seconds) or reply.hang:
            return
        try:
            self.write(reply)
        except OSError:  # the client has gone
            return
        if reply.status == 200 and not reply.tear:
            self.owner.sent.append((time.time(), request))

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
        elif reply.drip:
            for place in range(len(reply.body)):
                self.wfile.write(reply.body[place : place + 1])
                if self.owner.closing.wait(reply.drip):
                    return
        else:
            self.wfile.write(reply.body)

    def do_GET(self) -> None:
        """ComfyUI's history, or the image that an answer named by its address."""
        if self.path.startswith(COMFY_PATHS):
            self.reply(Request(self.path, {}, {}))
            return
        image = raw(encoded(Image.new("RGB", (64, 64), "navy")), kind="image/png")
        self.write(self.owner.images.pop(0) if self.owner.images else image)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet: what was asked stands in `requests`."""
