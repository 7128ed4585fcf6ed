"""Checks of every request before a page or route sees it.

- `Host` must be this machine's, or one of `GENLAB_HOSTS`. `Origin`, if present, must be the same
  host, or one of `GENLAB_HOSTS` if a proxy replaces `Host`; also for WebSockets. Other sites cannot
  embed or fetch anything under `/api` and `/runs`.
- Other machines need a token (`GENLAB_TOKEN`): as `Authorization: Bearer …`, or once as `?token=…`
  in the browser, which keeps it as a cookie. If it is set, everybody needs it. Behind a proxy all
  requests come from this machine, so `GENLAB_HOSTS` and forwarded requests require a token.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from genlab.benchmark.cases.photographs import MAX_BYTES
from genlab.core.errors import GenlabError
from genlab.web.problems import Refusal, problem
from genlab.web.proxies import (
    HOST,
    Network,
    is_forwarded,
    read_forwarded,
    read_hosts,
    read_proxies,
    set_public,
)

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
MAX_BODY = 64 << 10  # bytes
UPLOAD = "/api/test-cases"  # takes photographs
MAX_UPLOAD = 4 * MAX_BYTES
BODY_SECONDS = 10.0
UPLOAD_SECONDS = 120.0
COOKIE = "genlab_token"
MIN_TOKEN = 16  # characters
RATER_PATHS = re.compile(
    r"/(rate|static/.*|_stcore/.*|media/.*|component/.*|favicon\..*|manifest\.json)?"
    r"|/api/(pictures/[^/]+|test-cases/[^/]+/[^/]+)"
)

_OURS = re.compile(r"/(api|runs)(/.*)?", re.DOTALL)  # the rest is Streamlit's, with its own limits
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
}
_OUR_HEADERS = {
    **_HEADERS,
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline';"
        " frame-ancestors 'self'"
    ),
}
Role = Literal["all", "rater"]


@dataclass(frozen=True)
class Access:
    """Hosts, tokens and proxies that are accepted.

    hosts: public ones, in addition to loopback; token, rater_token: "" for none, which allows
    loopback only; proxies: trusted to report host and scheme. Raises a `GenlabError` if a value
    requires a token and there is none.
    """

    hosts: frozenset[str] = frozenset()
    token: str = ""
    rater_token: str = ""
    proxies: tuple[Network, ...] = ()

    def __post_init__(self) -> None:
        for name, value in (
            ("GENLAB_RATER_TOKEN", self.rater_token),
            ("GENLAB_HOSTS", self.hosts),
            ("GENLAB_PROXIES", self.proxies),
        ):
            if value and not self.token:
                raise GenlabError(
                    f"{name} needs GENLAB_TOKEN, since behind a proxy every stranger comes from"
                    " this machine; set both"
                )

    @classmethod
    def from_environment(cls) -> Access:
        """Read GENLAB_HOSTS, GENLAB_TOKEN, GENLAB_RATER_TOKEN and GENLAB_PROXIES."""
        tokens = {name: os.environ.get(name, "") for name in ("GENLAB_TOKEN", "GENLAB_RATER_TOKEN")}
        for name, token in tokens.items():
            if token and len(token) < MIN_TOKEN:
                raise GenlabError(
                    f"{name} must have at least {MIN_TOKEN} characters, got {len(token)}; make"
                    ' one with: python -c "import secrets; print(secrets.token_urlsafe())"'
                )
        token, rater_token = tokens.values()
        return cls(read_hosts(), token, rater_token, read_proxies())

    def role_of(self, offered: Sequence[str]) -> Role | None:
        """Return the role of a client that offers these tokens, None if none of them is valid."""
        if not self.token:  # everybody on this machine may see everything
            return "all"
        if _is_offered(self.token, offered):
            return "all"
        if self.rater_token and _is_offered(self.rater_token, offered):
            return "rater"
        return None

    def check(self, scope: Scope) -> None:
        """Raise a `Refusal` unless a request may come in; its token is checked elsewhere.

        Sets the host of an accepted request, in place, to the one that the browser uses.
        """
        headers = Headers(scope=scope)
        reported = read_forwarded(scope, self.proxies)
        host = reported.get("host") or ",".join(headers.getlist("host")).lower()  # two: invalid
        if _name(host) not in LOOPBACK | {_name(public) for public in self.hosts}:
            fix = f"to allow it, {_describe_setting(host, 'your.host')} where it is served"
            raise Refusal(403, f"the Host of this request is not this server's; {fix}")
        same_site = (host, *self.hosts)
        for origin in headers.getlist("origin"):
            scheme, _, host = origin.lower().partition("://")
            if scheme not in ("http", "https") or host not in same_site:
                fix = f"if a proxy replaces Host, {_describe_setting(host, 'its.public.host')}"
                raise Refusal(403, f"the Origin of this request is another site; {fix}")
        if _is_ours(scope) and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            is_link = (
                scope.get("method") == "GET"
                and headers.get("sec-fetch-mode") == "navigate"
                and headers.get("sec-fetch-dest") == "document"
            )
            if not is_link:
                raise Refusal(403, "another site asks for this; open it here instead")
        if not self.hosts and is_forwarded(headers):
            public = headers.get("x-forwarded-host", "").lower()
            fix = f"{_describe_setting(public, 'its.public.host')} where it is served"
            raise Refusal(403, f"a proxy passes this request on; {fix}")
        if not self.token and not _is_loopback(scope):
            raise Refusal(
                403, "from another machine it takes a token: set GENLAB_TOKEN where it is served"
            )
        set_public(scope, host, reported.get("proto", ""))


def _is_offered(token: str, offered: Sequence[str]) -> bool:
    """Compare in constant time, so that response times reveal nothing about the token."""
    return any(
        hmac.compare_digest(text.encode("utf-8", "replace"), token.encode()) for text in offered
    )


def _name(host: str) -> str:
    """Return the name of a host without its port; "" if the text is no host."""
    match = HOST.fullmatch(host)
    return match[1].strip("[].") if match else ""


def _describe_setting(host: str, example: str) -> str:
    """Name the settings that allow a host; example: replaces a text that is no host."""
    return f"set GENLAB_HOSTS={host if HOST.fullmatch(host) else example} and GENLAB_TOKEN"


def sees_all(headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
    """Whether a client may see every page; a rater's token opens only the page Rate."""
    return Access.from_environment().role_of(_read_tokens(headers, cookies)) == "all"


