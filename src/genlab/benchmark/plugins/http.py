"""Kind `http`: any service that takes a case in one request and answers with an image.

Not protected: photographs leave this machine, to whoever runs the service.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins import placeholders
from genlab.benchmark.plugins.answers import image_bytes, parse_json, pick
from genlab.benchmark.plugins.base import Picture
from genlab.benchmark.plugins.configured import ServiceTool
from genlab.benchmark.plugins.inputs import make_inputs


class HttpTool(ServiceTool):
    """A service with one request per image. Exactly one of `body` and `form` holds the request."""

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

    async def make(self, case: Case, options: Mapping[str, Any]) -> Picture:
        """Send the request. Raises `ToolFailure` or `EndpointError`."""
        inputs = await asyncio.to_thread(make_inputs, case)
        values = {**self.values(inputs, options), "template": inputs.template}
        filled = self.fill(self.body or self.form, values, inputs.avatars)
        if self.body:
            content = json.dumps(filled, default=placeholders.to_base64).encode()
            kind = {"Content-Type": "application/json"}
            response = await self.send(self.method, content=content, headers=kind)
        else:
            response = await self.send(self.method, files=_multipart(filled))
        note = f"seed {values['seed']}"
        if not self.image:
            return Picture(response.content, note=note)
        value = pick(parse_json(response, self.secrets), self.image)
        url = placeholders.expand(self.url)
        return Picture(await image_bytes(value, url, self.image_hosts, self.secrets), note=note)


def _multipart(filled: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The parts of a multipart request: bytes become files, a list one field per item.

    A list of objects, such as `{swaps}`, is one field of JSON.
    """
    parts: list[tuple[str, Any]] = []
    for name, value in filled.items():
        listed = isinstance(value, list) and not any(isinstance(one, dict) for one in value)
        for item in value if listed else [value]:
            if isinstance(item, bytes):
                parts.append((name, (f"{name}.png", item, "image/png")))
            else:
                parts.append((name, (None, item if isinstance(item, str) else json.dumps(item))))
    return parts
