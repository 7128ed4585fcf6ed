"""A small benchmark for tests and measurements: cases of few pixels, tools that need no face."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.plugins.base import Needs
from genlab.benchmark.plugins.registry import make_contenders
from genlab.benchmark.run.item_processor import RunOptions
from genlab.benchmark.run.requests import RequestLimits
from genlab.benchmark.run.runner import Runner
from genlab.benchmark.run.threads import complete
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.repository import Store
from genlab.core.io import write_text

LIMITS = set(RequestLimits.__dataclass_fields__)
CASE = """\
version: 1
title: {title}
consent: {consent}
template: template.png
avatars:
  one: avatar_one.png
swaps:
  - region: {{left: 8, top: 8, width: 32, height: 32}}
    avatar: one
sources:
  template: {{licence: CC0-1.0}}
  one: {{licence: CC0-1.0}}
"""


def make_case(
    root: Path, number: int, *, side: int = 64, consent: str = "true", title: str = ""
) -> Case:
    """A case of seeded noise."""
    folder = root / f"case-{number:03d}"
    folder.mkdir(parents=True)
    generator = np.random.default_rng(number)
    for name in ("template", "avatar_one"):
        make_noise(generator, side).save(folder / f"{name}.png", compress_level=1)
    title = json.dumps(title or f"Noise, number {number}")
    (folder / "case.yaml").write_text(CASE.format(title=title, consent=consent))
    return load_case(folder)


def make_noise(generator: np.random.Generator, side: int) -> Image.Image:
    """A picture of soft noise."""
    coarse = generator.integers(40, 215, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)


def make_cases(root: Path, count: int, side: int = 64) -> list[Case]:
    """`count` cases under `root`."""
    return [make_case(root, number, side=side) for number in range(count)]


def write_package(folder: Path, name: str, body: str, *points: str) -> None:
    """An installed package of one module with entry points, as pip would leave it."""
    write_text(folder / f"{name}.py", body)
    info = folder / f"{name}-1.0.dist-info"
    write_text(info / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    write_text(info / "entry_points.txt", "\n".join(["[genlab.image_tools]", *points]))


@dataclass(frozen=True)
class SmallScore:
    """The fields of a score that the runner reads."""

    outcome: str
    score: float | None
    components: dict[str, float | None]
    notes: list[str] = field(default_factory=list)
    score_reference: float | None = None


def small_score(case: Case, image: Path) -> SmallScore:
    """Similarity of the image to the template upside down: 1 for what `Turned` returns."""
    with Image.open(case.template) as template, Image.open(image) as picture:
        turned = np.asarray(template.convert("RGB").rotate(180), np.float64)
        pixels = np.asarray(picture.convert("RGB"), np.float64)
    likeness = 1 - float(np.abs(turned - pixels).mean()) / 255
    return SmallScore("scored", likeness, {"likeness": likeness})


def faceless_score(*arguments: Any) -> SmallScore:
    """A scorer that finds no face."""
    return SmallScore("no_face", None, {}, ["no face was found"])


def crashing_score(case: Case, image: Path) -> SmallScore:
    """A scorer that ends its process at case 1."""
    if image.stem == "case-001":
        os._exit(9)
    return small_score(case, image)


def raising_score(*arguments: Any) -> SmallScore:
    """A scorer with a bug."""
    raise ZeroDivisionError("one by none")


def sleeping_score(*arguments: Any) -> SmallScore:
    """A scorer that hangs."""
    time.sleep(600)
    raise AssertionError


class Turned:
    """A tool that returns the template upside down after `seconds`.

    make: what it returns instead. fails: what it raises on the first `times` requests per case.
    `requested_cases` lists the case of each request, and `ideals` the ground truth it came with.
    """

    tool_id = "turned"
    title = "Upside down"
    version = ""

    def __init__(
        self,
        seconds: float = 0.0,
        *,
        tool_id: str = "",
        version: str = "",
        make: Callable[[Case], Any] = lambda case: case.open_template().rotate(180),
        fails: Exception | None = None,
        times: int = 10**9,
        **needs: Any,
    ) -> None:
        self.tool_id = tool_id or self.tool_id
        self.version = version or self.version
        self.needs = Needs(**needs)
        self.seconds = seconds
        self.make = make
        self.fails = fails
        self.times = times
        self.requested_cases: list[str] = []
        self.ideals: set[Path | None] = set()
        self.active = self.most_active = 0

    def unavailable(self) -> str:
        return ""

    async def swap(self, case: Case, options: Mapping[str, Any]) -> Any:
        self.requested_cases.append(case.case_id)
        self.ideals.add(case.ideal)
        requests = self.requested_cases.count(case.case_id)
        if self.fails is not None and requests <= self.times:
            raise self.fails
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            await asyncio.sleep(float(options.get("seconds", self.seconds)))
        finally:
            self.active -= 1
        return self.make(case)


def change_items(store: Store, changes: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
    """Set columns of items in a store, also where no run would change them so."""
    items = {item.item_id: item for item in store.items()}
    store.save_items([items[number].sqlmodel_update(values) for number, values in changes])


class Bench:
    """A folder of cases and runs with its store; waits take no time, and `slept` lists them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"
        self.store = Store(self.runs / "genlab.sqlite3")
        self.slept: list[float] = []

    def cases(self, count: int) -> list[Case]:
        return make_cases(self.folder / "cases", count)

    def runner(self, *tools: Turned, **options: Any) -> Runner:
        """A runner that knows these tools; options: those of RequestLimits and of Runner."""
        tools_by_id = {tool.tool_id: tool for tool in tools}
        values = {"scorers": 1, "sleep": self.sleep, "timeout": 20.0, **options}
        scorer = values.pop("scorer", small_score)
        fields = {name: values.pop(name) for name in LIMITS & set(values)}
        chosen = RunOptions(tools=tools_by_id, limits=RequestLimits(**fields), **values)
        return Runner(self.store, self.runs, options=chosen, scorer=scorer)

    def start(
        self, runner: Runner, cases: list[Case], tools: Sequence[Turned], **options: Any
    ) -> str:
        """Queue a run of these cases and tools; returns its id."""
        return runner.start(cases, make_contenders(tools, {}), **options)

    def run(
        self, cases: list[Case], *tools: Turned, max_cost: float = 0.0, **options: Any
    ) -> list[ItemResult]:
        """The items after a run of these cases and tools."""
        runner = self.runner(*tools, **options)
        run_id = self.start(runner, cases, tools, max_cost=max_cost)
        complete(runner.run(run_id))
        return self.store.items(run_id)

    def resume(
        self,
        run_id: str,
        *tools: Turned,
        again: bool = False,
        max_cost: float | None = None,
        **options: Any,
    ) -> list[ItemResult]:
        """The items after another process has resumed a run."""
        if max_cost is not None:
            self.store.set_run(run_id, max_cost=max_cost)
        complete(self.runner(*tools, **options).run(run_id, again=again))
        return self.store.items(run_id)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)
