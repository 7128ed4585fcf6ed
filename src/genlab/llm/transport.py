"""HTTP requests with bounded answers, without redirects, whose failures are `EndpointError`s."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

import httpx2

from genlab.llm.errors import AnswerTooLargeError, status_error, transport_error

TIMEOUT = httpx2.Timeout(None, connect=10.0)


class BoundedClient(httpx2.AsyncClient):
    """HTTP client of one address; it reads at most `max_bytes` of an answer.

    Redirects are not followed: what is sent (photographs, keys) goes to this address only.
    """

    def __init__(self, url: str, max_bytes: int) -> None:
        self._max_bytes = max_bytes
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
        response = await super().send(request, **{**options, "stream": True})
        content = bytearray()
        try:
            packing = response.headers.get("content-encoding", "identity")
            if packing != "identity":  # a small packed answer may unpack to any size
                raise AnswerTooLargeError(f"the answer is compressed ({packing[:20]}), unrequested")
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
