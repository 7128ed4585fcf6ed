"""Kind `openai`: image models behind an OpenAI-compatible `images/edits` endpoint.

Not protected: photographs leave this machine, to whoever runs the endpoint.
"""

import os
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, JsonValue, field_validator
from pydantic_core import PydanticCustomError

from genlab.benchmark.plugins.base import Option, Picture, ToolFailure
from genlab.benchmark.plugins.configured import ConfiguredTool, tool_failure
from genlab.benchmark.plugins.http import ANSWER_BYTES, Url, read_image
from genlab.benchmark.plugins.inputs import Inputs, Size
from genlab.core.errors import GenlabError
from genlab.llm.client import NO_KEY, Client, is_openai
from genlab.llm.transport import EndpointError

MAX_IMAGES = 16  # per request
RESERVED = ("model", "image", "prompt", "size", "n", "quality", "input_fidelity")
# From the types of openai 3.54: these models accept only "low", or no input_fidelity at all.
WITHOUT_FIDELITY = ("gpt-image-1-mini", "gpt-image-2")
# These always answer with base64 and reject `response_format`.
GPT_IMAGES = ("gpt-image", "chatgpt-image")
# Dollars per million tokens of text input, image input and image output, as of March 2026, by the
# start of the model's name.
PRICES: Mapping[str, tuple[float, float, float]] = {
    "gpt-image-1.5": (5.0, 8.0, 32.0),
    "chatgpt-image-latest": (5.0, 8.0, 32.0),
}
RETIRED = {"dall-e-3": "May 2026"}  # models that OpenAI no longer offers


