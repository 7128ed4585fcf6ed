"""Checks of every request before a page or route sees it.

- `Host` must be this machine's, or one of `GENLAB_HOSTS`. `Origin`, where there is one, must be the
  same host, for WebSockets too; other sites cannot embed or fetch what is under `/api` and `/runs`.
- Other machines need a token (`GENLAB_TOKEN`): as `Authorization: Bearer …`, or once as `?token=…`
  in the browser, which keeps it as a cookie. Where it is set, everybody needs it.
- A rater's token (`GENLAB_RATER_TOKEN`) opens the page Rate, its images and `POST /api/rate`;
  everything else answers 403.
- A token is removed from the address before anything else reads it, so that no log contains it.
- A body for the API is read up to a limit of bytes and of time before a route begins.

Not protected: traffic itself; put a proxy with TLS in front beyond loopback.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from genlab.benchmark.cases.photographs import MAX_BYTES
from genlab.core.errors import GenlabError
from genlab.web.api.problems import Refusal, problem

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OURS = ("/api", "/runs")  # the rest is Streamlit's, which has limits of its own
MAX_BODY = 64 << 10  # bytes
UPLOAD = "/api/test-cases"  # takes photographs
MAX_UPLOAD = 4 * MAX_BYTES
BODY_SECONDS = 10.0
UPLOAD_SECONDS = 120.0
COOKIE = "genlab_token"
SHORTEST_TOKEN = 16
RATER_PATHS = re.compile(
    r"/(rate|static/.*|_stcore/.*|media/.*|component/.*|favicon\..*|manifest\.json)?"
    r"|/api/(pictures/[^/]+|test-cases/[^/]+/[^/]+)"
)

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
}
Role = Literal["all", "rater"]


@dataclass(frozen=True)
class Access:
    """Who is let in. hosts: names beside loopback; tokens: "" is none, for loopback alone."""

    hosts: frozenset[str] = frozenset()
    token: str = ""
    rater_token: str = ""

    @classmethod
    def from_environment(cls) -> Access:
        """Read GENLAB_HOSTS (names separated by commas), GENLAB_TOKEN and GENLAB_RATER_TOKEN."""
        tokens = {}
        for name in ("GENLAB_TOKEN", "GENLAB_RATER_TOKEN"):
            token = tokens[name] = os.environ.get(name, "")
            if token and len(token) < SHORTEST_TOKEN:
                raise GenlabError(
                    f"{name} must have at least {SHORTEST_TOKEN} characters, got {len(token)}; make"
                    ' one with: python -c "import secrets; print(secrets.token_urlsafe())"'
                )
        if tokens["GENLAB_RATER_TOKEN"] and not tokens["GENLAB_TOKEN"]:
            raise GenlabError("GENLAB_RATER_TOKEN needs GENLAB_TOKEN, for everybody else; set both")
        names = os.environ.get("GENLAB_HOSTS", "").split(",")
        hosts = frozenset(name.strip().lower() for name in names if name.strip())
        return cls(hosts, *tokens.values())

    def role_of(self, offered: Iterable[str]) -> Role | None:
        """What the holder of one of these tokens may do; without tokens, everything."""
        if not self.token:
            return "all"
        given = [one.encode("utf-8", "replace") for one in offered]
        tokens: dict[Role, str] = {"all": self.token, "rater": self.rater_token}
        for role, token in tokens.items():
            if token and any(hmac.compare_digest(one, token.encode()) for one in given):
                return role
        return None

    def check(self, scope: Scope) -> None:
        """Raise a `Refusal` where a request may not come in, its token aside."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or _name(hosts[0]) not in LOOPBACK | self.hosts:
            raise Refusal(
                403, "the Host of this request is not this server's; set GENLAB_HOSTS to allow it"
            )
        for origin in headers.getlist("origin"):
            if _site(origin) != hosts[0].lower():
                raise Refusal(403, "the Origin of this request is another site")
        if _is_ours(scope) and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            opened = scope.get("method") == "GET" and headers.get("sec-fetch-mode") == "navigate"
            if not opened or headers.get("sec-fetch-dest") != "document":
                raise Refusal(403, "another site asks for this; open it here instead")
        if not self.token and not _is_loopback(scope):
            raise Refusal(
                403, "from another machine it takes a token: set GENLAB_TOKEN where it is served"
            )


