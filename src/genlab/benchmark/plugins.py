"""An image tool on one page: what one is, how one is found, and how it fails.

A tool is a small class with `tool_id`, `title`, `needs`, `unavailable()` and `swap()`. A package
adds one by an entry point of the group `genlab.image_tools` that names such a class (or a function
without arguments that makes one): after `pip install` it is in the list. The tools that come along
are listed in `BUILT_IN`, so that they are there in a checkout too; the entry points are for
everybody else's. Any OpenAI-compatible image endpoint becomes a tool by a YAML file alone
(`genlab.benchmark.tools.endpoint`).

Not protected: a tool is code that runs with your rights. Install only what you trust.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points, packages_distributions, version
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from PIL import Image

from genlab.benchmark.cases import Case
from genlab.core.errors import GenlabError, did_you_mean

Kind = Literal[
    "refused",
    "no_key",
    "retired",
    "rate_limited",
    "timeout",
    "wrong_size",
    "no_image",
    "unavailable",
    "over_budget",
    "error",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
GROUP = "genlab.image_tools"
TOOLS_FILE = Path("runs/tools.yaml")
BUILT_IN = (
    "genlab.benchmark.tools.local:LocalSwap",
    "genlab.benchmark.tools.gpt:GptImages",
    "genlab.benchmark.tools.dalle3:Dalle3",
    "genlab.benchmark.tools.controls:Untouched",
    "genlab.benchmark.tools.controls:Pasted",
    "genlab.benchmark.tools.controls:WrongPerson",
    "genlab.benchmark.tools.controls:Blurred",
)
MAX_REASON = 300  # characters of other people's text in a line of ours

# It becomes the name of a folder.
_TOOL_ID = re.compile(r"[a-z0-9][a-z0-9_]{0,47}")


class ToolFailure(Exception):  # noqa: N818 - an outcome, no fault
    """A tool gave no image, and why: an outcome of its own, never a score.

    kind: which outcome; reason: one line for people; retry_after: seconds the service asks to
    wait; passing: whether another try may go better; cost: dollars it took all the same. Raises
    a `ValueError` for another kind, and for numbers below 0 or none.
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
        # A fault here, in somebody's tool, is an outcome itself; later it would end the run.
        if kind not in KINDS or not all(n is None or is_amount(n) for n in (retry_after, cost)):
            raise ValueError(f"ToolFailure({kind!r}, ...) must be of {', '.join(KINDS)}")
        self.kind: Kind = kind
        self.reason = one_line(reason)
        self.retry_after = retry_after
        self.passing = passing
        self.cost = cost
        super().__init__(f"{kind}: {self.reason}")


@dataclass(frozen=True)
class Option:
    """What people may tell a tool: `--option tool.name=value`, which is text.

    help: one line; choices: the values that it takes as text, () = any.
    """

    help: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Needs:
    """What a tool takes."""

    key: str = ""  # environment variable that holds its key; "" = none
    cost: float = 0.0  # dollars an image, an estimate
    concurrency: int = 4  # images at a time, at most
    network: bool = False
    options: Mapping[str, Option] | None = None  # by their names; None = not said, any is let by


@dataclass(frozen=True)
class Picture:
    """What a tool may return instead of a plain image, to say what it took.

    image: an image, or the bytes of an image file as the service sent it; these are put on the
    disk before anything is done with them. cost: dollars it took, None = the estimate.
    model: which model made it. note: one line that is kept with the item. part: the part of the
    image that is the template's (left, top, right, bottom as shares), where the template was set
    into a larger canvas to be sent.
    """

    image: Image.Image | bytes
    cost: float | None = None
    model: str = ""
    note: str = ""
    part: tuple[float, float, float, float] | None = None


@runtime_checkable
class ImageTool(Protocol):
    """Swaps people in photographs. One object serves all cases of a run, several at a time.

    What is told to it comes as `options`: text, from the command line. It says which there are in
    `needs`.

    A text `version` tells one state of it from the next, with all that its images depend on (model,
    settings, a file of its own): when it changes, the stage makes them again. Without one the
    version of its package counts.
    """

    tool_id: str  # a-z, 0-9, _: a folder of that name holds its images
    title: str
    needs: Needs

    def unavailable(self) -> str:
        """Why it can't be used here, one line; "" where it can. Quick, and asks no network.

        Recorded as `no_key` where its key is what lacks, else as what an attribute `absence` (one
        of `KINDS`) of the tool says, else as `unavailable`.
        """
        ...

    async def swap(self, case: Case, options: Mapping[str, Any]) -> Image.Image | Picture:
        """The template with each avatar in its person's place, of the template's size.

        Raises `ToolFailure`. It must not block the loop: work of its own belongs in a thread or a
        process (`asyncio.to_thread`).
        """
        ...


def load_tools(config: Path | None = None) -> dict[str, ImageTool]:
    """All tools by their ids: those that come along, those installed, those of a YAML file.

    config: the file of endpoints; `runs/tools.yaml`, where there is one, if None. Raises a
    `GenlabError` of one line that names the package or file of a tool that is none, and where two
    tools have one id.
    """
    tools: dict[str, ImageTool] = {}
    for origin, tool in _found(config):
        if tool.tool_id in tools and not _configured(tool):
            raise GenlabError(
                f"{origin}: there is a tool {tool.tool_id!r} already; give it another tool_id, or"
                " uninstall one of the two"
            )
        tools[tool.tool_id] = tool
    return tools


