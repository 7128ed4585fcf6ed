"""Terminal output of `genlab benchmark`: the progress of a run, and tables."""

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from genlab.benchmark.cases import Case, load_cases, split_by_consent
from genlab.benchmark.judge import describe_unrated, estimate_cost
from genlab.benchmark.leaderboard.standings import rank_contenders, read_tables, summarize_raters
from genlab.benchmark.leaderboard.table import (
    WORDS,
    describe_estimate,
    list_estimates,
    list_notes,
    tabulate,
)
from genlab.benchmark.plugins.base import ImageTool, why_unavailable
from genlab.benchmark.plugins.registry import choose_tools, load_tools, make_contenders
from genlab.benchmark.run.runner import Runner
from genlab.benchmark.run.threads import complete
from genlab.benchmark.store.items import FINISHED
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Contender
from genlab.core.params import BenchmarkParams

WIDTH = 160  # characters per line of a table that goes to a file


def choose(
    params: BenchmarkParams, only: Sequence[str] = ()
) -> tuple[list[Case], list[Contender], float]:
    """Load cases and contenders; returns both, and the estimated dollars per case.

    Cases without consent are left out and named on stderr. only: ids of cases, all if empty.
    """
    cases, lines = split_by_consent(load_cases(Path(params.cases).expanduser(), only))
    for line in lines:
        typer.echo(line, err=True)
    tools = {tool.tool_id: tool for tool in choose_tools(load_tools(), params.tools)}
    contenders = make_contenders([*tools.values()], params.options)
    return cases, contenders, estimate_cost(contenders, tools, params.judge)


def follow(runner: Runner, run_id: str, *, again: bool = False) -> None:
    """Execute a run and print a line per item that ends; in a terminal also a progress bar."""
    try:
        complete(_follow(runner, run_id, again))
    except KeyboardInterrupt:
        command = f"genlab benchmark run --resume {run_id}{name_folder(runner.folder)}"
        typer.echo(f"stopped; continue with: {command}", err=True)
        raise


async def _follow(runner: Runner, run_id: str, again: bool) -> None:
    run = runner.store.run(run_id)
    log = runner.log(run_id)
    console = Console()
    items = log.state()["items"]
    ended = {item["run_item_id"] for item in items if item["status"] in FINISHED}
    running = asyncio.create_task(runner.run(run_id, again=again))
    running.add_done_callback(lambda _: log.close("interrupted"))  # if it could not begin
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("images", total=len(items))
        try:
            async for event in log.follow():
                if event["type"] == "update":
                    if event["status"] not in FINISHED:
                        ended.discard(event["run_item_id"])  # a skipped item is tried again
                    elif event["run_item_id"] not in ended:
                        ended.add(event["run_item_id"])
                        label = run.contenders[event["contender"]].label
                        line = f"{label} {event['case_id']}: {_describe(event)}"
                        position = f"{len(ended)}/{len(items)}"
                        console.print(position, line, markup=False, highlight=False, soft_wrap=True)
                    progress.update(bar, completed=len(ended))
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    for line in describe_unrated(runner.store.items(run_id)):
        typer.echo(line)


def name_folder(runs: Path) -> str:
    """Return the command-line option that names a folder of runs; "" for the default folder."""
    return "" if runs == Path("runs") else f" --runs {shlex.quote(str(runs))}"


def show_leaderboard(store: Store, run_id: str | None, *, as_json: bool = False) -> None:
    """Print the leaderboard of a run (None: of all runs), and statistics of people's answers."""
    tables = read_tables(store, run_id)
    standings = rank_contenders(tables)
    raters = summarize_raters(tables)
    if as_json:
        rows = [standing.model_dump() for standing in standings]
        content = {"run_id": run_id, "contenders": rows, "people": raters.model_dump()}
        typer.echo(json.dumps(content, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    cells = tabulate(standings)
    for heading in cells[0] if cells else ():
        justify: Any = "left" if heading in WORDS else "right"
        table.add_column(heading, justify=justify, overflow="fold")
    for row in cells:
        table.add_row(*map(escape, row.values()))
    _show(table)
    unrated = describe_unrated(store.items(run_id)) if run_id else []
    for line in (*list_notes(standings), *unrated):
        typer.echo(line)
    for name, estimate in list_estimates(raters).items():
        typer.echo(f"{name}: {describe_estimate(estimate)}")


def show_tools(tools: Mapping[str, ImageTool]) -> None:
    """Print the tools with their options, and why a tool is not available here."""
    table = Table("tool", "title", "per image", "needs", "available", box=None, pad_edge=False)
    options = Table("--option", "meaning", "values", box=None, pad_edge=False)
    for tool in tools.values():
        needs = [tool.needs.key] * bool(tool.needs.key) + ["network"] * tool.needs.network
        cost = f"about ${tool.needs.cost:.3f}" if tool.needs.cost else "free"
        cells = (
            tool.tool_id,
            tool.title,
            cost,
            ", ".join(needs) or "–",
            why_unavailable(tool) or "yes",
        )
        table.add_row(*map(escape, cells))
        for name, option in (tool.needs.options or {}).items():
            values = ", ".join(option.choices) or "text"
            options.add_row(*map(escape, (f"{tool.tool_id}.{name}", option.help, values)))
    _show(table)
    _show(options)


def _describe(event: Mapping[str, Any]) -> str:
    """Describe in a few words how an item ended."""
    if event["score"] is not None:
        return f"scored {event['score']:.2f}"
    outcome = event["failure_kind"] or event["status"]
    return f"{outcome} ({event['failure']})" if event["failure"] else str(outcome)


def _show(table: Table) -> None:
    """Print a table as wide as the terminal, or WIDTH wide in a file."""
    Console(width=None if Console().is_terminal else WIDTH).print(table)