def sees_all(headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
    """Whether the browser of a page's session has the token that opens every page, or needs none.

    The middleware has let its connection in, perhaps with a rater's token.
    """
    return Access.from_environment().role_of(_kept_tokens(headers, cookies)) == "all"


class Security:
    """The middleware that checks every request."""

    def __init__(self, app: ASGIApp, access: Access | None = None) -> None:
        self.app = app
        self.access = access or Access.from_environment()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        brought = _take_token(scope)
        try:
            self.access.check(scope)
            role = self.access.role_of(_offered_tokens(scope, brought))
            if role is None:
                raise Refusal(401, "a token is missing or wrong; open the address with ?token=…")
            if role == "rater" and not _is_for_raters(scope):
                raise Refusal(403, "this token is for rating alone")
            if _is_ours(scope) and not _is_plain(scope["path"]):
                raise Refusal(404, "no address of ours holds such characters")  # nor any route
            if scope["type"] == "http" and _is_ours(scope):
                receive = await _read(scope, receive)
        except Refusal as refusal:
            return await _refuse(refusal, scope, receive, send)
        if self.access.token and brought is not None and _is_page(scope):
            return await _keep_token(scope, brought)(scope, receive, send)
        await self.app(scope, receive, _adding(scope, send))


def _keep_token(scope: Scope, token: str) -> Response:
    """Redirect the browser to the same address without the token, which becomes a cookie."""
    kept = scope["query_string"].decode("ascii")
    # One slash: a path that begins with two would be the address of another server.
    target = "/" + scope["path"].lstrip("/\\") + ("?" + kept if kept else "")
    response = RedirectResponse(target, 303)
    secure = scope.get("scheme") == "https"
    response.set_cookie(COOKIE, token, httponly=True, samesite="lax", secure=secure)
    return response


def _offered_tokens(scope: Scope, brought: str | None) -> list[str]:
    """The tokens of a request: header, cookie, address."""
    connection = HTTPConnection(scope)
    return [*_kept_tokens(connection.headers, connection.cookies), brought or ""]


def _kept_tokens(headers: Mapping[str, str], cookies: Mapping[str, str]) -> list[str]:
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    return [bearer.strip() if scheme.lower() == "bearer" else "", cookies.get(COOKIE, "")]


def _is_for_raters(scope: Scope) -> bool:
    if scope["type"] == "websocket":
        return bool(scope["path"].startswith("/_stcore/"))
    if scope["method"] == "POST" and scope["path"] == "/api/rate":
        return True
    reading = scope["method"] in ("GET", "HEAD") or not _is_ours(scope)
    return reading and RATER_PATHS.fullmatch(scope["path"]) is not None


def _take_token(scope: Scope) -> str | None:
    """Take `?token=` out of the address, in place: servers log the same `scope` at the end.

    Returns the first one, None where there is none.
    """
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    brought: list[str] = [value for key, value in pairs if key == "token"]
    if not brought:
        return None
    kept = [(key, value) for key, value in pairs if key != "token"]
    scope["query_string"] = urlencode(kept).encode("ascii")
    return brought[0]


def _is_page(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] == "GET" and not _is_ours(scope)


def _is_plain(path: str) -> bool:
    """Whether a path is one that a route could have; `..` and `\\` only ever mean to lead out."""
    return path.isprintable() and "\\" not in path and ".." not in path.split("/")


def _site(origin: str) -> str:
    """The `name:port` of an Origin, "" where it has none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # http://[
        return ""


def _is_ours(scope: Scope) -> bool:
    return any(scope["path"] == root or scope["path"].startswith(root + "/") for root in OURS)


def _is_loopback(scope: Scope) -> bool:
    client = scope.get("client")
    if not client:
        return True  # a socket of the file system: its rights decide
    try:
        return ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    """The name in `name:port`, "" where it is not of that form."""
    try:
        parts = urlsplit(f"//{host}")
        plain = parts.netloc == host and parts.username is None and parts.port != 0
    except ValueError:
        return ""
    return (parts.hostname or "").rstrip(".") if plain else ""


async def _read(scope: Scope, receive: Receive) -> Receive:
    """Read the whole body; returns what hands it on. Raises a `Refusal` where it is too long."""
    upload = scope["method"] == "POST" and scope["path"] == UPLOAD
    most, seconds = (MAX_UPLOAD, UPLOAD_SECONDS) if upload else (MAX_BODY, BODY_SECONDS)
    body = bytearray()

    async def read() -> None:
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise Refusal(400, "the request ended before its body")
            body.extend(message.get("body", b""))
            more = message.get("more_body", False)
            if len(body) > most:
                raise Refusal(413, f"a body may have {most} bytes")

    announced = Headers(scope=scope).get("content-length", "0")
    if not announced.isdecimal() or int(announced[:12]) > most:
        raise Refusal(413, f"a body may have {most} bytes")
    try:
        await asyncio.wait_for(read(), seconds)
    except asyncio.TimeoutError as error:
        raise Refusal(408, f"the body took over {seconds:g} seconds") from error
    whole = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def hand_on() -> Message:
        return whole.pop() if whole else await receive()

    return hand_on


async def _refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
    # What is left of a body must not be taken for the next request.
    headers |= {"Connection": "close"} if refusal.status in (408, 413) else {}
    response = problem(refusal.status, refusal.detail, headers)
    if scope["type"] == "websocket":
        return await WebSocket(scope, receive, send).send_denial_response(response)
    await response(scope, receive, _adding(scope, send))


def _adding(scope: Scope, send: Send) -> Send:
    """`send` with the headers that every answer carries."""

    async def add(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if _is_ours(scope):
                headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
                headers.setdefault(
                    "Content-Security-Policy",
                    "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline';"
                    " frame-ancestors 'self'",
                )
        await send(message)

    return add
