"""Images in the answers of services: as base64, as a data URL, or by address."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

import httpx2

from genlab.benchmark.cases.photographs import MAX_BYTES
from genlab.llm.errors import EndpointError
from genlab.llm.redaction import excerpt
from genlab.llm.transport import is_url, send_request

ANSWER_BYTES = MAX_BYTES * 4 // 3 + (1 << 20)  # an image as base64 with JSON around it


def parse_json(response: httpx2.Response, secrets: Collection[str] = ()) -> Any:
    """The JSON of an answer. Raises `EndpointError` where it holds something else."""
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError) as error:
        shown = excerpt(response.text[:1000], secrets)
        raise EndpointError("invalid_answer", f"the answer is not JSON: {shown}") from error


def pick(content: Any, path: str) -> Any:
    """The value at a path such as `data.0.b64_json`. Raises `EndpointError` where there is none."""
    value = content
    for step in path.split("."):
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (KeyError, IndexError, ValueError, TypeError) as error:
            shown = excerpt(str(content))
            raise EndpointError("invalid_answer", f"no {path} in the answer: {shown}") from error
    return value


async def image_bytes(
    value: object, url: str, hosts: Collection[str], secrets: Collection[str]
) -> bytes:
    """The image file that an answer's text contains or names.

    url: where the answer is from; an address in it must be on the same host or one of `hosts`,
    and it is fetched without headers. Raises `EndpointError`.
    """
    if not isinstance(value, str) or not value:
        kind = type(value).__name__
        raise EndpointError("invalid_answer", f"the answer has {kind} in the image's place")
    if value.startswith(("http:", "https:")):
        return await _fetch(value, url, hosts, secrets)
    if value.startswith("data:"):
        value = value.partition(",")[2]
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        shown = excerpt(value, secrets, 60)
        raise EndpointError("invalid_answer", f"not base64 ({error}): {shown!r}") from error


async def _fetch(address: str, url: str, hosts: Collection[str], secrets: Collection[str]) -> bytes:
    shown = excerpt(address.partition("?")[0], secrets, 120)
    own, other = urlsplit(url), urlsplit(address if is_url(address) else "")
    if other.hostname not in (own.hostname, *hosts) or (own.scheme, other.scheme) == (
        "https",
        "http",
    ):
        raise EndpointError(
            "invalid_answer",
            f"the image is at {shown}, which is not fetched; add its host to image_hosts",
        )
    try:
        response = await send_request("GET", address, max_bytes=MAX_BYTES, secrets=secrets)
    except EndpointError as error:
        reason = f"the image at {shown} cannot be fetched: {error.reason}"
        raise EndpointError("invalid_answer", reason) from error
    return response.content
