"""The interface of an image tool: its request, its result, and its failures.

A tool is a small class with `tool_id`, `title`, `needs`, `unavailable()` and `swap()`. A package
adds one by an entry point of the group `genlab.image_tools` (`genlab.benchmark.plugins.registry`);
`tools.yaml` adds services and programs without code.

Not protected: a tool is code that runs with your rights. Install only what you trust.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, get_args, runtime_checkable

import pydantic.dataclasses
from PIL import Image
from pydantic import Field, PositiveInt

from genlab.benchmark.cases import Case
from genlab.llm.redaction import excerpt

Kind = Literal[
    "refused",  # by a content filter
    "no_key",  # missing or wrong
    "retired",  # the model no longer exists
    "rate_limited",
    "quota",  # no credit left
    "timeout",
    "wrong_size",  # or a shape that the tool's `fit` refuses
    "no_image",  # an answer without a readable image
    "unavailable",  # not installed, not reachable, not allowed
    "over_budget",
    "case_fault",  # the case cannot be processed, whatever the tool
    "error",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
Fit = Literal["refuse", "letterbox", "crop"]
MAX_REASON = 300  # characters


class ToolFailure(Exception):  # noqa: N818 - an outcome, not a bug
    """A tool returns no image; recorded as an outcome, never as a score.

    kind: which outcome. reason: one line for people. retry_after: seconds that the service asks
    to wait. passing: whether a retry may succeed. cost: dollars that were charged all the same.
    Raises `ValueError` for an unknown kind, and for numbers that are negative or not finite.
    """

    def __init__(
        self,
        kind: Kind,
        reason: str,
        *,
        retry_after: float | None = None,
        passing: bool = False,
        cost: float | None = None,
    ) -> None:
        # Raised inside the tool, the error becomes its outcome; later it would end the run.
        numbers = (retry_after or 0.0, cost or 0.0)
        if kind not in KINDS or not all(0 <= number < math.inf for number in numbers):
            raise ValueError(f"ToolFailure({kind!r}, ...) must be of {', '.join(KINDS)}")
        self.kind = kind
        self.reason = one_line(reason)
        self.retry_after = retry_after
        self.passing = passing
        self.cost = cost
        super().__init__(f"{kind}: {self.reason}")


@dataclass(frozen=True)
class Option:
    """A setting of a tool, such as `--option tool.name=value`.

    help: one line. choices: the accepted values, () = any. kind: type to which text is converted.
    """

    help: str
    choices: tuple[str, ...] = ()
    kind: type[str | int | float] = str


@dataclass(frozen=True)
class Needs:
    """What a tool requires and accepts."""

    key: str = ""  # environment variable of its key; "" = none
    cost: float = 0.0  # estimated dollars per image
    concurrency: int = 4  # maximum number of simultaneous images
    network: bool = False
    options: Mapping[str, Option] | None = None  # by name; None = any option is accepted


@pydantic.dataclasses.dataclass(frozen=True, config={"arbitrary_types_allowed": True})
class Picture:
    """An image with its cost and origin; a tool may also return a plain PIL image.

    image: a PIL image, or the bytes of an image file; bytes are written to disk before anything
    else happens to them. cost: dollars charged, None = the estimate. model: what made it. note:
    one line that is kept with the item. canvas: (width, height) of a larger image in whose middle
    the template was sent. fit: what happens to an image whose aspect ratio differs from the
    template's (with `canvas`, from the canvas's).
    """

    image: Image.Image | bytes
    cost: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    model: str = ""
    note: str = ""
    canvas: tuple[PositiveInt, PositiveInt] | None = None
    fit: Fit = "refuse"


class Service(Protocol):
    """Something that may be unavailable: a tool or a judge."""

    @property
    def needs(self) -> Needs:
        """What it requires and accepts."""

    def unavailable(self) -> str:
        """Why it cannot be used here, in one line; "" where it can. Sends no request."""


@runtime_checkable
class ImageTool(Service, Protocol):
    """Replaces persons in photographs. One object serves all cases of a run, several at a time.

    Two more members are optional; `genlab.benchmark.plugins.registry` reads them. `version: str`
    changes whenever the images for a case may change (program, model file, settings); without it
    the version of the tool's package counts. `model`, text or a function of the options, names the
    model in use; an option of that name counts before it.
    """

    @property
    def tool_id(self) -> str:
        """Name of the tool, and of a folder: a-z, 0-9, _."""

    @property
    def title(self) -> str:
        """What people read."""

    async def swap(self, case: Case, options: Mapping[str, Any]) -> Image.Image | Picture:
        """Return the template with the avatars' persons in place, at the template's size.

        Raises `ToolFailure`. It must not block the event loop: computation belongs in a thread or
        a process (`asyncio.to_thread`).
        """


def check_available(service: Service) -> ToolFailure | None:
    """Return why a service cannot be used here, or None where it can.

    The kind is `no_key` where its key is at fault, else `unavailable`. A service whose
    `unavailable` raises cannot be used either.
    """
    try:
        reason = str(service.unavailable() or "")
    except Exception as error:  # third-party code raises anything
        return ToolFailure("unavailable", f"unavailable() raises {type(error).__name__}: {error}")
    key = service.needs.key
    kind: Kind = "no_key" if key and (key in reason or not os.environ.get(key)) else "unavailable"
    return ToolFailure(kind, reason) if reason else None


def why_unavailable(service: Service) -> str:
    """Return why a service cannot be used here, in one line; "" where it can."""
    failure = check_available(service)
    return failure.reason if failure else ""


def one_line(text: str) -> str:
    """Return `text` as one printable line of at most 300 characters, without secrets."""
    return excerpt(text, length=MAX_REASON)
