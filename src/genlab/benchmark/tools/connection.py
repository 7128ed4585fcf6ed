"""The line to an OpenAI-compatible endpoint: bounded answers, each fault as a `ToolFailure`."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import AsyncIterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai

from genlab.benchmark.arrivals import MAX_BYTES
from genlab.benchmark.plugins import ToolFailure

MAX_BODY = MAX_BYTES * 4 // 3 + (1 << 20)  # an image as base64 and some words
CONNECT_SECONDS = 10.0
REFUSALS = ("moderation_blocked", "content_policy_violation", "content_filter", "safety")
RETIRED = ("model_not_found", "deprecated", "retired", "decommissioned", "does not exist")


class _TooLongError(httpx2.TransportError):
    """An answer went past its bound, or might when it is unpacked."""


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_BODY
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise _TooLongError(f"the answer went past {MAX_BODY >> 20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class _BoundedClient(openai.DefaultAsyncHttpxClient):
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        # Read here: an answer is bounded before anything of it is kept.
        wanted = options.pop("stream", False)
        response = await super().send(request, stream=True, **options)
        packing = response.headers.get("content-encoding", "identity")
        if packing != "identity":  # not asked for, and a small one may unpack to anything
            await response.aclose()
            raise _TooLongError(f"the answer is packed ({packing[:20]}), which was not asked for")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream)
        if not wanted:
            try:
                await response.aread()
            finally:
                await response.aclose()
        return response


def client(base_url: str, key: str) -> openai.AsyncOpenAI:
    """A client for one request; tries are the runner's affair, and so is the time it may take."""
    return openai.AsyncOpenAI(
        api_key=key,
        base_url=base_url,
        max_retries=0,
        timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
        http_client=_connections(base_url),
        default_headers={"Accept-Encoding": "identity"},  # MAX_BODY bounds what is unpacked
    )


def _connections(url: str) -> _BoundedClient:
    """Connections to one address; photographs go nowhere else, so redirects aren't followed."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return _BoundedClient(
        follow_redirects=False,
        # Certificates take a tenth of a second to load: only where there is something to check.
        verify=parts.scheme == "https",
        # A proxy of the environment can't reach this machine's own loopback.
        trust_env=not (host in ("localhost", "::1") or host.startswith("127.")),
    )


def failure_of(error: openai.OpenAIError, cost: float, key: str) -> ToolFailure:
    """What a fault of the client means; `cost` is what a lost image may have taken.

    key: is cut out of the reason, should the endpoint quote it.
    """
    failure = _failure_of(error, cost)
    if len(key) >= 4 and key in failure.reason:
        failure.reason = failure.reason.replace(key, "[key]")
    return failure


def _failure_of(error: openai.OpenAIError, cost: float) -> ToolFailure:
    if isinstance(error, openai.APIStatusError):
        return _status(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, _TooLongError):
            return ToolFailure("no_image", str(cause), cost=cost)
        if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout):
            return ToolFailure("unavailable", f"nothing answers: {cause}", passing=True)
        cause = cause.__cause__
    if isinstance(error, openai.APITimeoutError):
        return ToolFailure("timeout", str(error), passing=True, cost=cost)
    if isinstance(error, openai.APIConnectionError):
        said = str(error.__cause__ or "") or type(error.__cause__ or error).__name__
        return ToolFailure(
            "unavailable", f"the connection broke off: {said}", passing=True, cost=cost
        )
    return ToolFailure("no_image", f"the answer makes no sense: {error}", cost=cost)


def _status(error: openai.APIStatusError) -> ToolFailure:
    """An HTTP status that is no success."""
    code = error.status_code
    said = f"HTTP {code}: {error.message.removeprefix(f'Error code: {code} - ')}"
    words = f"{error.code} {error.type} {error.message}".lower()
    if code == 429:
        quota = "insufficient_quota" in words
        wait = retry_after(error.response.headers)
        return ToolFailure("rate_limited", said, retry_after=wait, passing=not quota)
    if code == 401:
        return ToolFailure("no_key", f"the key was refused, {said}")
    if code == 410 or (code in (400, 404) and any(word in words for word in RETIRED)):
        return ToolFailure("retired", said)
    if code in (400, 403) and any(word in words for word in REFUSALS):
        return ToolFailure("refused", said)
    if code in (403, 404):
        return ToolFailure("unavailable", said)
    if code in (408, 409, 425) or code >= 500:
        wait = retry_after(error.response.headers)
        return ToolFailure("unavailable", said, retry_after=wait, passing=True)
    return ToolFailure("error", said)


async def image_of(response: Any, api: openai.AsyncOpenAI, key: str) -> bytes:
    """The bytes of the first image of an answer; what is no answer is a `ToolFailure`."""
    data = getattr(response, "data", None)
    first = data[0] if isinstance(data, list) and data else None
    text, url = getattr(first, "b64_json", None), getattr(first, "url", None)
    if isinstance(text, str) and text:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ToolFailure("no_image", f"the image is not base64: {error}") from error
    if isinstance(url, str) and url:
        return await _fetched(url, api)
    shown = str(response)[:120]
    raise ToolFailure("no_image", f"the answer holds no image: {shown.replace(key or '?', '?')}")


async def _fetched(url: str, api: openai.AsyncOpenAI) -> bytes:
    """An image that the endpoint put elsewhere; without the key, and without following on."""
    own = api.base_url.host
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname == own):
        raise ToolFailure("no_image", f"the image is said to be at {url[:120]}, which is not asked")
    try:
        async with _connections(url) as plain:
            response = await plain.get(url, headers={"Accept-Encoding": "identity"})
    except (httpx2.HTTPError, httpx2.InvalidURL, _TooLongError) as error:
        raise ToolFailure("no_image", f"the image at {url[:120]} did not come: {error}") from error
    if response.status_code != 200:
        raise ToolFailure(
            "no_image", f"the image at {url[:120]} did not come: HTTP {response.status_code}"
        )
    return response.content


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an endpoint asks to be left alone, as seconds or as a date; None where not."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * scale
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - time.time()
            except (ValueError, OverflowError, TypeError):
                continue
        if 0 < seconds < float("inf"):  # NaN is not
            return seconds
    return None
