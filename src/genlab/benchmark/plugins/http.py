"""Kind `http`: any service that takes a case in one request and answers with an image.

Not protected: photographs leave this machine, to whoever runs the service.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins import placeholders
from genlab.benchmark.plugins.answers import ANSWER_BYTES, image_bytes, pick
from genlab.benchmark.plugins.base import Picture, ToolFailure
from genlab.benchmark.plugins.configured import ConfiguredTool, ServiceEntry
from genlab.benchmark.plugins.inputs import make_inputs
from genlab.llm.errors import EndpointError
from genlab.llm.redaction import excerpt
from genlab.llm.transport import send_request


class HttpEntry(ServiceEntry):
    """A tool of kind `http`. Exactly one of `body` and `form` holds the request."""

    templates: ClassVar = ("body", "form")

    kind: Literal["http"] = "http"
    method: Literal["POST", "PUT"] = Field(default="POST", description="HTTP method.")
    body: dict[str, Any] = Field(default={}, description="Request as JSON; images are base64.")
    form: dict[str, Any] = Field(default={}, description="Request as multipart; images are files.")
    image: str = Field(
        default="", description="Path of the image in a JSON answer; empty: the answer is the file."
    )

    @model_validator(mode="after")
    def _one_request(self) -> Self:
        if bool(self.body) == bool(self.form):
            raise ValueError("exactly one of body (JSON) and form (multipart) must be given")
        return self


class HttpTool(ConfiguredTool[HttpEntry]):
    """A service with one request per image."""

    async def make(self, case: Case, options: Mapping[str, Any]) -> Picture:
        """Send the request. Raises `ToolFailure` or `EndpointError`."""
        entry = self.entry
        inputs = await asyncio.to_thread(make_inputs, case)
        values = {**self.values(case, inputs, options), "template": inputs.template}
        try:
            filled = placeholders.fill(entry.body or entry.form, values, inputs.avatars)
        except KeyError as error:
            raise ToolFailure("error", f"the case has no {error.args[0]}") from error
        secrets = [os.environ.get(name, "") for name in self.environment]
        url = placeholders.expand(entry.url)
        headers = {name: placeholders.expand(value) for name, value in entry.headers.items()}
        content = _json(filled, headers) if entry.body else _multipart(filled, headers)
        response = await send_request(
            entry.method, url, max_bytes=ANSWER_BYTES, secrets=secrets, **content
        )
        if not entry.image:
            return Picture(response.content, note=f"seed {values['seed']}")
        try:
            answer = json.loads(response.content)
        except (ValueError, RecursionError) as error:
            shown = excerpt(response.text[:1000], secrets)
            raise EndpointError("invalid_answer", f"the answer is not JSON: {shown}") from error
        data = await image_bytes(pick(answer, entry.image), url, entry.image_hosts, secrets)
        return Picture(data, note=f"seed {values['seed']}")


def _json(filled: Any, headers: dict[str, str]) -> dict[str, Any]:
    """Arguments of a request with a JSON body."""
    content = json.dumps(filled, default=placeholders.to_base64).encode()
    return {"content": content, "headers": {"Content-Type": "application/json", **headers}}


def _multipart(filled: Mapping[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """Arguments of a multipart request: bytes become files, a list one field per item.

    A list of objects, such as `{swaps}`, is one field of JSON.
    """
    parts: list[tuple[str, tuple[str | None, Any] | tuple[str, bytes, str]]] = []
    for name, value in filled.items():
        listed = isinstance(value, list) and not any(isinstance(one, dict) for one in value)
        for item in value if listed else [value]:
            if isinstance(item, bytes):
                parts.append((name, (f"{name}.png", item, "image/png")))
            else:
                parts.append((name, (None, item if isinstance(item, str) else json.dumps(item))))
    return {"files": parts, "headers": headers}