class OpenAITool(ConfiguredTool):
    """An image model behind `images.edit` or `images.generate`."""

    kind: Literal["openai"] = "openai"
    cost: float = Field(default=0.25, ge=0, description="Estimated dollars per image.")
    base_url: Url = Field(default="", description="Address; OPENAI_BASE_URL or OpenAI's if empty.")
    key_env: str = Field(
        default="",
        pattern=r"^([A-Za-z_][A-Za-z0-9_]{0,63})?$",
        description="Environment variable of the key; the name, not the key.",
    )
    model: str = Field(min_length=1, description="Model to ask.")
    method: Literal["edit", "generate"] = Field(
        default="edit", description="edit: with template and avatars; generate: words only."
    )
    size: str | list[str] = Field(
        default=[], description="Sizes that the model makes, such as 1024x1024; empty: any."
    )
    quality: str = Field(default="", description="Such as low, medium or high.")
    input_fidelity: Literal["high", "low", "omit"] = Field(
        default="high", description="How closely faces are kept; omit: not sent."
    )
    extra: dict[str, JsonValue] = Field(default={}, description="More fields of the request.")
    image_hosts: list[str] = Field(default=[], description="More hosts that serve its images.")

    @field_validator("size")
    @classmethod
    def _sizes(cls, size: str | list[str]) -> str | list[str]:
        for text in [size] if isinstance(size, str) else size:
            if not re.fullmatch(r"[1-9][0-9]{1,4}x[1-9][0-9]{1,4}", text):
                raise PydanticCustomError("size", "Input must be such as 1024x1024")
        return size

    @field_validator("extra")
    @classmethod
    def _extra(cls, extra: dict[str, Any]) -> dict[str, Any]:
        for name in extra:
            if name in RESERVED:
                raise ValueError(f"{name} is set by a key of its name; remove it from extra")
        return extra

    @property
    def accepted(self) -> Mapping[str, Option]:
        return {
            "model": Option("another model at the same address"),
            **super().accepted,
            "quality": Option("such as low, medium or high"),
            "input_fidelity": Option("how closely faces are kept", ("high", "low", "omit")),
        }

    @property
    def environment(self) -> list[str]:
        return [self.key_env] if self.key_env else []

    @property
    def sizes(self) -> list[Size]:
        texts = [self.size] if isinstance(self.size, str) else self.size
        return [(int(width), int(height)) for width, height in (t.split("x") for t in texts)]

    def unavailable(self) -> str:
        try:
            self._connect()
        except GenlabError as error:
            return str(error)
        return super().unavailable()

    def _connect(self) -> Client:
        """A client of the endpoint. Raises a `GenlabError` for a malformed key or address."""
        key = os.environ.get(self.key_env) or NO_KEY
        return Client(self.base_url, key, key_name=self.key_env, max_bytes=ANSWER_BYTES)

    async def make(self, inputs: Inputs, options: Mapping[str, Any]) -> Picture:
        model = options.get("model") or self.model
        key = os.environ.get(self.key_env, "")
        client = self._connect()
        if model in RETIRED and is_openai(client.base_url):
            raise ToolFailure(
                "retired",
                f"OpenAI retired {model} in {RETIRED[model]}; name another model with --option"
                f" {self.tool_id}.model=NAME, or another endpoint with OPENAI_BASE_URL",
            )
        request = self._make_request(inputs, {**options, "model": model})
        answer = await client.make_image(self.method, request)
        cost = None if self.base_url else _compute_cost(model, answer.usage)
        try:
            value = answer.image.get("b64_json") or answer.image.get("url")
            data = await read_image(value, client.base_url, self.image_hosts, [key])
        except EndpointError as error:  # charged as any other answer
            raise tool_failure(error, self.cost if cost is None else cost) from error
        return Picture(data, cost, model, canvas=inputs.size)

    def _make_request(self, inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Any]:
        model = options["model"]
        instruction = inputs.instruction
        if self.method == "generate":
            count = len(inputs.swaps)
            persons = "a person" if count == 1 else f"{count} persons"
            instruction = f"A photograph of {persons}, faces clearly visible. {inputs.title}."
        request: dict[str, Any] = {
            "model": model,
            "n": 1,
            "size": f"{inputs.size[0]}x{inputs.size[1]}",
            "prompt": options.get("prompt") or self.prompt or instruction,
            "extra_body": dict(self.extra),
        }
        if quality := options.get("quality", self.quality):
            request["quality"] = quality
        if not model.startswith(GPT_IMAGES):
            request["response_format"] = "b64_json"
        if self.method == "edit":
            count = len(inputs.images)
            if count > MAX_IMAGES:
                reason = f"{count} images; the endpoint accepts {MAX_IMAGES} per request"
                raise ToolFailure("error", reason)
            request["image"] = [
                (f"image_{n}.png", data, "image/png") for n, data in enumerate(inputs.images, 1)
            ]
            fidelity = options.get("input_fidelity", self.input_fidelity)
            if fidelity != "omit" and not model.startswith(WITHOUT_FIDELITY):
                request["input_fidelity"] = fidelity
        return request


def _compute_cost(model: str, usage: Any) -> float | None:
    """Compute dollars from the counted tokens; None where counts or prices are unknown."""
    prices = next((PRICES[name] for name in PRICES if model.startswith(name)), None)
    try:
        details = usage["input_tokens_details"]
        counts = (details["text_tokens"], details["image_tokens"], usage["output_tokens"])
    except (KeyError, TypeError):
        return None
    if prices is None or not all(type(count) is int and count >= 0 for count in counts):
        return None
    dollars: float = sum(count * price for count, price in zip(counts, prices, strict=True))
    return dollars / 1e6


# OPENAI_BASE_URL is honoured by both. The estimate is for high quality and two photographs.
GPT = OpenAITool(
    id="baseline_gpt",
    title="OpenAI images.edit",
    model="gpt-image-1.5",
    key_env="OPENAI_API_KEY",
    cost=0.25,
    concurrency=4,
    size=["1024x1024", "1536x1024", "1024x1536"],
)
# Words only, to show what a tool without the images can do.
DALLE3 = OpenAITool(
    id="baseline_dalle3",
    title="DALL·E 3, words only (retired)",
    model="dall-e-3",
    key_env="OPENAI_API_KEY",
    cost=0.08,
    method="generate",
    size=["1024x1024", "1792x1024", "1024x1792"],
)
