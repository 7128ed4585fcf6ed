"""What the command line tells from the store: leaderboard, tools; ratings in and out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from genlab.benchmark.leaderboard import as_csv, leaderboard, people
from genlab.benchmark.plugins import load_tools
from genlab.benchmark.store.repository import Store
from genlab.benchmark.terminal import (
    left_out,
    options_table,
    people_lines,
    show,
    standings_table,
    tools_table,
)
from genlab.core.errors import GenlabError

STORE = "genlab.sqlite3"
LAST = "last"

app = typer.Typer()

Runs = Annotated[Path, typer.Option(help="Folder of images and the store.")]
Bootstrap = Annotated[int, typer.Option(min=100, max=100_000, help="Resamples of an interval.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the resamples.")]
ToolsFile = Annotated[
    Path | None,
    typer.Option(help="YAML file of OpenAI-compatible endpoints. [default: runs/tools.yaml]"),
]


@app.command("leaderboard")
def show_leaderboard(
    run_id: Annotated[
        str, typer.Option("--run", help="One run, or 'last'. [default: all runs]")
    ] = "",
    json_: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    csv_: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
    runs: Runs = Path("runs"),
    bootstrap: Bootstrap = 1000,
    seed: Seed = 0,
) -> None:
    """Mean score with interval, failures, cost and people's stars, a line a tool.

    Tools that the cases cannot tell apart share a rank; a failure is no score. --csv gives two
    tables, the second what people say.

    Example: genlab-benchmark leaderboard --run last --json
    """
    if json_ and csv_:
        raise GenlabError("--json and --csv exclude each other; choose one")
    with opened(runs) as store:
        name = named(store, run_id) if run_id else None
        print_standings(store, name, json_, csv_, bootstrap, seed)


@app.command("tools")
def show_tools(tools_file: ToolsFile = None) -> None:
    """List the tools, what they take and can be told, and why one cannot be used here.

    A package adds one by an entry point of the group genlab.image_tools.

    Example: genlab-benchmark tools
    """
    tools = load_tools(tools_file)
    show(tools_table(tools))
    typer.echo()
    show(options_table(tools))


@app.command()
def export_ratings(
    path: Annotated[Path, typer.Argument(help="CSV file to write.")],
    runs: Runs = Path("runs"),
) -> None:
    """Write all stars and preferences that count as CSV, to keep or to send.

    Example: genlab-benchmark export-ratings ratings.csv
    """
    with opened(runs) as store:
        count = store.export_csv(path)
    typer.echo(f"wrote {path}: {count} ratings")


@app.command()
def import_ratings(
    path: Annotated[Path, typer.Argument(help="CSV file to read.")],
    runs: Runs = Path("runs"),
) -> None:
    """Take the stars and preferences of a CSV in; those that are here change nothing.

    Example: genlab-benchmark import-ratings ratings.csv
    """
    with opened(runs) as store:
        found = store.import_csv(path)
    typer.echo(f"{path}: {found.changed} new ratings")
    if found.homeless:
        typer.echo(f"{found.homeless} preferences passed over: their pictures are not in {runs}")


def opened(runs: Path) -> Store:
    """The store that is there; reading makes none."""
    path = runs / STORE
    if not path.exists():
        raise GenlabError(f"{path} is not there; make a run with: genlab-benchmark run")
    return Store(path)


def named(store: Store, run_id: str) -> str:
    """The run's id, with `last` as the newest."""
    if run_id != LAST:
        return store.run(run_id).run_id
    runs = store.runs()
    if not runs:
        raise GenlabError(f"{store.path} holds no run yet; make one with: genlab-benchmark run")
    return runs[0].run_id


def print_standings(
    store: Store,
    run_id: str | None,
    json_: bool,
    csv_: bool,
    bootstrap: int = 1000,
    seed: int = 0,
) -> None:
    standings = leaderboard(store, run_id=run_id, bootstrap=bootstrap, seed=seed)
    found = people(store, run_id=run_id, bootstrap=bootstrap, seed=seed)
    if csv_:
        sys.stdout.write(as_csv(standings, found))
        return
    if json_:
        told = {"run_id": run_id, "bootstrap": bootstrap, "seed": seed}
        lines = [standing.as_dict() for standing in standings]
        typer.echo(json.dumps({**told, "tools": lines, "people": found.as_dict()}, indent=2))
        return
    show(standings_table(standings))
    typer.echo("\n".join([*left_out(standings), *people_lines(found)]))
