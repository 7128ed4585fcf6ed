"""Output of the command line: a run's progress, and tables."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import typer
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from genlab.benchmark.leaderboard.standings import People, Standing
from genlab.benchmark.leaderboard.table import columns, findings, notes, sentence
from genlab.benchmark.plugins.base import ImageTool, absence
from genlab.benchmark.runner import Runner
from genlab.benchmark.store.schema import FINISHED, Run

WIDTH = 160  # columns of a table that goes to a file


class Watch:
    """Show a run's events: bars in a terminal, a line per item in a log."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.console = Console()
        contenders = run.contenders
        self.total = len(run.cases) * len(contenders) * run.repeats
        self.finished: dict[int, str] = {}
        self.bars: Progress | None = None
        if self.console.is_terminal:
            self.bars = Progress(
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                TimeElapsedColumn(), TextColumn("{task.fields[last]}"), console=self.console,
            )  # fmt: skip
            each = len(run.cases) * run.repeats
            self.rows = {
                name: self.bars.add_task(escape(contender.label), total=each, last="")
                for name, contender in contenders.items()
            }

    async def follow(self, runner: Runner, *, again: bool = False) -> Run:
        """Do the run and show it."""
        log = runner.log(self.run.run_id)
        for item in log.state()["items"]:
            if item["status"] in FINISHED:
                self.finished[item["run_item_id"]] = item["contender"]
        with ExitStack() as stack:
            if self.bars is not None:
                stack.enter_context(self.bars)
            doing = asyncio.create_task(runner.run(self.run.run_id, again=again))
            try:
                async for event in log.follow():
                    self.show(event)
                return await doing
            finally:
                doing.cancel()
                await asyncio.gather(doing, return_exceptions=True)

    def show(self, event: Mapping[str, Any]) -> None:
        """Show one event."""
        if event["type"] != "update":
            return
        item, contender = event["run_item_id"], event["contender"]
        if event["status"] not in FINISHED:
            self.finished.pop(item, None)  # a skipped one that is tried again
            return
        is_news = item not in self.finished
        self.finished[item] = contender
        if self.bars is not None:
            count = sum(other == contender for other in self.finished.values())
            last = escape(_describe(event))
            self.bars.update(self.rows[contender], completed=count, last=last)
        elif is_news:
            position = f"{len(self.finished)}/{self.total}"
            label = self.run.contenders[contender].label
            print(f"{position} {label} {event['case_id']}: {_describe(event)}", flush=True)

    async def ask(self, ceiling: float, wanted: float) -> float | None:
        """Ask whether the ceiling may be passed; None without a terminal."""
        if self.bars is None or not sys.stdin.isatty():
            return None
        self.bars.stop()
        self.console.print(
            f"\nThe next image makes it ${wanted:.2f}; the ceiling is ${ceiling:.2f}."
        )
        try:
            while True:
                typer.echo("New ceiling in dollars, 0 to stop here [0]: ", nl=False)
                try:
                    return float(await _read_line() or 0) or None
                except ValueError:
                    self.console.print("That is no number.")
        finally:
            self.bars.start()


async def _read_line() -> str:
    """A line of the terminal; other requests, and Ctrl-C, are handled meanwhile."""
    loop, file = asyncio.get_running_loop(), sys.stdin.fileno()
    line: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        if not line.done():
            line.set_result(sys.stdin.readline())

    loop.add_reader(file, read)
    try:
        return (await line).strip()
    finally:
        loop.remove_reader(file)


def show_leaderboard(standings: Sequence[Standing], found: People) -> None:
    """Print the leaderboard and what people's answers say."""
    shown = columns(standings)
    table = Table(box=None, pad_edge=False)
    for column in shown:
        justify: JustifyMethod = "right" if column.number else "left"
        table.add_column(column.heading, justify=justify, overflow="fold")
    for standing in standings:
        table.add_row(*[escape(column.text(standing)) for column in shown])
    _show(table)
    for line in notes(standings):
        typer.echo(line)
    for name, finding in findings(found).items():
        typer.echo(f"{name}: {sentence(finding)}")


def show_tools(tools: Mapping[str, ImageTool]) -> None:
    """Print the tools, why one is not available here, and their options."""
    table = Table("tool", "title", "per image", "needs", "available", box=None, pad_edge=False)
    options = Table("--option", "meaning", "values", box=None, pad_edge=False)
    for tool in tools.values():
        needs = [tool.needs.key] * bool(tool.needs.key) + ["network"] * tool.needs.network
        cost = f"about ${tool.needs.cost:.3f}" if tool.needs.cost else "free"
        reason = absence(tool)
        cells = (tool.tool_id, tool.title, cost, ", ".join(needs) or "–")
        table.add_row(*map(escape, cells), "yes" if reason is None else escape(reason.reason))
        for name, option in (tool.needs.options or {}).items():
            values = ", ".join(option.choices) or "text"
            options.add_row(*map(escape, (f"{tool.tool_id}.{name}", option.help, values)))
    _show(table)
    typer.echo()
    _show(options)


def _describe(event: Mapping[str, Any]) -> str:
    """How an item ended, in a few words."""
    if event["score"] is not None:
        return f"scored {event['score']:.2f}"
    why = event["failure_kind"] or event["status"]
    return f"{why} ({event['failure']})" if event["failure"] else str(why)


def _show(table: Table) -> None:
    """Print a table as wide as the terminal, or WIDTH wide in a file."""
    console = Console()
    Console(width=None if console.is_terminal else WIDTH).print(table)
