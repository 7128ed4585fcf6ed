"""A real server on loopback that speaks /v1/chat/completions and misbehaves by script.

    with Server([status(429, {"Retry-After": "3"}), good('{"blocks": 2}')]) as server:
        backend = OpenAIBackend(..., base_url=server.url, api_key="test")
        ...
        assert server.requests[1].body["max_tokens"] == 64

A script is a list of replies, one a request; once it is used up, the last reply goes on. Instead of
a list it may be a function from a request to a reply, for a scripted model that reads its prompt.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

MODEL = "scripted"


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    headers: dict[str, str]  # names in lower case
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The content of the last message."""
        return str(self.body["messages"][-1]["content"])

    @property
    def structured(self) -> bool:
        """Whether it asks for an answer in a schema."""
        return "response_format" in self.body


@dataclass(frozen=True)
class Reply:
    """What the server does with one request; made by the functions below."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False  # say nothing until the server is closed
    tear: bool = False  # reset the connection in the middle of the body
    drip: float = 0.0  # seconds between two bytes
    unless_structured: Reply | None = None  # this one instead where no schema is asked for


def completion(
    content: str | None,
    *,
    finish: str = "stop",
    refusal: str | None = None,
    usage: object = (11, 7),
) -> dict[str, Any]:
    """A chat completion as OpenAI words it; `usage` is (prompt, completion) tokens or any value."""
    if isinstance(usage, tuple):
        usage = {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        }
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": usage,
    }


def good(content: str | dict[str, Any], **options: Any) -> Reply:
    """A whole answer; a dict is sent as JSON text. Options as in `completion`."""
    text = content if isinstance(content, str) else json.dumps(content)
    return raw(json.dumps(completion(text, **options)).encode())


def prose(content: dict[str, Any]) -> Reply:
    """JSON in a fence, in the middle of prose."""
    text = f"Sure! Here {{as asked}} it is:\n```json\n{json.dumps(content)}\n```\nI hope it helps."
    return good(text)


def raw(body: bytes, status: int = 200, kind: str = "application/json") -> Reply:
    """Any bytes with any status and content type."""
    return Reply(body, status, {"Content-Type": kind})


def status(code: int, headers: dict[str, str] | None = None, /, **error: Any) -> Reply:
    """An HTTP error with OpenAI's error body; `message`, `type`, `param` and `code` fill it."""
    told = {"message": f"scripted {code}", "type": None, "param": None, "code": None, **error}
    body = json.dumps({"error": told}).encode()
    return Reply(body, code, {"Content-Type": "application/json", **(headers or {})})


def without_schema(otherwise: Reply, code: int = 400) -> Reply:
    """Refuse requests with a response_format by `code`, and answer the others."""
    refusal = status(code, message="response_format json_schema is not supported")
    return Reply(refusal.body, code, refusal.headers, unless_structured=otherwise)


def hang() -> Reply:
    """Take the question and say nothing."""
    return Reply(hang=True)


def torn() -> Reply:
    """Close the connection in the middle of the body."""
    return Reply(json.dumps(completion("never seen")).encode(), tear=True)


def dripping(seconds: float) -> Reply:
    """A whole answer at one byte every `seconds`: no read times out, and it takes for ever."""
    return Reply(json.dumps(completion("too slow")).encode(), drip=seconds)


def empty() -> Reply:
    """A completion without a word."""
    return good("")


def refusal() -> Reply:
    """The model declines."""
    return raw(json.dumps(completion(None, refusal="I can't help with that.")).encode())


def filtered() -> Reply:
    """The endpoint's content filter steps in."""
    return good("half an ans", finish="content_filter")


def cut_off(content: str = '{"blocks": ') -> Reply:
    """An answer that reached its limit of tokens."""
    return good(content, finish="length")


def html() -> Reply:
    """A page of a proxy with status 200."""
    return raw(b"<html><body>Welcome to the hotel's network</body></html>", kind="text/html")


def huge(size: int) -> Reply:
    """A completion of about `size` bytes."""
    return good("x" * size)


def invalid_utf8() -> Reply:
    """A completion with bytes that are no text."""
    return raw(json.dumps(completion("HERE")).encode().replace(b"HERE", b"\xff\xfe\x80"))


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that were killed; anything else is a fault of the script."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


Script = Sequence[Reply] | Callable[[Request], Reply]


class Server:
    """The server; `url` is its base URL, `requests` what it was asked, in order."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Request] = []
        self._script = script
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._http = _Quiet(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        with self._lock:
            for connection in self._open:  # a client would go on over one that is kept alive
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _reply(self, request: Request) -> Reply:
        with self._lock:
            place = len(self.requests)
            self.requests.append(request)
            if callable(self._script):
                reply = self._script(request)
            else:
                reply = self._script[min(place, len(self._script) - 1)]
        if reply.unless_structured is not None and not request.structured:
            return reply.unless_structured
        return reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with server._lock:
                    server._open.add(self.connection)

            def finish(self) -> None:
                with server._lock:
                    server._open.discard(self.connection)
                with suppress(OSError):
                    super().finish()

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                content = self.rfile.read(length)
                if len(content) < length:  # the client was killed while it sent
                    self.close_connection = True
                    return
                body = json.loads(content or b"{}")
                headers = {name.lower(): value for name, value in self.headers.items()}
                if self.path != "/v1/chat/completions":
                    self._send(status(404, message=f"no such path: {self.path}"))
                    return
                self._send(server._reply(Request(self.path, headers, body)))

            def _send(self, reply: Reply) -> None:
                if reply.hang:
                    server._closing.wait(30)
                    self.close_connection = True
                    return
                try:
                    self._write(reply)
                except OSError:  # the client has gone
                    self.close_connection = True

            def _write(self, reply: Reply) -> None:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                if reply.tear:
                    self.wfile.write(reply.body[: len(reply.body) // 2])
                    self.wfile.flush()
                    self._reset()
                elif reply.drip:
                    for place in range(len(reply.body)):
                        self.wfile.write(reply.body[place : place + 1])
                        if server._closing.wait(reply.drip):
                            return
                else:
                    self.wfile.write(reply.body)

            def _reset(self) -> None:
                linger = struct.pack("ii", 1, 0)  # close with a reset, not with a goodbye
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                """Keep quiet: what was asked stands in `requests`."""

        return Handler
