"""Client of an OpenAI-compatible endpoint: chat completions and images."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError

from genlab.core.errors import GenlabError
from genlab.llm.errors import EndpointError, status_error, transport_error
from genlab.llm.redaction import excerpt, redact
from genlab.llm.transport import TIMEOUT, BoundedClient, is_url

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = "none"  # the openai package wants a key; endpoints without keys ignore it
MAX_BYTES = 8 << 20  # of an answer
Answer = TypeVar("Answer", bound=BaseModel)


class ChatMessage(BaseModel):
    """The fields of an answer's message that are read; others may be anything."""

    content: str | None = None
    refusal: str | None = None
    tool_calls: Any = None


class Choice(BaseModel):
    """One alternative of a completion."""

    message: ChatMessage
    finish_reason: str | None = None


class Usage(BaseModel):
    """Tokens of a request."""

    prompt_tokens: int = Field(ge=0, le=10**9)
    completion_tokens: int = Field(ge=0, le=10**9)


class Completion(BaseModel):
    """Answer of chat completions; services that do not count have any `usage`."""

    choices: list[Choice] = Field(min_length=1)
    usage: Usage | Any = Field(None, union_mode="left_to_right")
    model: str | None = None

    @property
    def text(self) -> str:
        """What the model answers."""
        return self.choices[0].message.content or ""

    @property
    def refusal(self) -> str:
        """Why the model or a content filter refuses; empty where neither does."""
        choice = self.choices[0]
        filtered = choice.finish_reason == "content_filter"
        return choice.message.refusal or ("stopped by a content filter" if filtered else "")


class ImageData(BaseModel):
    """An image of an answer, inline or by address."""

    b64_json: str | None = None
    url: str | None = None


class Images(BaseModel):
    """Answer of image edits and generations."""

    data: list[ImageData] = Field(min_length=1)
    usage: Any = None


class Client:
    """Asynchronous client of one endpoint; safe for concurrent requests.

    base_url, api_key: default to OPENAI_BASE_URL (else OpenAI) and the variable `key_name`.
    max_retries: further attempts after passing faults; 0 where the caller counts them against its
    budget. Raises a `GenlabError` for an address that is not one, a malformed key, and a missing
    key of OpenAI.
    """

    def __init__(
        self,
        base_url: str = "",
        api_key: str = "",
        *,
        key_name: str = "OPENAI_API_KEY",
        max_bytes: int = MAX_BYTES,
        max_retries: int = 0,
    ) -> None:
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        if not is_url(self.base_url):
            raise GenlabError(
                f"OPENAI_BASE_URL must be an address such as {OPENAI_URL},"
                f" got {excerpt(repr(self.base_url))}"
            )
        key = api_key or os.environ.get(key_name, "")
        self._key = _checked_key(key, key_name, self.base_url)
        self._max_bytes, self._max_retries = max_bytes, max_retries

    async def chat(self, request: Mapping[str, Any], seconds: float | None = None) -> Completion:
        """Create a chat completion. Raises `EndpointError`.

        request: arguments of `chat.completions.create`. seconds: limit of answer and
        retries together.
        """
        return await self._send(
            lambda api: api.chat.completions.with_raw_response.create, request, Completion, seconds
        )

    def chat_sync(self, request: Mapping[str, Any], seconds: float | None = None) -> Completion:
        """Call `chat` from a thread without an event loop."""
        return asyncio.run(self.chat(request, seconds))

    async def edit_image(self, request: Mapping[str, Any]) -> Images:
        """Call `images.edit`. Raises `EndpointError`."""
        return await self._send(lambda api: api.images.with_raw_response.edit, request, Images)

    async def generate_image(self, request: Mapping[str, Any]) -> Images:
        """Call `images.generate`. Raises `EndpointError`."""
        return await self._send(lambda api: api.images.with_raw_response.generate, request, Images)

    def redact(self, text: str) -> str:
        """Return `text` without secrets, the key of this client included."""
        return redact(text, [self._key])

    async def _send(
        self,
        resource: Callable[[AsyncOpenAI], Callable[..., Awaitable[Any]]],
        request: Mapping[str, Any],
        answer: type[Answer],
        seconds: float | None = None,
    ) -> Answer:
        import openai  # half a second: only where a request is sent

        try:
            async with openai.AsyncOpenAI(
                api_key=self._key,
                base_url=self.base_url,
                max_retries=self._max_retries,
                timeout=TIMEOUT,
                http_client=BoundedClient(self.base_url, self._max_bytes),
            ) as api:
                raw = await asyncio.wait_for(resource(api)(**request), seconds)
        except asyncio.TimeoutError as error:
            raise EndpointError(
                "timeout", f"no complete answer in time: {seconds:.3g} s"
            ) from error
        except openai.APIStatusError as error:
            raise status_error(error.response, [self._key]) from error
        except openai.OpenAIError as error:
            raise transport_error(error, [self._key]) from error
        try:
            return answer.model_validate_json(raw.http_response.content)
        except ValidationError as error:
            kind = raw.headers.get("content-type", "no content type")
            shown = self.redact(raw.http_response.text[:1000])
            reason = f"the answer is not of type {answer.__name__} but {kind}: {shown or 'empty'}"
            raise EndpointError("invalid_answer", excerpt(reason)) from error


def is_openai(base_url: str) -> bool:
    """Whether an address is OpenAI's."""
    return urlsplit(base_url).hostname == urlsplit(OPENAI_URL).hostname


def _checked_key(key: str, name: str, base_url: str) -> str:
    key = key.strip()  # a key that was read from a file ends in a line break
    if not key:
        if is_openai(base_url):
            raise GenlabError(
                f"{name} is not set; set it, or set OPENAI_BASE_URL to an endpoint that"
                " needs no key"
            )
        return NO_KEY
    if not key.isascii() or not key.isprintable() or " " in key:
        raise GenlabError(f"{name} contains a character that no key has; set it again")
    return key
