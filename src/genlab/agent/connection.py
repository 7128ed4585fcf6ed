"""One connection to an OpenAI-compatible endpoint: an address, a key, and answers within bounds.

What is sent never holds a key in its messages; what comes back is bounded in size and in time, and
only the parts of it are read that are used.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
from pydantic import BaseModel, Field, ValidationError

from genlab.agent.messages import Message
from genlab.agent.redact import EXCERPT, excerpt, redact
from genlab.core.errors import GenlabError

OPENAI_URL = "https://api.openai.com/v1"
MAX_BODY = 8 << 20  # bytes of one HTTP answer
CONNECT_SECONDS = 10.0


class _Words(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Words
    finish_reason: str | None = None


class Usage(BaseModel):
    """Tokens, as an endpoint counts them."""

    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)


class Completion(BaseModel):
    """What is read of an endpoint's answer; the rest may be whatever it likes."""

    choices: list[_Choice] = Field(min_length=1)
    usage: Any = None
    model: str | None = None


class RetryError(Exception):
    """This attempt failed; another may do better.

    `wait` is the endpoint's own word in seconds. `note` is told to the model (and needs no wait);
    `unreachable` says that nothing listens.
    """

    def __init__(
        self,
        reason: str,
        *,
        wait: float | None = None,
        note: Sequence[Message] = (),
        unreachable: bool = False,
    ) -> None:
        super().__init__(reason)
        self.wait = wait
        self.note = note
        self.unreachable = unreachable


class Connection:
    """An endpoint that can be asked.

    Address and key default to OPENAI_BASE_URL and OPENAI_API_KEY. Raises a `GenlabError` for an
    address that is none, and for a key that is missing or cannot be one.
    """

    def __init__(self, base_url: str | None, api_key: str | None) -> None:
        self.base_url = _checked_url(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
        self._key = _checked_key(api_key or os.environ.get("OPENAI_API_KEY") or "", self.base_url)
        self._client = openai.OpenAI(
            api_key=self._key,
            base_url=self.base_url,
            max_retries=0,  # retries are counted by who asks, against the budget
            # A proxy of the environment cannot reach this machine's own loopback.
            http_client=_connections(trust_env=not _is_loopback(self.base_url)),
            default_headers={"Accept-Encoding": "identity"},  # MAX_BODY bounds what is unpacked
        )

    def post(self, request: dict[str, Any], seconds: float) -> Completion:
        """Send `request` and read its answer, bounded in size and in `seconds`.

        Raises `RetryError` where the answer does not come whole, and the client's own
        `APIStatusError` where it is an error of the endpoint.
        """
        limits = openai.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        try:
            # Streamed, so that the client leaves the reading to us and to what bounds it.
            with self._client.chat.completions.with_streaming_response.create(
                **request, timeout=limits
            ) as response:
                kind = response.headers.get("content-type", "no content type")
                body = response.read()
        except openai.APITimeoutError as error:
            lost = isinstance(error.__cause__, httpx2.ConnectTimeout)
            raise RetryError(f"no answer within {seconds:g} s", unreachable=lost) from error
        except openai.APIConnectionError as error:
            lost = isinstance(error.__cause__, httpx2.ConnectError)
            why = self.excerpt(str(error.__cause__ or error))
            raise RetryError(f"the connection failed: {why}", unreachable=lost) from error
        except httpx2.TimeoutException as error:
            raise RetryError(f"no whole answer within {seconds:g} s") from error
        except httpx2.HTTPError as error:
            raise RetryError(f"the answer broke off: {self.excerpt(str(error))}") from error
        try:
            return Completion.model_validate_json(body)
        except ValidationError as error:
            said = self.excerpt(body[: 4 * EXCERPT].decode("utf-8", "replace"))
            what = f"{self.excerpt(kind)}: {said or 'nothing'}"
            raise RetryError(f"the endpoint sent no chat completion but {what}") from error

    def clean(self, messages: Sequence[Message]) -> list[Message]:
        """Messages without secrets, this connection's own among them."""
        return [
            {"role": each["role"], "content": redact(each["content"], [self._key])}
            for each in messages
        ]

    def excerpt(self, text: str) -> str:
        """The beginning of other people's text on one line, without secrets."""
        return excerpt(text, [self._key])


class _BoundedStream(httpx2.SyncByteStream):
    """A body that ends in an error where it takes too many bytes, or too long as a whole."""

    def __init__(self, stream: httpx2.SyncByteStream, seconds: float) -> None:
        self._stream = stream
        self._deadline = time.monotonic() + seconds

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._stream:
            size += len(chunk)
            if size > MAX_BODY:
                raise httpx2.ReadError(f"it is larger than {MAX_BODY >> 20} MiB")
            if time.monotonic() > self._deadline:
                raise httpx2.ReadTimeout("it came too slowly")
            yield chunk

    def close(self) -> None:
        self._stream.close()


class _BoundedClient(openai.DefaultHttpxClient):
    """A timeout of httpx2 is for one read: byte by byte, an endpoint could hold us for ever."""

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        response = super().send(request, **options)
        seconds = request.extensions.get("timeout", {}).get("read")
        if isinstance(response.stream, httpx2.SyncByteStream) and not response.is_closed:
            response.stream = _BoundedStream(
                response.stream, math.inf if seconds is None else seconds
            )
        return response


@cache  # loading the certificates takes a tenth of a second
def _connections(*, trust_env: bool) -> httpx2.Client:
    return _BoundedClient(trust_env=trust_env)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an endpoint asks to be left alone, or None; given as seconds or as a date."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * scale
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - time.time()
            except (ValueError, OverflowError):
                continue
        if seconds > 0:  # NaN is not
            return seconds
    return None


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        fine = False
    if not fine or any(character.isspace() for character in url):
        raise GenlabError(
            f"OPENAI_BASE_URL must be an address such as {OPENAI_URL}, got {excerpt(repr(url))}"
        )
    return url


def _checked_key(key: str, base_url: str) -> str:
    key = key.strip()  # a key that was read from a file ends in a line break
    if not key:
        if urlsplit(base_url).hostname == urlsplit(OPENAI_URL).hostname:
            raise GenlabError(
                "OPENAI_API_KEY is not set: set it, or OPENAI_BASE_URL to an endpoint without keys,"
                " or choose a backend that needs none (embedded, search, replay)"
            )
        return "none"  # the client insists on one
    if not key.isascii() or not key.isprintable() or " " in key:
        raise GenlabError("OPENAI_API_KEY holds a character that no key has; set it again")
    return key


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