def version_of(tool: ImageTool) -> str:
    """The tool's `version`, or that of the installed package it comes in; "" where neither is."""
    if own := getattr(tool, "version", ""):
        return str(own)
    package = type(tool).__module__.partition(".")[0]
    return " ".join(f"{p} {version(p)}" for p in packages_distributions().get(package, ()))


def chosen(tools: Mapping[str, ImageTool], names: list[str]) -> list[ImageTool]:
    """The tools of these ids. Raises a `GenlabError` for an id that no tool has."""
    for name in names:
        if name not in tools:
            raise GenlabError(
                f"no image tool is called {name!r}{did_you_mean(name, tools)};"
                " list them with: genlab-benchmark tools"
            )
    return [tools[name] for name in dict.fromkeys(names)]


def checked_options(tool: ImageTool, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, if `tool` takes them all; any, where it doesn't say which.

    Raises a `GenlabError`: a misspelt option would be paid for with its default.
    """
    known = tool.needs.options
    if known is None:
        return dict(options)
    for name, value in options.items():
        if name not in known:
            takes = f"; it takes {', '.join(known)}" if known else "; it takes none"
            near = did_you_mean(name, known) or takes
            raise GenlabError(f"{tool.tool_id} has no option {name[:60]!r}{near}")
        if known[name].choices and str(value) not in known[name].choices:
            raise GenlabError(
                f"option {name} of {tool.tool_id} must be {' or '.join(known[name].choices)},"
                f" got {str(value)[:60]!r}"
            )
    return dict(options)


def why_absent(tool: _Service) -> str:
    """Why `tool` can't be used here, in a sentence; empty where it can."""
    lacking = absence(tool)
    return lacking.reason if lacking else ""


class _Service(Protocol):
    needs: Needs

    def unavailable(self) -> str: ...


def absence(tool: _Service) -> ToolFailure | None:
    """Why `tool` can't be used here as an outcome; None where it can.

    A tool that raises instead of saying why can't be used either, and that is the reason.
    """
    try:
        reason = str(tool.unavailable() or "")
    except Exception as error:  # other people's code: anything may come out of it
        return ToolFailure("unavailable", f"it can't say: {type(error).__name__}: {error}")
    if not reason:
        return None
    if tool.needs.key and not os.environ.get(tool.needs.key):
        return ToolFailure("no_key", reason)
    kind = getattr(tool, "absence", "unavailable")
    return ToolFailure(kind if kind in KINDS else "unavailable", reason)


def is_amount(value: object) -> bool:
    """Whether it is a number of dollars (or seconds): finite, 0 or more."""
    return isinstance(value, int | float) and 0 <= value < float("inf")


def one_line(text: str) -> str:
    """`text` as one printable line of bounded length, without the values of known keys."""
    line = "".join(c if c.isprintable() else " " for c in text[: 20 * MAX_REASON])
    for name, value in os.environ.items():
        if len(value) >= 8 and name.upper().endswith(("KEY", "TOKEN", "SECRET", "PASSWORD")):
            line = line.replace(value, f"[{name}]")
    line = re.sub(r"\bsk-[A-Za-z0-9_*-]{6,}", "[key]", line)
    line = " ".join(line.split())
    return line if len(line) <= MAX_REASON else line[: MAX_REASON - 1] + "…"


def _found(config: Path | None) -> Iterator[tuple[str, ImageTool]]:
    from genlab.benchmark.tools.endpoint import load_endpoints

    for address in BUILT_IN:
        module, _, name = address.partition(":")
        yield address, _checked(address, getattr(import_module(module), name))
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        if point.value not in BUILT_IN:
            yield _origin(point), _loaded(point)
    if config is not None or TOOLS_FILE.exists():
        path = config or TOOLS_FILE
        for tool in load_endpoints(path):
            yield str(path), tool


def _configured(tool: ImageTool) -> bool:
    """Whether a tool of a YAML file stands for one that comes along, with an address of its own."""
    from genlab.benchmark.tools.endpoint import EndpointTool

    return isinstance(tool, EndpointTool) and tool.tool_id in ("baseline_gpt", "baseline_dalle3")


def _origin(point: EntryPoint) -> str:
    package = f" of package {point.dist.name}" if point.dist is not None else ""
    return f"image tool {point.name!r} ({point.value}){package}"


def _loaded(point: EntryPoint) -> ImageTool:
    origin = _origin(point)
    try:
        return _checked(origin, point.load())
    except GenlabError:
        raise
    except Exception as error:  # other people's code: anything may come out of it
        raise GenlabError(
            f"{origin} can't be loaded ({type(error).__name__}: {one_line(str(error))});"
            " mend or uninstall it"
        ) from error


def _checked(origin: str, make: Callable[[], object]) -> ImageTool:
    """The tool that `make` makes, held against the contract."""
    tool = make()
    if not isinstance(tool, ImageTool) or not isinstance(tool.needs, Needs):
        absent = [
            name
            for name in ("tool_id", "title", "needs", "unavailable", "swap")
            if not hasattr(tool, name)
        ]
        raise GenlabError(
            f"{origin} is no image tool: its {absent[0] if absent else 'needs'} is missing or of"
            " another type; see genlab.benchmark.plugins.ImageTool"
        )
    if not _TOOL_ID.fullmatch(tool.tool_id):
        raise GenlabError(
            f"{origin}: a tool_id is a-z, 0-9 and _, at most 48, got {tool.tool_id[:60]!r}"
        )
    return tool
