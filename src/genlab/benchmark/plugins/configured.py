"""Base classes of the tools that `tools.yaml` configures; an entry of the file is a tool.

The templates of requests contain placeholders such as `{prompt}`. A string that is only a
placeholder becomes its value, with its type; within a longer string the value becomes text (files
as base64). A list item that contains `{avatar}` is repeated for each avatar; elsewhere `{avatar}`
is the first one, and `{avatar_2}` the second. `${NAME}` is the value of an environment variable.
"""

import asyncio
import base64
import json
import os
import random
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

from genlab.benchmark.cases import Case
from genlab.benchmark.plugins.base import Fit, Kind, Needs, Option, Picture, ToolFailure
from genlab.benchmark.plugins.inputs import Inputs, Size, make_inputs
from genlab.core.errors import did_you_mean
from genlab.core.io import sha256
from genlab.core.params import digest_values
from genlab.core.paths import resolve_beside
from genlab.llm.transport import EndpointError

REVISION = 2  # of the requests that this package sends; part of every tool's version
KINDS: Mapping[str, Kind] = {  # by kind of `EndpointError`; the others have the same name
    "wrong_key": "no_key",
    "forbidden": "unavailable",
    "not_found": "unavailable",
    "unreachable": "unavailable",
    "interrupted": "unavailable",
    "proxy": "unavailable",
    "redirected": "error",
    "rejected": "error",
    "invalid_answer": "no_image",
}
# Fields that do not change the images.
_NOT_IN_VERSION = {"title", "cost", "concurrency", "timeout", "key_env"}
PLACEHOLDERS = ("prompt", "template", "avatar", "swaps", "seed", "width", "height")
MAX_AVATARS = 99
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z][a-z0-9_]*)\}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class ConfiguredTool(BaseModel):
    """A tool of `tools.yaml`, with the keys that all kinds share.

    It is validated with the file's folder as context, from which relative paths start.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    network: ClassVar[bool] = True

    tool_id: str = Field(
        alias="id", pattern=r"^[a-z0-9][a-z0-9_]{0,47}$", description="Name of the tool."
    )
    title: str = Field(
        default_factory=lambda fields: fields.get("tool_id", ""), description="What people read."
    )
    cost: float = Field(default=0.0, ge=0, description="Estimated dollars per image.")
    concurrency: int = Field(default=2, ge=1, le=256, description="Simultaneous images.")
    timeout: float = Field(default=300.0, gt=0, description="Seconds per image.")
    fit: Fit = Field(default="refuse", description="For images of another aspect ratio.")
    service_version: str = Field(
        default="", alias="version", description="Text to change when the service changes."
    )
    prompt: str = Field(default="", description="Replaces the written instruction.")

    _folder: Path = Path()

    def model_post_init(self, context: Any, /) -> None:
        self._folder = context or Path()

    @cached_property
    def needs(self) -> Needs:
        """What the tool requires and accepts."""
        key = next(iter(self.environment), "")
        return Needs(key, self.cost, self.concurrency, self.network, self.accepted)

    @property
    def accepted(self) -> Mapping[str, Option]:
        """The options that it accepts."""
        return {"prompt": Option("replaces the written instruction")}

    @property
    def environment(self) -> list[str]:
        """Environment variables that must be set; the first is the key."""
        return []

    @property
    def secrets(self) -> list[str]:
        """Values that no message may show."""
        return [os.environ.get(name, "") for name in self.environment]

    def place(self, name: str) -> Path:
        """Resolve a file that the tool names, relative to tools.yaml; `~` is the home folder."""
        return resolve_beside(self._folder, name)

    @property
    def files(self) -> list[str]:
        """Files on which the images depend."""
        return []

    @property
    def sizes(self) -> list[Size]:
        """Sizes that the tool can process; empty: any."""
        return []

    @property
    def version(self) -> str:
        """Digest of the configuration and of the files that it names, without secrets."""
        config = self.model_dump(exclude=_NOT_IN_VERSION, by_alias=True)
        files = {}
        for name in self.files:
            path = self.place(name)
            if path.is_file():
                status = path.stat()
                files[name] = _sha256(path, status.st_ctime_ns, status.st_size)
        return digest_values({"revision": REVISION, "entry": config, "files": files})[:12]

    def unavailable(self) -> str:
        """Return which environment variables are missing; "" where none is."""
        missing = [name for name in self.environment if not os.environ.get(name)]
        return f"{', '.join(missing)} is not set; tool {self.tool_id} needs it" if missing else ""

    async def swap(self, case: Case, options: Mapping[str, Any]) -> Picture:
        inputs = await asyncio.to_thread(make_inputs, case, self.sizes)
        try:
            picture = await asyncio.wait_for(self.make(inputs, options), self.timeout)
        except asyncio.TimeoutError as error:  # the service may charge for it
            reason = f"no image in {self.timeout:g} seconds"
            raise ToolFailure("timeout", reason, passing=True, cost=self.cost) from error
        except EndpointError as error:
            raise tool_failure(error, self.cost) from error
        return replace(picture, fit=self.fit)

    async def make(self, inputs: Inputs, options: Mapping[str, Any]) -> Picture:
        """Send the request of this kind. Raises `ToolFailure` or `EndpointError`."""
        raise NotImplementedError


class TemplateTool(ConfiguredTool):
    """A tool whose request is a template with placeholders."""

    placeholders: ClassVar[tuple[str, ...]] = PLACEHOLDERS
    templates: ClassVar[tuple[str, ...]] = ()  # fields that contain placeholders

    options: dict[str, str | int | float] = Field(
        default={}, description="More placeholders with their defaults, set by --option."
    )

    @model_validator(mode="after")
    def _known_placeholders(self) -> Self:
        for field in self.templates:
            try:
                self.check(getattr(self, field))
            except ValueError as error:
                raise ValueError(f"{field}: {error}") from error
        return self

    @property
    def accepted(self) -> Mapping[str, Option]:
        options = {
            name: Option(f"default {default}", kind=type(default))
            for name, default in self.options.items()
        }
        seed = Option("seed of {seed}; random by default")
        return {**super().accepted, "seed": seed, **options}

    def check(self, template: Any) -> None:
        """Raise `ValueError` for an unknown placeholder."""
        check_placeholders(template, (*self.placeholders, *self.options))

    async def make(self, inputs: Inputs, options: Mapping[str, Any]) -> Picture:
        """Send the request with its placeholders filled; the seed is noted with the image."""
        seed = str(options.get("seed", random.getrandbits(31)))
        width, height = inputs.size
        values = {
            **self.options,
            **options,
            "seed": int(seed) if seed.isdigit() else seed,
            "prompt": options.get("prompt") or self.prompt or inputs.instruction,
            "swaps": inputs.swaps,
            "width": width,
            "height": height,
        }
        return Picture(await self.request(inputs.images, values), note=f"seed {values['seed']}")

    async def request(self, images: Sequence[bytes], values: dict[str, Any]) -> bytes:
        """Request the image file. Raises `ToolFailure` or `EndpointError`.

        images: PNG files, the template first; values: placeholders that are no image.
        """
        raise NotImplementedError

    def fill(self, template: Any, values: Mapping[str, Any], images: Sequence[Any]) -> Any:
        """Fill a template's placeholders. Raises `ToolFailure` for a missing avatar."""
        try:
            return fill_placeholders(template, {**values, "template": images[0]}, images[1:])
        except KeyError as error:
            raise ToolFailure("error", f"the case has no {error.args[0]}") from error


