"""Commands of `genlab benchmark` that read and write files: ratings, results, backups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genlab.core.errors import GenlabError

if TYPE_CHECKING:  # importing it takes a second
    from genlab.benchmark.store.repository import Store

RUNS = Path("runs")
LAST = "last"
Runs = Annotated[Path, typer.Option(help="Folder of images and the store.")]
OneRun = Annotated[str, typer.Option("--run", help="One run, or 'last'. [default: all runs]")]
Ratings = Annotated[Path, typer.Argument(help="CSV file of ratings, or JSON file.")]
Archive = Annotated[Path, typer.Argument(help="Backup, a zip file.")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands of this module to `genlab benchmark`."""
    for command in (
        export_ratings,
        import_ratings,
        export_results,
        backup,
        restore,
    ):
        app.command()(command)


def export_ratings(path: Ratings, runs: Runs = RUNS) -> None:
    """Write all stars as CSV, or for Label Studio (.json); preferences go beside it as CSV.

    Example: genlab benchmark export-ratings ratings.csv
    """
    from genlab.benchmark.exchange.files import write_ratings

    with open_store(runs) as store:
        for line in write_ratings(store, path):
            typer.echo(line)


def import_ratings(path: Ratings, runs: Runs = RUNS) -> None:
    """Read stars or preferences from CSV, or an export of Label Studio (.json).

    Ratings that the store has already change nothing.

    Example: genlab benchmark import-ratings ratings.csv
    """
    from genlab.benchmark.exchange.files import read_ratings

    with open_store(runs) as store:
        for line in read_ratings(store, path):
            typer.echo(line)


def export_results(
    path: Annotated[Path, typer.Argument(help="CSV file.")],
    run_id: OneRun = "",
    runs: Runs = RUNS,
) -> None:
    """Write every item with its score as CSV; docs/reference/files.md explains the columns.

    Example: genlab benchmark export-results results.csv --run last
    """
    from genlab.benchmark.exchange.results import export_results as export

    with open_store(runs) as store:
        count = export(store, path, find_run_id(store, run_id) if run_id else None)
    typer.echo(f"wrote {path}: {count} items")


def backup(path: Archive, runs: Runs = RUNS) -> None:
    """Write the folder of runs to one file: store, ratings, pictures, tools.yaml.

    The app and runs may continue meanwhile. Never copy the store's files by hand while they do.
    Cases are not included: copy cases/private/ yourself.

    Example: genlab benchmark backup runs-2026-01-31.zip
    """
    from genlab.benchmark.backup import back_up

    missing = back_up(find_store(runs).parent, path)
    for name in missing:
        typer.echo(f"warning: {name} is missing, or another picture than the store says", err=True)
    typer.echo(f"wrote {path}")


def restore(
    path: Archive,
    runs: Runs = RUNS,
    replace: Annotated[
        bool, typer.Option("--replace", help="Move existing files to a folder beside it.")
    ] = False,
) -> None:
    """Check a backup and put it in the place of the folder of runs. Stop the app before.

    Example: genlab benchmark restore runs-2026-01-31.zip
    """
    from genlab.benchmark.backup import restore as restore_backup

    old = restore_backup(path, runs, replace=replace)
    typer.echo(f"restored {runs}" + (f"; what was there is now {old}" if old else ""))


def open_store(runs: Path) -> Store:
    """Open the store in the folder of runs. Raises a `GenlabError` if there is none."""
    from genlab.benchmark.store.repository import Store

    return Store(find_store(runs))


def find_store(runs: Path) -> Path:
    """Return the file of the store. Raises a `GenlabError` if there is none."""
    from genlab.benchmark.store.repository import STORE
    from genlab.benchmark.terminal import name_folder

    path = runs / STORE
    if not path.exists():
        command = f"genlab benchmark run{name_folder(runs)}"
        raise GenlabError(f"{path} is missing; make a run with: {command}")
    return path


def find_run_id(store: Store, run_id: str) -> str:
    """Return the id of a run; `last` stands for the newest. Raises a `GenlabError` for no run."""
    if run_id != LAST:
        return store.run(run_id).run_id
    for run in store.runs():
        return run.run_id
    raise GenlabError(f"{store.path} holds no run; make one with: genlab benchmark run")
