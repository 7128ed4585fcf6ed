"""HTTP requests with bounded answers, without redirects, whose failures are `EndpointError`s."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any
from urllib.parse import urlsplit

import httpx2

from genlab.llm.errors import AnswerTooLargeError, status_error, transport_error

TIMEOUT = httpx2.Timeout(None, connect=10.0)


class BoundedClient(httpx2.AsyncClient):
    """HTTP client of one address; it reads at most `max_bytes` of an answer.

    Redirects are not followed: what is sent (photographs, keys) goes to this address only.
    seconds: limit of a request with its answer; a timeout of httpx2 counts per read.
    """

    def __init__(self, url: str, max_bytes: int, seconds: float | None = None) -> None:
        self._max_bytes, self._seconds = max_bytes, seconds
        super().__init__(
            follow_redirects=False,
            timeout=TIMEOUT,
            # Certificates take a tenth of a second to load: only where they are used.
            verify=urlsplit(url).scheme == "https",
            # A proxy of the environment cannot reach this machine's loopback.
            trust_env=not is_loopback(url),
            headers={"Accept-Encoding": "identity"},  # the limit is that of the unpacked answer
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and read its answer. Raises an `httpx2.TransportError`."""
        try:
            return await asyncio.wait_for(self._send(request, **options), self._seconds)
        except asyncio.TimeoutError:
            import openai  # its client retries after any error but its own: as long every time

            late = httpx2.ReadTimeout(f"more than {self._seconds:g} s")
            raise openai.APITimeoutError(request=request) from late

    async def _send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        streamed = options.pop("stream", False)
        response = await super().send(request, stream=True, **options)
        packing = response.headers.get("content-encoding", "identity")
        if packing != "identity":  # a small packed answer may unpack to any size
            await response.aclose()
            raise AnswerTooLargeError(f"the answer is compressed ({packing[:20]}), unrequested")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(response.stream, self._max_bytes)
        if not streamed:
            try:
                await response.aread()
            finally:
                await response.aclose()
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._stream, self._max_bytes = stream, max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._max_bytes
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise AnswerTooLargeError(f"the answer exceeds {self._max_bytes >> 20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def send_request(
    method: str, url: str, *, max_bytes: int, secrets: Iterable[str] = (), **content: Any
) -> httpx2.Response:
    """Send one request and return its successful, completely read response.

    content: `headers`, `json`, `data`, `files`, `params` as in httpx. secrets: values that error
    messages must not show. Raises `EndpointError`.
    """
    try:
        async with BoundedClient(url, max_bytes) as client:
            response = await client.request(method, url, **content)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise transport_error(error, secrets) from error
    if not response.is_success:
        raise status_error(response, secrets)
    return response


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
    return host in ("localhost", "::1") or host.startswith("127.")