class Security:
    """The middleware that checks every request."""

    def __init__(self, app: ASGIApp, access: Access | None = None) -> None:
        self.app = app
        self.access = access or Access.from_environment()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        query_token = _take_token(scope)
        ours = _is_ours(scope)
        connection = HTTPConnection(scope)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in (_OUR_HEADERS if ours else _HEADERS).items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self.access.check(scope)
            tokens = _read_tokens(connection.headers, connection.cookies)
            role = self.access.role_of([*tokens, query_token])
            if role is None:
                raise Refusal(401, "a token is missing or wrong; open the address with ?token=…")
            if role == "rater" and not _is_for_raters(scope):
                raise Refusal(403, "this token is for rating alone")
            if ours and not scope["path"].isprintable():
                raise Refusal(404, "no address of this server has such characters")
            if scope["type"] == "http" and ours:
                receive = await _read_body(scope, receive)
        except Refusal as refusal:
            headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
            # The rest of a body must not be taken for the next request.
            headers |= {"Connection": "close"} if refusal.status in (408, 413) else {}
            return await problem(refusal.status, str(refusal), headers)(scope, receive, answer)
        valid = self.access.token and self.access.role_of([query_token])
        if valid and scope.get("method") == "GET" and not ours:
            return await _set_cookie(scope, query_token)(scope, receive, send)
        await self.app(scope, receive, answer)


def _set_cookie(scope: Scope, token: str) -> Response:
    """Redirect the browser to the same address without the token, which becomes a cookie."""
    query = scope["query_string"].decode("ascii")
    # One slash: a path that begins with two would be the address of another server.
    target = "/" + scope["path"].lstrip("/\\") + ("?" + query if query else "")
    response = RedirectResponse(target, 303)
    secure = scope.get("scheme") == "https"
    response.set_cookie(COOKIE, token, httponly=True, samesite="lax", secure=secure)
    return response


def _read_tokens(headers: Mapping[str, str], cookies: Mapping[str, str]) -> list[str]:
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    return [bearer.strip() if scheme.lower() == "bearer" else "", cookies.get(COOKIE, "")]


def _take_token(scope: Scope) -> str:
    """Remove `?token=` from the address, in place: servers log the same `scope` at the end.

    Returns the first token, "" if there is none.
    """
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    tokens: list[str] = [value for key, value in pairs if key == "token"]
    if not tokens:
        return ""
    rest = [(key, value) for key, value in pairs if key != "token"]
    scope["query_string"] = urlencode(rest).encode("ascii")
    return tokens[0]


def _is_for_raters(scope: Scope) -> bool:
    if scope["type"] == "websocket":
        return bool(scope["path"].startswith("/_stcore/"))
    if scope["method"] == "POST" and scope["path"] == "/api/rate":
        return True
    if scope["method"] not in ("GET", "HEAD"):  # Streamlit would hold an upload in memory
        return False
    return RATER_PATHS.fullmatch(scope["path"]) is not None


def _is_ours(scope: Scope) -> bool:
    return _OURS.fullmatch(scope["path"]) is not None


def _is_loopback(scope: Scope) -> bool:
    client = scope.get("client")
    if not client:
        return True  # a Unix socket: its file permissions decide
    try:
        return ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False


async def _read_body(scope: Scope, receive: Receive) -> Receive:
    """Read the whole body; returns a `Receive` that yields it.

    Raises a `Refusal` if the body is too long or takes too long.
    """
    upload = scope["method"] == "POST" and scope["path"] == UPLOAD
    limit = MAX_UPLOAD if upload else MAX_BODY
    seconds = UPLOAD_SECONDS if upload else BODY_SECONDS
    body = bytearray()

    async def read() -> None:
        async for chunk in Request(scope, receive).stream():
            body.extend(chunk)
            if len(body) > limit:
                raise Refusal(413, f"a body may have {limit} bytes")

    try:
        await asyncio.wait_for(read(), seconds)
    except asyncio.TimeoutError as error:
        raise Refusal(408, f"the body took over {seconds:g} seconds") from error
    except ClientDisconnect as error:
        raise Refusal(400, "the request ended before its body") from error
    messages = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def receive_body() -> Message:
        return messages.pop() if messages else await receive()

    return receive_body
