"""Client of an OpenAI-compatible endpoint: chat completions and images."""

import asyncio
import itertools
import math
import os
import time
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pydantic import AliasChoices, AliasPath, BaseModel, Field, ValidationError

from genlab.core.errors import GenlabError
from genlab.llm.redaction import excerpt, redact_strings
from genlab.llm.transport import (
    TIMEOUT,
    BoundedClient,
    EndpointError,
    has_error_body,
    is_url,
    send_request,
    status_error,
    transport_error,
)

OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = "none"  # the openai package wants a key; endpoints without keys ignore it
MAX_BYTES = 8 << 20  # of an answer
# Seconds before a retry, where the service does not state them
SHORTEST_WAIT = 0.5
LONGEST_WAIT = 8.0
SEED_STEP = 1000  # a failure that depends on the seed would happen again with the same one
Body = TypeVar("Body", bound=BaseModel)


class Retries(NamedTuple):
    """Numbers of retries after transient errors, which are half a second to eight apart.

    not_reached: of an endpoint that may not exist. reached: of one that has just answered, and may
    be down for a minute.
    """

    not_reached: int
    reached: int


RETRIES = Retries(not_reached=4, reached=14)


class Usage(BaseModel):
    """Tokens of a request."""

    prompt_tokens: int = Field(ge=0, le=10**9)
    completion_tokens: int = Field(ge=0, le=10**9)


def _choice_field(*path: str) -> Any:
    return Field(None, validation_alias=AliasPath("choices", 0, *path))


THOUGHTS = [AliasPath("choices", 0, "message", name) for name in ("reasoning_content", "reasoning")]


class Completion(BaseModel):
    """First choice of a chat completion; `usage` may be anything."""

    message: dict[str, Any] = Field(validation_alias=AliasPath("choices", 0, "message"))
    content: str | list[Any] | None = _choice_field("message", "content")
    thoughts: str | Any = Field(None, validation_alias=AliasChoices(*THOUGHTS))
    refused: str | None = _choice_field("message", "refusal")
    finish_reason: str | None = _choice_field("finish_reason")
    usage: Usage | Any = Field(None, union_mode="left_to_right")
    model: str | None = None

    @property
    def text(self) -> str:
        """The answer; the thoughts where a server mistook all of the answer for them."""
        content = self.content
        if isinstance(content, list):  # of content parts
            texts = [item.get("text") for item in content if isinstance(item, dict)]
            content = "".join(text for text in texts if isinstance(text, str))
        if content:
            return content
        return self.thoughts if isinstance(self.thoughts, str) else ""

    @property
    def refusal(self) -> str:
        """Why the model or a content filter refuses; empty where neither does."""
        filtered = self.finish_reason == "content_filter"
        return self.refused or ("stopped by a content filter" if filtered else "")


class Images(BaseModel):
    """First image of an edit or a generation, inline or by address."""

    image: dict[str, Any] = Field(validation_alias=AliasPath("data", 0))
    usage: Any = None