def tool_failure(error: EndpointError, cost: float) -> ToolFailure:
    """Convert an endpoint's error to an outcome. cost: dollars, if the request was charged."""
    kind: Any = KINDS.get(error.kind, error.kind)
    return ToolFailure(
        kind,
        error.reason,
        retry_after=error.retry_after,
        passing=error.transient,
        cost=cost if error.charged else None,
    )


def check_placeholders(value: Any, names: Collection[str]) -> None:
    """Raise `ValueError` where `value` contains a placeholder that is not one of `names`."""
    try:
        fill_placeholders(value, dict.fromkeys(names, ""), [""] * MAX_AVATARS)
    except KeyError as error:
        [name] = error.args
        fix = did_you_mean(name, names) or f"; there are {', '.join(names)}"
        raise ValueError(f"{{{name}}} is not a placeholder{fix}") from error


def fill_placeholders(value: Any, values: Mapping[str, Any], avatars: Sequence[Any]) -> Any:
    """Return a copy of `value` with its placeholders replaced.

    values: by name; avatars: a value per avatar. Raises `KeyError` for `{avatar_2}` of a case with
    one avatar.
    """
    numbered = {f"avatar_{number}": avatar for number, avatar in enumerate(avatars, 1)}

    def replace(value: Any, avatar: Any) -> Any:
        replacements = {**values, "avatar": avatar, **numbered}
        if isinstance(value, str):
            placeholder = _PLACEHOLDER.fullmatch(value)
            if placeholder:
                return replacements[placeholder[1]]
            return _PLACEHOLDER.sub(lambda match: _to_text(replacements[match[1]]), value)
        if isinstance(value, Mapping):
            return {key: replace(item, avatar) for key, item in value.items()}
        if isinstance(value, list):
            filled = []
            for item in value:
                item_avatars = avatars if _has_avatar(item) else [avatar]
                filled += [replace(item, item_avatar) for item_avatar in item_avatars]
            return filled
        return value

    return replace(value, avatars[0])


def variables(text: str) -> list[str]:
    """Find the names of the environment variables in a text."""
    return list(dict.fromkeys(_VARIABLE.findall(text)))


def expand(text: str) -> str:
    """Replace each `${NAME}` by the environment variable's value; unset ones become empty."""
    return _VARIABLE.sub(lambda match: os.environ.get(match[1], ""), text)


def to_base64(data: bytes) -> str:
    """Encode bytes as base64 text."""
    return base64.b64encode(data).decode("ascii")


def _has_avatar(item: Any) -> bool:
    """Whether a list item contains `{avatar}` outside of lists within it."""
    if isinstance(item, Mapping):
        return any(map(_has_avatar, item.values()))
    return isinstance(item, str) and "avatar" in _PLACEHOLDER.findall(item)


def _to_text(value: Any) -> str:
    if isinstance(value, bytes):
        return to_base64(value)
    return value if isinstance(value, str) else json.dumps(value)


@lru_cache(maxsize=128)
def _sha256(path: Path, _changed: int, _size: int) -> str:
    """Cache `sha256`, which takes long for model weights: the app asks for it at each click.

    _changed: time of the inode's last change, which cannot be set, unlike that of the content's.
    """
    return sha256(path)
