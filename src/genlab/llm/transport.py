"""HTTP requests with bounded answers and without redirects; failures are `EndpointError`s.

Proxies and certificates of the environment are used. A GenlabError names the variable of one that
cannot be used.
"""

import ipaddress
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urljoin, urlsplit
from urllib.request import proxy_bypass

import httpx2

from genlab.core.errors import GenlabError
from genlab.llm.redaction import excerpt

TIMEOUT = httpx2.Timeout(None, connect=10.0)
Kind = Literal[
    "rate_limited", "quota", "refused", "retired", "wrong_key", "forbidden", "not_found",
    "rejected", "unavailable", "unreachable", "interrupted", "timeout", "invalid_answer",
    "redirected", "proxy", "cut", "full", "no_tools",
]  # fmt: skip
TRANSIENT = ("rate_limited", "unavailable", "unreachable", "interrupted", "timeout")
CHARGED = ("interrupted", "timeout", "invalid_answer")
REFUSALS = ("moderation_blocked", "content_policy", "content_filter", "safety")
QUOTAS = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
TEMPLATES = ("jinja", "chat template", "raise_exception")
RETIRED = (
    "model_not_found", "deprecated", "retired", "decommissioned", "does not exist", "is pinned to",
)  # fmt: skip
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
STATUSES: Mapping[int, Kind] = {
    401: "wrong_key",
    402: "quota",
    403: "forbidden",
    404: "not_found",
    410: "retired",
    429: "rate_limited",
    **dict.fromkeys((408, 409, 425), "unavailable"),
}


class EndpointError(Exception):
    """A request without a usable answer.

    kind: what happened. reason: one line without secrets. status: HTTP status, 0 without one. body:
    the response's text, which may hold secrets. retry_after: seconds to wait as the service states
    them, or None. target: address of a redirect. transient: whether the same request may succeed
    later. charged: whether the service may bill the request although no answer was usable.
    """

    def __init__(
        self,
        kind: Kind,
        reason: str,
        *,
        status: int = 0,
        body: str = "",
        retry_after: float | None = None,
        target: str = "",
    ) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.status = status
        self.body = body
        self.retry_after = retry_after
        self.target = target
        self.transient = kind in TRANSIENT
        self.charged = kind in CHARGED

    def followed_by(self, last: "EndpointError") -> "EndpointError":
        """Return this error with the reason of the last attempt added."""
        reason = f"{self.reason}; then {last.reason}"
        return EndpointError(
            self.kind, reason, status=self.status, body=self.body, retry_after=last.retry_after
        )


class AnswerTooLargeError(httpx2.TransportError):
    """An answer exceeds its limit, or is compressed although that was not requested."""


