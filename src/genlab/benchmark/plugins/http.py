"""Tools that are HTTP services, and the kind `http`: any service with one request per image.

The service takes a case and answers with an image: a file, base64, a data URL, or an address.

Not protected: photographs leave this machine, to whoever runs the service.
"""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

import httpx2
from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import Self

from genlab.benchmark.cases.photographs import MAX_BYTES
from genlab.benchmark.plugins.configured import TemplateTool, expand, to_base64, variables
from genlab.llm.redaction import excerpt
from genlab.llm.transport import EndpointError, is_url, send_request

FETCH_WAITS = (1.0, 4.0, 16.0)  # seconds between attempts to fetch a linked image
ANSWER_BYTES = MAX_BYTES * 4 // 3 + (1 << 20)  # an image as base64 with JSON around it


def _check_url(url: str) -> str:
    if url and not is_url(url):
        raise PydanticCustomError("url", "Input must start with http:// or https://")
    return url


Url = Annotated[str, AfterValidator(_check_url)]


class ServiceTool(TemplateTool):
    """A tool that is an HTTP service."""

    url: Url = Field(min_length=1, description="Address; ${NAME} is an environment variable.")
    headers: dict[str, str] = Field(default={}, description="Headers, likewise.")

    @field_validator("headers")
    @classmethod
    def _no_secrets(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            secret = any(word in name.lower() for word in ("authorization", "key", "token"))
            if secret and not variables(value):
                raise ValueError(
                    f"{name}: put the key into an environment variable and write ${{NAME}}"
                )
        return headers

    @property
    def environment(self) -> list[str]:
        return variables("\n".join([*self.headers.values(), self.url]))

    async def send(self, method: str, path: str = "", **content: Any) -> httpx2.Response:
        """Send a request to the url, or to a path below it. Raises `EndpointError`."""
        url = expand(self.url)
        url = f"{url.rstrip('/')}/{path}" if path else url
        headers = {name: expand(value) for name, value in self.headers.items()}
        limits: dict[str, Any] = {"max_bytes": ANSWER_BYTES, "secrets": self.secrets}
        return await send_request(method, url, headers=headers, **limits, **content)

    async def request_json(self, method: str, path: str = "", **content: Any) -> Any:
        """Send a request and return the JSON of the answer. Raises `EndpointError`."""
        return read_answer(await self.send(method, path, **content), self.secrets)

    async def poll(self, path: str, **content: Any) -> httpx2.Response:
        """GET a path, and repeat it after transient faults: the service keeps working meanwhile."""
        return await _repeat(lambda: self.send("GET", path, **content))


class HttpTool(ServiceTool):
    """A service with one request per image. Exactly one of `body` and `form` holds the request."""

    templates: ClassVar = ("body", "form")

    kind: Literal["http"] = "http"
    method: Literal["POST", "PUT"] = Field(default="POST", description="HTTP method.")
    body: dict[str, JsonValue] = Field(
        default={}, description="Request as JSON; images are base64."
    )
    form: dict[str, JsonValue] = Field(
        default={}, description="Request as multipart; images are files."
    )
    image: str = Field(
        default="", description="Path of the image in a JSON answer; empty: the answer is the file."
    )
    image_hosts: list[str] = Field(
        default=[], description="Hosts from which images are fetched, besides that of the url."
    )

    @model_validator(mode="after")
    def _one_request(self) -> Self:
        if bool(self.body) == bool(self.form):
            raise ValueError("exactly one of body (JSON) and form (multipart) must be given")
        return self

    async def request(self, images: Sequence[bytes], values: dict[str, Any]) -> bytes:
        if self.body:
            encoded = [to_base64(image) for image in images]
            content: dict[str, Any] = {"json": self.fill(self.body, values, encoded)}
        else:
            content = {"files": _multipart(self.fill(self.form, values, images))}
        if not self.image:
            return (await self.send(self.method, **content)).content
        value = find_value(await self.request_json(self.method, **content), self.image)
        return await read_image(value, expand(self.url), self.image_hosts, self.secrets)


def read_answer(response: httpx2.Response, secrets: Collection[str]) -> Any:
    """Parse the JSON of an answer. Raises `EndpointError`."""
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError) as error:
        quote = excerpt(response.text[:1000], secrets)
        raise EndpointError("invalid_answer", f"the answer is not JSON: {quote}") from error


def find_value(content: Any, path: str) -> Any:
    """Find the value at a path such as `data.0.b64_json`. Raises `EndpointError` without one."""
    value = content
    for step in path.split("."):
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            quote = excerpt(str(content))
            raise EndpointError("invalid_answer", f"no {path} in the answer: {quote}") from error
    return value


async def read_image(
    value: object, url: str, hosts: Collection[str], secrets: Collection[str]
) -> bytes:
    """Return the image file that the text of an answer contains or links to.

    url: of the request; a link in the answer must point to the same host or one of `hosts`, and is
    fetched without headers. Raises `EndpointError`.
    """
    if not isinstance(value, str) or not value:
        kind = type(value).__name__
        raise EndpointError("invalid_answer", f"the answer has {kind} in the image's place")
    if value.startswith(("http:", "https:")):
        return await _fetch(value, url, hosts, secrets)
    if value.startswith("data:"):
        value = value.partition(",")[2]
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except ValueError as error:
        quote = excerpt(value, secrets, 60)
        raise EndpointError("invalid_answer", f"not base64 ({error}): {quote!r}") from error


async def _fetch(address: str, url: str, hosts: Collection[str], secrets: Collection[str]) -> bytes:
    printable = excerpt(address.partition("?")[0], secrets, 120)
    service = urlsplit(url)
    link = urlsplit(address if is_url(address) else "")
    loses_encryption = (service.scheme, link.scheme) == ("https", "http")
    if link.hostname not in (service.hostname, *hosts) or loses_encryption:
        reason = f"the image is at {printable}, which is not fetched; add its host to image_hosts"
        raise EndpointError("invalid_answer", reason)
    limits: dict[str, Any] = {"max_bytes": MAX_BYTES, "secrets": secrets}
    try:
        return (await _repeat(lambda: send_request("GET", address, **limits))).content
    except EndpointError as error:
        reason = f"the image at {printable} cannot be fetched: {error.reason}"
        failure = EndpointError("unreachable" if error.transient else "invalid_answer", reason)
        failure.transient = False
        failure.charged = True  # the answer that names the image is paid for
        raise failure from error


async def _repeat(request: Callable[[], Awaitable[httpx2.Response]]) -> httpx2.Response:
    """Send a request, and repeat it after transient faults."""
    for wait in FETCH_WAITS:
        try:
            return await request()
        except EndpointError as error:
            if not error.transient:
                raise
        await asyncio.sleep(wait)
    return await request()


def _multipart(filled: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Make the parts of a multipart request: bytes become files, a list one field per item.

    A list of objects, such as `{swaps}`, is one field of JSON.
    """
    parts: list[tuple[str, Any]] = []
    for name, value in filled.items():
        is_list = isinstance(value, list) and not any(isinstance(item, dict) for item in value)
        for item in value if is_list else [value]:
            if isinstance(item, bytes):
                parts.append((name, (f"{name}.png", item, "image/png")))
            else:
                parts.append((name, (None, item if isinstance(item, str) else json.dumps(item))))
    return parts