class Client:
    """Asynchronous client of one endpoint; safe for concurrent requests.

    base_url: (default: OPENAI_BASE_URL, or else OpenAI). api_key: (default: the environment
    variable `key_name`). Raises a GenlabError for a malformed address or key, and for a missing key
    of OpenAI.
    """

    def __init__(
        self,
        base_url: str = "",
        api_key: str = "",
        *,
        key_name: str = "OPENAI_API_KEY",
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        if not is_url(self.base_url):
            source = "base_url" if base_url else "OPENAI_BASE_URL"
            value = excerpt(repr(self.base_url))
            raise GenlabError(f"{source} must be an address such as {OPENAI_URL}, got {value}")
        # A key that was read from a file ends in a line break.
        key = (api_key or os.environ.get(key_name, "")).strip()
        if not key and is_openai(self.base_url):
            fix = "set it, or set OPENAI_BASE_URL to an endpoint that needs no key"
            raise GenlabError(f"{excerpt(key_name)} is not set; {fix}")
        if not key.isascii() or not key.isprintable() or " " in key:
            name = excerpt(key_name)  # somebody may have written the key there
            raise GenlabError(f"{name} contains a character that no key has; set it again")
        self._key = key or NO_KEY
        self._max_bytes = max_bytes

    async def chat(
        self,
        request: Mapping[str, Any],
        seconds: float = math.inf,
        *,
        retries: int = 0,
        left: float = math.inf,
        note: Callable[[str], None] = lambda line: None,
    ) -> Completion:
        """Create a chat completion. Raises an `EndpointError` whose reason begins with the first.

        request: arguments of `chat.completions.create`. seconds: limit of each request, and of each
        wait. retries: further attempts after transient errors, each with another seed. left: limit
        in seconds of all requests and waits together. note: called with a line for each wait.
        """
        ends = time.monotonic() + left
        first: EndpointError | None = None
        for attempt in itertools.count():
            arguments = dict(request)
            if "seed" in arguments:
                arguments["seed"] += SEED_STEP * attempt
            try:
                longest = min(seconds, max(0.0, ends - time.monotonic()))
                return await self._send("chat.completions.create", arguments, Completion, longest)
            except EndpointError as error:
                wait = error.retry_after or min(LONGEST_WAIT, SHORTEST_WAIT * 2**attempt)
                late = wait > seconds or time.monotonic() + wait > ends
                if first is not None and error.reason != first.reason:
                    error = first.followed_by(error)
                if attempt >= retries or not error.transient or late:
                    raise error from None
                first = first or error
                note(f"waiting {wait:.3g} s: {error.reason}")
                await asyncio.sleep(wait)
        raise AssertionError("the loop ends by itself")

    async def make_image(
        self, method: Literal["edit", "generate"], request: Mapping[str, Any]
    ) -> Images:
        """Call `images.edit` or `images.generate`. Raises `EndpointError`."""
        return await self._send(f"images.{method}", request, Images)

    async def list_models(self) -> list[str]:
        """List the models of the endpoint. Raises `EndpointError`."""
        headers = {"Authorization": f"Bearer {self._key}"}
        address = f"{self.base_url.rstrip('/')}/models"
        response = await send_request(
            "GET", address, max_bytes=MAX_BYTES, secrets=[self._key], headers=headers
        )
        try:
            return [str(model["id"]) for model in response.json()["data"]]
        except (ValueError, LookupError, TypeError) as error:
            raise EndpointError("invalid_answer", "it lists no models") from error

    def redact(self, value: Any) -> Any:
        """Return a text, or a JSON value, without secrets, the key of this client included."""
        return redact_strings(value, [self._key])

    async def _send(
        self,
        method: str,
        request: Mapping[str, Any],
        body_type: type[Body],
        seconds: float = math.inf,
    ) -> Body:
        import openai  # here, since it takes half a second

        try:
            async with openai.AsyncOpenAI(
                api_key=self._key,
                base_url=self.base_url,
                max_retries=0,
                timeout=TIMEOUT,
                http_client=BoundedClient(self.base_url, self._max_bytes),
            ) as api:
                send = attrgetter(method)(api.with_raw_response)
                raw = await asyncio.wait_for(
                    send(**request), None if seconds == math.inf else seconds
                )
        except asyncio.TimeoutError as error:
            reason = f"no complete answer in time: {seconds:.3g} s"
            raise EndpointError("timeout", reason) from error
        except openai.APIStatusError as error:
            raise status_error(error.response, [self._key]) from error
        except openai.OpenAIError as error:
            raise transport_error(error, [self._key]) from error
        if has_error_body(raw.http_response):
            raise status_error(raw.http_response, [self._key])
        try:
            return body_type.model_validate_json(raw.http_response.content)
        except ValidationError as error:
            kind = raw.headers.get("content-type", "no content type")
            text = self.redact(raw.http_response.text[:1000])
            reason = f"the answer is not of type {body_type.__name__} but {kind}: {text or 'empty'}"
            raise EndpointError("invalid_answer", excerpt(reason)) from error


def is_openai(base_url: str) -> bool:
    """Whether an address is OpenAI's."""
    return urlsplit(base_url).hostname == urlsplit(OPENAI_URL).hostname
