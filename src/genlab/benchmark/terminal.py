"""What the command line shows: a run as it goes on, and tables."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import typer
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from genlab.benchmark.leaderboard import People, Standing
from genlab.benchmark.plugins import ImageTool, absence
from genlab.benchmark.runner import Runner
from genlab.benchmark.store.schema import FINISHED, Run

WIDTH = 160
"""Columns of a table that goes to a file."""


class Watch:
    """Shows a run's events: bars in a terminal, a line an item in a log."""

    def __init__(self, tools: Sequence[str], cases: int, console: Console | None = None) -> None:
        self.console = console or Console()
        self.total = cases * len(tools)
        self.finished: dict[int, str] = {}
        self.bars: Progress | None = None
        if self.console.is_terminal:
            self.bars = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[last]}"),
                console=self.console,
            )
            self.rows = {
                tool: self.bars.add_task(escape(tool), total=cases, last="") for tool in tools
            }

    async def follow(self, runner: Runner, run_id: str, *, again: bool = False) -> Run:
        """Do the run and show it; what was finished before is counted and not told again."""
        before: set[Any] = {item.item_id for item in runner.store.items(run_id) if item.finished}

        async def listen() -> None:
            async for event in runner.subscribe(run_id):
                item = event.get("run_item_id")
                self.show(event, told=item in before)
                before.discard(item)

        with ExitStack() as stack:
            if self.bars is not None:
                stack.enter_context(self.bars)
            doing = asyncio.create_task(runner.run(run_id, again=again))
            await asyncio.sleep(0)  # the run opens its channel before anybody listens to it
            listening = asyncio.create_task(listen())
            try:
                return await doing
            finally:
                doing.cancel()
                await asyncio.wait([listening], timeout=2)
                listening.cancel()

    def show(self, event: Mapping[str, Any], *, told: bool = False) -> None:
        """Show one event. told: it was finished before this command began."""
        if event["type"] != "update":
            return
        item, tool = event["run_item_id"], event["tool_id"]
        if event["status"] not in FINISHED:
            self.finished.pop(item, None)  # a skipped one that is tried again
            return
        news = item not in self.finished
        self.finished[item] = tool
        if self.bars is not None:
            count = sum(other == tool for other in self.finished.values())
            self.bars.update(self.rows[tool], completed=count, last=escape(ended(event)))
        elif news and not told:
            place = f"{len(self.finished)}/{self.total}"
            print(f"{place} {tool} {event['case_id']}: {ended(event)}", flush=True)

    def ask(self, ceiling: float, wanted: float) -> float | None:
        """Ask whether the ceiling may be passed; no without a terminal."""
        if self.bars is None or not sys.stdin.isatty():
            return None
        self.bars.stop()
        try:
            self.console.print(
                f"\nThe next image makes it ${wanted:.2f}; the ceiling is ${ceiling:.2f}."
            )
            answer = typer.prompt(
                "New ceiling in dollars, or 0 to stop here", type=float, default=0
            )
        except typer.Abort:  # the end of the input
            return None
        finally:
            self.bars.start()
        return float(answer) or None


def ended(event: Mapping[str, Any]) -> str:
    """How an item ended, in a few words."""
    if event["score"] is not None:
        return f"scored {event['score']:.2f}"
    why = event["failure_kind"] or event["status"]
    return f"{why} ({event['failure']})" if event["failure"] else str(why)


def show(table: Table) -> None:
    """Print a table: as wide as the terminal, wide enough for its lines in a file."""
    console = Console()
    Console(width=None if console.is_terminal else WIDTH).print(table)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> Table:
    """A plain table; the first `words` columns are words, the others numbers."""
    made = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        justify: JustifyMethod = "left" if index < words else "right"
        made.add_column(column, justify=justify, no_wrap=index == 0, overflow="fold")
    for row in rows:
        made.add_row(*[escape(cell) for cell in row])
    return made


def standings_table(standings: Sequence[Standing]) -> Table:
    """The leaderboard for a terminal."""
    columns = ["tool", "rank", "score", "95 %", "scored", "people", "failures", "cost", "s/image"]
    judged = any(s.judge for s in standings)
    return table(
        columns + ["judge"] * judged,
        [
            [
                s.tool,
                str(s.rank or "–"),
                _number(s.score),
                "–" if s.low is None else f"{_number(s.low)}–{_number(s.high)}",
                f"{s.scored}/{s.cases}",
                "–" if s.stars is None else f"{s.stars:.1f} ★ ({s.raters})",
                ", ".join(f"{kind} {count}" for kind, count in s.failures.items()) or "–",
                f"${s.cost:.2f}" if s.cost else "–",
                "–" if s.seconds is None else f"{s.seconds:.1f}",
            ]
            + ["–" if s.judge is None else s.judge.words] * judged
            for s in standings
        ],
    )


def left_out(standings: Iterable[Standing]) -> list[str]:
    """A line where scores were left out of the leaderboard."""
    count = sum(standing.older for standing in standings)
    if not count:
        return []
    return [f"left out: {count} scores of older constants, which don't compare with the newest"]


def people_lines(found: People) -> list[str]:
    """Agreement and preferences, a line each."""
    told = {
        "agreement among raters (Krippendorff's α)": found.alpha,
        "machine against people (Spearman's ρ)": found.spearman,
        **{f"strength of {tool} (Bradley–Terry, logits)": f for tool, f in found.strengths.items()},
    }
    return [
        f"{words}: not told, {f.why}"
        if f.value is None
        else f"{words}: {f.value:.2f} ({_number(f.low)} to {_number(f.high)}, n = {f.n})"
        for words, f in told.items()
    ]


def tools_table(tools: Mapping[str, ImageTool]) -> Table:
    """Which tools there are, and why one cannot be used here."""
    rows = []
    for tool in tools.values():
        needs = [tool.needs.key] if tool.needs.key else []
        needs += ["network"] if tool.needs.network else []
        cost = f"about ${tool.needs.cost:.3f}" if tool.needs.cost else "free"
        lacking = absence(tool)
        here = "ready" if lacking is None else lacking.reason
        rows.append((tool.tool_id, tool.title, cost, ", ".join(needs) or "–", here))
    return table(("tool", "title", "an image", "needs", "here"), rows, words=5)


def options_table(tools: Mapping[str, ImageTool]) -> Table:
    """What the tools can be told; nothing of those that don't say."""
    rows = [
        (f"{tool.tool_id}.{name}", option.help, ", ".join(option.choices) or "text")
        for tool in tools.values()
        for name, option in (tool.needs.options or {}).items()
    ]
    return table(("--option", "what it says", "values"), rows, words=3)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