class BoundedClient(httpx2.AsyncClient):
    """HTTP client for one address; it reads at most `max_bytes` of an answer.

    Redirects are not followed: photographs and keys go to this address only.
    """

    def __init__(self, url: str, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        try:
            super().__init__(
                follow_redirects=False,
                timeout=TIMEOUT,
                # Loading certificates takes a tenth of a second: only where they are used.
                verify=urlsplit(url).scheme == "https",
                # A proxy cannot reach this machine's loopback.
                trust_env=not is_loopback(url),
                headers={"Accept-Encoding": "identity"},  # the limit is that of the unpacked answer
            )
        except OSError as error:
            raise _certificate_error(error) from error
        except (ImportError, ValueError) as error:
            raise _proxy_error(error) from error

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and read its answer. Raises an `httpx2.TransportError`."""
        try:
            response = await super().send(request, **{**options, "stream": True})
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            proxy = find_proxy(str(request.url))
            if proxy is None or "ssl" in str(error).lower():  # of the service behind it
                raise
            name, value = proxy
            raise httpx2.ProxyError(f"the proxy of {name} ({value}) does not answer") from error
        content = bytearray()
        try:
            encoding = response.headers.get("content-encoding", "identity")
            if encoding != "identity":  # a small compressed answer may expand to any size
                raise AnswerTooLargeError(
                    f"the answer is compressed ({encoding[:20]}), unrequested"
                )
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > self._max_bytes:
                    raise AnswerTooLargeError(f"the answer exceeds {self._max_bytes >> 20} MiB")
        finally:
            await response.aclose()
        return httpx2.Response(
            response.status_code, headers=response.headers, content=bytes(content), request=request
        )


async def send_request(
    method: str, url: str, *, max_bytes: int, secrets: Iterable[str] = (), **content: Any
) -> httpx2.Response:
    """Send one request and return its successful, completely read response.

    content: `headers`, `json`, `data`, `files`, `params` as in httpx. secrets: values that error
    messages must not show. Raises `EndpointError`.
    """
    # A key that was read from a file ends in a line break, which no header may.
    headers = {name: value.strip() for name, value in content.pop("headers", {}).items()}
    try:
        async with BoundedClient(url, max_bytes) as client:
            response = await client.request(method, url, headers=headers, **content)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise transport_error(error, secrets) from error
    if not response.is_success:
        raise status_error(response, secrets)
    return response


def status_error(response: httpx2.Response, secrets: Iterable[str] = ()) -> EndpointError:
    """Make the error of a response that is no success; its body must have been read."""
    error = _read_error_body(response)
    status = response.status_code
    message = str(error.get("message") or response.text)
    words = f"{error.get('code')} {error.get('type')} {message}".lower()
    if 300 <= status < 400:
        target = urljoin(str(response.request.url), response.headers.get("location", ""))
        reason = f"HTTP {status}: redirected to {excerpt(target, secrets)}"
        return EndpointError("redirected", reason, status=status, target=target)
    if response.is_success:  # some services state the status of another one behind them
        code = error.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else status
    kind: Kind = STATUSES.get(status, "unavailable" if status >= 500 else "rejected")
    if status < 300:
        kind = "invalid_answer"
    elif status == 500 and any(word in words for word in TEMPLATES):
        kind = "rejected"  # a chat template refuses the messages, whenever they come
    if any(word in words for word in QUOTAS):
        kind = "quota"
    elif status in (400, 403, 422) and any(word in words for word in REFUSALS):
        kind = "refused"
    elif status in (400, 404) and any(word in words for word in RETIRED):
        kind = "retired"
    return EndpointError(
        kind,
        f"HTTP {status}: {excerpt(message or response.reason_phrase, secrets)}",
        status=status,
        body=response.text,
        retry_after=_parse_retry_after(response.headers.get("retry-after", "")),
    )


def transport_error(error: BaseException, secrets: Iterable[str] = ()) -> EndpointError:
    """Make the error of a failed connection from the exception or one of its causes."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, httpx2.TransportError):
        cause = cause.__cause__
    reason = excerpt(str(cause or error), secrets) or type(cause or error).__name__
    if isinstance(cause, AnswerTooLargeError):
        return EndpointError("invalid_answer", reason)
    if isinstance(cause, httpx2.ProxyError):
        return EndpointError("proxy", reason)
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
        return EndpointError("unreachable", f"nothing answers: {reason}")
    if isinstance(cause, httpx2.TimeoutException):
        return EndpointError("timeout", f"no complete answer in time: {reason}")
    if isinstance(cause, httpx2.LocalProtocolError):  # it was not sent; its text shows the key
        return EndpointError("wrong_key", "a header has a character that none may; set it again")
    if cause is None:
        return EndpointError("invalid_answer", f"the answer is not readable: {reason}")
    return EndpointError("interrupted", f"the connection was interrupted: {reason}")


def _parse_retry_after(value: str) -> float | None:
    """Parse `Retry-After`, a number of seconds or a date; None without it."""
    seconds = 0.0
    try:
        seconds = float(value)
    except ValueError:
        with suppress(ValueError, TypeError):  # TypeError: a date without a zone
            seconds = (parsedate_to_datetime(value) - datetime.now(timezone.utc)).total_seconds()
    return seconds if 0 < seconds < float("inf") else None  # None for NaN, too


def has_error_body(response: httpx2.Response) -> bool:
    """Whether the body of a response is an error, whatever its status says."""
    with suppress(ValueError, RecursionError):
        body = json.loads(response.content)
        return isinstance(body, dict) and bool(body.get("error")) and not body.get("choices")
    return False


def find_proxy(url: str) -> tuple[str, str] | None:
    """Find the environment variable with the proxy of an address; returns name and safe value."""
    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    for scheme in (parts.scheme, "all"):
        for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper()):
            value = os.environ.get(name)
            if value:
                return name, excerpt(value)
    return None


def _proxy_error(error: Exception) -> GenlabError:
    """Make the error for a proxy of the environment that cannot be used."""
    names = [name for name in os.environ if name.lower() in PROXY_VARIABLES and os.environ[name]]
    no_http = [n for n in names if not os.environ[n].startswith(("http://", "https://"))]
    name = (no_http or names or ["a proxy"])[0]
    value = os.environ.get(name, "")
    fix = "write it as http://HOST:PORT or socks5://HOST:PORT, or unset it"
    if isinstance(error, ImportError):
        fix = "pip install 'httpx2[socks]', or unset it"
    reason = "a SOCKS proxy needs a package" if isinstance(error, ImportError) else "no proxy"
    return GenlabError(f"{name}={excerpt(value)}: {reason}; {fix}", key=name, fix=fix)


def _certificate_error(error: OSError) -> GenlabError:
    """Make the error for certificates of the environment that cannot be read."""
    names = [name for name in CERTIFICATES if os.environ.get(name)]
    name = names[0] if names else "certificates"
    path = os.environ.get(name, str(error.filename))
    fix = f"correct or unset {name}"
    reason = error.strerror or str(error)
    return GenlabError(f"{name}={path}: {reason}; {fix}", key=name, path=path, fix=fix)


def _read_error_body(response: httpx2.Response) -> dict[str, Any]:
    """Extract the error object of a JSON body; services differ in where the message is."""
    with suppress(ValueError, RecursionError):
        body = json.loads(response.content)
        if isinstance(body, dict):
            error = body.get("error", body)
            message = {"message": body.get("detail") or body.get("message")}
            return {**message, **error} if isinstance(error, dict) else {"message": error}
    return {}


def is_url(text: str) -> bool:
    """Whether `text` is an absolute HTTP or HTTPS address."""
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        return False
    return valid and not any(character.isspace() for character in text)


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's own."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False
