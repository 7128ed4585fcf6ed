"""Tools made from entries of `tools.yaml`: what all kinds share."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from typing_extensions import Self

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins import placeholders
from genlab.benchmark.plugins.base import Fit, Kind, Needs, Option, Picture, ToolFailure
from genlab.benchmark.plugins.inputs import Inputs
from genlab.core.params import digest
from genlab.llm.errors import EndpointError
from genlab.llm.transport import is_url

REVISION = 2  # of the requests that this package sends; part of every tool's version
KINDS: Mapping[str, Kind] = {  # of an `EndpointError`; the others have the same name here
    "wrong_key": "no_key",
    "forbidden": "unavailable",
    "not_found": "unavailable",
    "unreachable": "unavailable",
    "interrupted": "unavailable",
    "rejected": "error",
    "invalid_answer": "no_image",
}
# Fields that do not change the images.
_APART = {"title", "cost", "concurrency", "timeout", "key_env"}


class Entry(BaseModel):
    """A tool of `tools.yaml`: the keys of every kind."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9_]{0,47}$", description="Name of the tool.")
    title: str = Field(default="", description="What people read.")
    cost: float = Field(default=0.0, ge=0, description="Estimated dollars per image.")
    concurrency: int = Field(default=2, ge=1, le=256, description="Simultaneous images.")
    timeout: float = Field(default=300.0, gt=0, description="Seconds per image.")
    fit: Fit = Field(default="refuse", description="For images of another aspect ratio.")
    version: str = Field(default="", description="Text to change when the service changes.")
    prompt: str = Field(default="", description="Replaces the written instruction.")


class TemplateEntry(Entry):
    """A tool whose request is a template with placeholders."""

    placeholders: ClassVar[tuple[str, ...]] = placeholders.NAMES
    templates: ClassVar[tuple[str, ...]] = ()  # fields that contain placeholders

    options: dict[str, str | int | float] = Field(
        default={}, description="More placeholders with their defaults, set by --option."
    )

    @model_validator(mode="after")
    def _known_placeholders(self) -> Self:
        for field in self.templates:
            try:
                placeholders.check(getattr(self, field), (*self.placeholders, *self.options))
            except ValueError as error:
                raise ValueError(f"{field}: {error}") from error
        return self


class ServiceEntry(TemplateEntry):
    """A tool behind an address."""

    url: str = Field(description="Address; ${NAME} is an environment variable.")
    headers: dict[str, str] = Field(default={}, description="Headers, likewise.")
    image_hosts: list[str] = Field(
        default=[], description="Hosts from which images are fetched, besides that of the url."
    )

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        if not is_url(url):
            raise ValueError(f"url must start with http:// or https://, got {url[:80]!r}")
        return url

    @field_validator("headers")
    @classmethod
    def _no_secrets(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            secret = any(word in name.lower() for word in ("authorization", "key", "token"))
            if secret and not placeholders.variables(value):
                raise ValueError(
                    f"headers.{name}: put the key into an environment variable and write ${{NAME}}"
                )
        return headers

    @property
    def variables(self) -> list[str]:
        """The environment variables in headers and url."""
        found = [*placeholders.variables(self.headers), *placeholders.variables(self.url)]
        return list(dict.fromkeys(found))


AnyEntry = TypeVar("AnyEntry", bound=Entry)


class ConfiguredTool(Generic[AnyEntry]):
    """Base of the kinds: options, version, time limit and failures.

    entry: the tool's configuration. folder: where its relative paths start, the folder of
    `tools.yaml`.
    """

    options: Mapping[str, Option] = {
        "prompt": Option("replaces the written instruction"),
        "seed": Option("seed of {seed}; random by default"),
    }

    def __init__(self, entry: AnyEntry, folder: Path = Path()) -> None:
        self.entry, self.folder = entry, folder
        self.tool_id, self.title = entry.id, entry.title or entry.id
        defaults = getattr(entry, "options", {})
        own = {name: Option(f"default {value}") for name, value in defaults.items()}
        self.needs = Needs(
            next(iter(self.environment), ""),
            entry.cost,
            entry.concurrency,
            network=self.network,
            options={**self.options, **own},
        )

    network = True

    @property
    def environment(self) -> list[str]:
        """Environment variables that must be set; the first is the key."""
        return getattr(self.entry, "variables", [])

    @property
    def version(self) -> str:
        """Digest of the configuration and the files that it names, without secrets."""
        config = self.entry.model_dump(exclude=_APART)
        return digest({"revision": REVISION, "entry": config, "files": self.files()})[:12]

    def model(self, options: Mapping[str, Any]) -> str:
        """The option `model`, else the entry's; "" where there is none."""
        return str(options.get("model") or getattr(self.entry, "model", ""))

    def files(self) -> dict[str, str]:
        """SHA-256 of files on which the images depend, by name."""
        return {}

    def unavailable(self) -> str:
        """Which environment variables are missing; "" where none is."""
        missing = [name for name in self.environment if not os.environ.get(name)]
        return f"{', '.join(missing)} is not set; tool {self.tool_id} needs it" if missing else ""

    async def swap(self, case: Case, options: Mapping[str, Any]) -> Picture:
        """Return the image of a case; see `ImageTool.swap`."""
        limit, cost = self.entry.timeout, self.entry.cost
        try:
            picture = await asyncio.wait_for(self.make(case, options), limit)
        except asyncio.TimeoutError as error:  # the service may charge for it
            reason = f"no image in {limit:g} seconds"
            raise ToolFailure("timeout", reason, passing=True, cost=cost) from error
        except EndpointError as error:
            raise tool_failure(error, cost) from error
        return replace(picture, fit=self.entry.fit)

    async def make(self, case: Case, options: Mapping[str, Any]) -> Picture:
        """Send the request of this kind. Raises `ToolFailure` or `EndpointError`."""
        raise NotImplementedError

    def values(self, case: Case, inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Any]:
        """The placeholders that do not depend on how the kind passes images."""
        seed = options.get("seed", random.getrandbits(31))
        prompt = options.get("prompt") or self.entry.prompt or inputs.instruction
        width, height = inputs.size
        return {
            **getattr(self.entry, "options", {}),
            **options,
            **{"seed": _number(seed), "prompt": prompt, "swaps": inputs.swaps},
            **{"width": width, "height": height},
        }


def tool_failure(error: EndpointError, cost: float) -> ToolFailure:
    """An endpoint's error as an outcome. cost: what a charged request without an image costs."""
    kind: Any = KINDS.get(error.kind, error.kind)
    return ToolFailure(
        kind,
        error.reason,
        retry_after=error.retry_after,
        passing=error.transient,
        cost=cost if error.charged else None,
    )


def _number(seed: Any) -> Any:
    return int(seed) if str(seed).isdigit() else seed
