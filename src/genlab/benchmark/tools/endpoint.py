"""Image tools behind an OpenAI-compatible endpoint: by config alone, or as a named baseline.

A YAML file (`runs/tools.yaml`, or `--tools-file`) lists them:

    tools:
      - id: my_editor
        title: The editor on my machine
        base_url: http://127.0.0.1:9000/v1
        model: editor-1
        key_env: MY_EDITOR_KEY    # name of the environment variable with the key; none if left out
        cost: 0.02                # dollars an image, an estimate
        concurrency: 2
        method: edit              # edit: template and avatars go along; generate: words alone
        sizes: [1024x1024]        # what it can make; left out: the template's own size

An entry `baseline_gpt` or `baseline_dalle3` takes the place of the tool of that name. What an
endpoint does wrong ends in a `ToolFailure`. Not protected: photographs leave this machine, to
whoever runs the endpoint.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import openai
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins import Needs, Option, Picture, ToolFailure
from genlab.benchmark.tools.connection import client, failure_of, image_of
from genlab.core.errors import GenlabError, invalid

PRODUCER_COMMAND = "see genlab.benchmark.tools.endpoint for an example"
MOST_IMAGES = 16  # in one request
OPTIONS = {
    "model": Option("another model behind the same address"),
    "prompt": Option("what is asked for, in place of our words"),
    "quality": Option("as the model knows it, such as low, medium or high"),
}
Size = tuple[int, int]


class Entry(BaseModel):
    """A tool of the YAML file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_]{0,47}$", description="Name of the tool.")
    title: str = Field(default="", description="What people read.")
    base_url: str = Field(default="", description="Address; empty = OPENAI_BASE_URL or OpenAI's.")
    model: str = Field(min_length=1, description="Model that is asked.")
    key_env: str = Field(default="", description="Environment variable that holds the key.")
    cost: float = Field(default=0.0, ge=0, description="Dollars an image, an estimate.")
    concurrency: int = Field(default=2, ge=1, le=256, description="Images at a time.")
    method: Literal["edit", "generate"] = Field(default="edit", description="What is asked for.")
    sizes: list[str] = Field(default=[], description="Sizes it can make, such as 1024x1024.")

    @model_validator(mode="after")
    def _sound(self) -> Entry:
        if self.base_url and not _is_address(self.base_url):
            raise ValueError(f"base_url must be http:// or https://, got {self.base_url[:80]!r}")
        if self.key_env and not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", self.key_env):
            raise ValueError(
                "key_env must be the name of an environment variable, such as MY_KEY, not the key"
            )
        for size in self.sizes:
            if not re.fullmatch(r"[1-9][0-9]{1,4}x[1-9][0-9]{1,4}", size):
                raise ValueError(f"sizes must be such as 1024x1024, got {size!r}")
        return self


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    tools: list[Entry] = Field(description="The tools.")


class EndpointTool:
    """An image model behind `images.edit` or `images.generate`; see `OPTIONS`."""

    # Dollars a million tokens, by the start of the model's name: text in, image in, image out.
    prices: ClassVar[Mapping[str, tuple[float, float, float]]] = {}

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.tool_id = entry.id
        self.title = entry.title or entry.id
        self.needs = Needs(
            entry.key_env, entry.cost, entry.concurrency, network=True, options=OPTIONS
        )

    @property
    def version(self) -> str:
        """What its images depend on, its entry among it: see `ImageTool`."""
        return "1 " + self.entry.model_dump_json(include={"base_url", "model", "method", "sizes"})

    def unavailable(self) -> str:
        """Why it can't be used here: its key is missing."""
        if self.needs.key and not os.environ.get(self.needs.key):
            return f"{self.needs.key} is not set; put the key of {self._host} there"
        return ""

    async def swap(self, case: Case, options: Mapping[str, Any]) -> Picture:
        """Ask for the template with the avatars in their places; see `ImageTool.swap`."""
        model = str(options.get("model") or self.entry.model)
        canvas, part = await asyncio.to_thread(self._canvas, case)
        asked: dict[str, Any] = {"model": model, "size": f"{canvas.width}x{canvas.height}", "n": 1}
        if "quality" in options:
            asked["quality"] = options["quality"]
        if not model.startswith(("gpt-image", "chatgpt-image")):  # these always answer so
            asked["response_format"] = "b64_json"
        key = os.environ.get(self.needs.key, "") if self.needs.key else ""
        async with client(self._base_url, key or "none") as api:
            try:
                if self.entry.method == "edit":
                    asked["image"] = await asyncio.to_thread(_files, case, canvas)
                    asked["prompt"] = str(options.get("prompt") or editing(case, canvas.size, part))
                    response = await api.images.edit(**asked)
                else:
                    asked["prompt"] = str(options.get("prompt") or describing(case))
                    response = await api.images.generate(**asked)
            except openai.OpenAIError as error:
                raise failure_of(error, self.needs.cost, key) from error
            cost = self._cost(model, response)
            try:
                data = await image_of(response, api, key)
            except ToolFailure as failure:  # an answer was paid for, whatever it held
                failure.cost = self.needs.cost if cost is None else cost
                raise
        return Picture(data, cost, model, part=part)

    @property
    def _base_url(self) -> str:
        return self.entry.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL

    @property
    def _host(self) -> str:
        return urlsplit(self._base_url).hostname or self._base_url

    def _canvas(self, case: Case) -> tuple[Image.Image, tuple[float, float, float, float]]:
        """The template within the nearest size that can be made, and which part of it it is."""
        template = case.open_template()
        if not self.entry.sizes:
            return template, (0.0, 0.0, 1.0, 1.0)
        sizes = [tuple(int(side) for side in size.split("x")) for size in self.entry.sizes]
        aspect = template.width / template.height
        width, height = min(sizes, key=lambda size: abs(size[0] / size[1] / aspect - 1))
        return letterboxed(template, (width, height))

    def _cost(self, model: str, response: Any) -> float | None:
        """Dollars by the tokens that were counted; None where they or their price is unknown."""
        price = next((self.prices[name] for name in self.prices if model.startswith(name)), None)
        usage = getattr(response, "usage", None)
        details = getattr(usage, "input_tokens_details", None)
        found = (
            getattr(details, "text_tokens", None),
            getattr(details, "image_tokens", None),
            getattr(usage, "output_tokens", None),
        )
        counts = [count for count in found if type(count) is int and count >= 0]
        if price is None or len(counts) < len(found):
            return None
        return sum(count * dollars for count, dollars in zip(counts, price, strict=True)) / 1e6


