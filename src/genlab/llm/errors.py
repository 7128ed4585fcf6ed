"""What can go wrong between a request and a usable answer of a service."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Literal

import httpx2

from genlab.llm.redaction import excerpt

Kind = Literal[
    "rate_limited",
    "quota",
    "refused",
    "retired",
    "wrong_key",
    "forbidden",
    "not_found",
    "rejected",
    "unavailable",
    "unreachable",
    "interrupted",
    "timeout",
    "invalid_answer",
]
TRANSIENT = ("rate_limited", "unavailable", "unreachable", "interrupted", "timeout")
CHARGED = ("interrupted", "timeout", "invalid_answer")
REFUSALS = ("moderation_blocked", "content_policy", "content_filter", "safety")
QUOTAS = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
RETIRED = ("model_not_found", "deprecated", "retired", "decommissioned", "does not exist")


@dataclass(eq=False)
class EndpointError(Exception):
    """A request without a usable answer.

    kind: what happened. reason: one line without secrets. status: HTTP status, 0 without one.
    param: the parameter that the service names. body: the response's text, which may hold secrets.
    retry_after: seconds that the service asks to wait, None where it does not say.
    """

    kind: Kind
    reason: str
    status: int = 0
    param: str = ""
    body: str = ""
    retry_after: float | None = None

    def __str__(self) -> str:
        return self.reason

    @property
    def transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in TRANSIENT

    @property
    def charged(self) -> bool:
        """Whether the service may bill the request although no answer was usable."""
        return self.kind in CHARGED


class AnswerTooLargeError(httpx2.TransportError):
    """An answer exceeds its limit, or is compressed although that was not requested."""


def status_error(response: httpx2.Response, secrets: Iterable[str] = ()) -> EndpointError:
    """Describe a response that is no success; its body must have been read."""
    error = _error_body(response)
    message = str(error.get("message") or response.text or response.reason_phrase)
    return EndpointError(
        _kind(response.status_code, f"{error.get('code')} {error.get('type')} {message}".lower()),
        f"HTTP {response.status_code}: {excerpt(message, secrets)}",
        status=response.status_code,
        param=str(error.get("param") or ""),
        body=response.text,
        retry_after=retry_after(response.headers),
    )


def transport_error(error: BaseException, secrets: Iterable[str] = ()) -> EndpointError:
    """Describe a failure of the connection from the exception or one of its causes."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, httpx2.TransportError):
        cause = cause.__cause__
    reason = excerpt(str(cause or error), secrets) or type(cause or error).__name__
    if isinstance(cause, AnswerTooLargeError):
        return EndpointError("invalid_answer", reason)
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
        return EndpointError("unreachable", f"nothing answers: {reason}")
    if isinstance(cause, httpx2.TimeoutException):
        return EndpointError("timeout", f"no complete answer in time: {reason}")
    if cause is None:
        return EndpointError("invalid_answer", f"the answer is not readable: {reason}")
    return EndpointError("interrupted", f"the connection was interrupted: {reason}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that `Retry-After` asks to wait, given as a number or a date; None without it."""
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError, TypeError):
            return None
    return seconds if 0 < seconds < float("inf") else None  # NaN is not


def _error_body(response: httpx2.Response) -> dict[str, Any]:
    """The error object of a JSON body; services differ in where they put the message."""
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(body, dict):
        return {}
    error = body.get("error", body)
    if isinstance(error, dict):
        return {"message": body.get("detail") or body.get("message"), **error}
    return {"message": error}


def _kind(status: int, words: str) -> Kind:
    if status == 402 or any(word in words for word in QUOTAS):
        return "quota"
    if status == 429:
        return "rate_limited"
    if status == 401:
        return "wrong_key"
    if status in (400, 403, 422) and any(word in words for word in REFUSALS):
        return "refused"
    if status == 410 or (status in (400, 404) and any(word in words for word in RETIRED)):
        return "retired"
    if status in (403, 404):
        return "forbidden" if status == 403 else "not_found"
    return "unavailable" if status in (408, 409, 425) or status >= 500 else "rejected"