OPENAI_URL = "https://api.openai.com/v1"


def load_endpoints(path: Path) -> list[EndpointTool]:
    """The tools of a YAML file. Raises a `GenlabError` of one line that names the key and fix."""
    try:
        content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
        return [EndpointTool(entry) for entry in _File.model_validate(content).tools]
    except FileNotFoundError as error:
        raise GenlabError(f"{path} is missing; {PRODUCER_COMMAND}") from error
    except UnicodeDecodeError as error:
        raise GenlabError(f"{path} is not UTF-8 text; save it as UTF-8") from error
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise GenlabError(f"{path}{line}: not valid YAML; mend it, {PRODUCER_COMMAND}") from error
    except ValidationError as error:
        raise invalid(error, path) from error


def letterboxed(
    image: Image.Image, size: Size
) -> tuple[Image.Image, tuple[float, float, float, float]]:
    """The image whole in the middle of a canvas of `size`, and the part of it that it fills.

    Left and right or above and below it is grey: models keep a plain border better than a mirror.
    """
    scale = min(size[0] / image.width, size[1] / image.height)
    width, height = round(image.width * scale), round(image.height * scale)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    canvas = Image.new("RGB", size, (128, 128, 128))
    canvas.paste(image.resize((width, height), Image.Resampling.LANCZOS), (left, top))
    part = (left / size[0], top / size[1], (left + width) / size[0], (top + height) / size[1])
    return canvas, part


def editing(case: Case, size: Size, part: tuple[float, float, float, float]) -> str:
    """What is asked of a model that sees the pixels: who is where, by shares of the canvas."""
    numbers = {name: number for number, name in enumerate(_used(case), 2)}
    template = case.open_template()
    lines = [
        "The first image is a photograph. Replace persons in it as follows, and change nothing"
        " else: keep framing, background, light, poses, clothes, hands and all other persons."
    ]
    for swap in case.swaps:
        region = swap.region
        x = part[0] + (part[2] - part[0]) * (region.left + region.width / 2) / template.width
        y = part[1] + (part[3] - part[1]) * (region.top + region.height / 2) / template.height
        lines.append(
            f"The person whose face is at {x:.0%} of the width from the left and {y:.0%} of the"
            f" height from the top becomes the person of image {numbers[swap.avatar]}: that"
            " person's face, head and hair, with the pose and expression of the person replaced."
        )
    lines.append("Answer with one photograph of the same size that looks as if it was taken so.")
    return "\n".join(lines)


def describing(case: Case) -> str:
    """What is asked of a model that sees no pixels: the case's title and how many persons."""
    count = len(case.swaps)
    persons = "a person" if count == 1 else f"{count} persons"
    return f"A photograph of {persons}, faces clearly seen. {case.title}."


def _used(case: Case) -> list[str]:
    names = list(dict.fromkeys(swap.avatar for swap in case.swaps))
    if len(names) >= MOST_IMAGES:
        raise ToolFailure("error", f"{len(names)} avatars are over the {MOST_IMAGES - 1} possible")
    return names


def _files(case: Case, canvas: Image.Image) -> list[tuple[str, bytes, str]]:
    """Template and avatars as uploads."""
    images = {"template": canvas, **{name: case.open_avatar(name) for name in _used(case)}}
    files = []
    for name, image in images.items():
        buffer = io.BytesIO()
        image.save(buffer, "PNG", compress_level=3)
        files.append((f"{name}.png", buffer.getvalue(), "image/png"))
    return files


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
