"""Run the documented experiments of experiments.yaml and keep their results.

python stages/experiments.py [--only NAME]... [--jobs N] [--force]
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import typer
from tqdm import tqdm

from genlab.core.engine import machine
from genlab.core.errors import GenlabError, run_cli
from genlab.core.experiments import Experiment, choose, load_experiments, run_experiment
from genlab.core.io import read_json, write_json

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    only: list[str] = typer.Option([], help="Run this one; may be given again. [default: all]"),
    jobs: int = typer.Option(1, min=1, help="How many to run at a time."),
    force: bool = typer.Option(False, help="Run also what is up to date."),
    table: Path = typer.Option(Path("experiments.yaml"), help="The experiments."),
    output: Path = typer.Option(Path("results/experiments.json"), help="Where results go."),
) -> None:
    """Run the documented experiments, each a `dvc exp run`, and write their results to one file.

    What has been run with the same code and params is skipped. The file is written after each one,
    so an interrupted run goes on where it was. An experiment that fails doesn't stop the others.
    """
    described = load_experiments(table)
    records = read_json(output, producer_command="make experiments") if output.exists() else {}
    wanted = [
        experiment
        for experiment in choose(described, only)
        if force or records.get(experiment.name, {}).get("fingerprint") != experiment.fingerprint
    ]
    here = machine()
    failures: list[str] = []
    with ThreadPoolExecutor(jobs) as pool, tqdm(total=len(wanted), unit="experiment") as bar:
        running = {pool.submit(run_experiment, experiment): experiment for experiment in wanted}
        try:
            for done in as_completed(running):
                name = running[done].name
                try:
                    records[name] = {**done.result(), "machine": here}
                except GenlabError as error:
                    failures.append(str(error))
                else:
                    _write(output, records, described)
                bar.set_postfix_str(name)
                bar.update()
        finally:  # Ctrl-C: what has not started shall not start
            pool.shutdown(wait=False, cancel_futures=True)
    typer.echo(f"{len(wanted) - len(failures)} run, {len(failures)} failed; results in {output}")
    if failures:
        raise GenlabError("; ".join(failures))


def _write(output: Path, records: dict[str, Any], described: list[Experiment]) -> None:
    """In the order of experiments.yaml, whatever finished first; what it dropped goes.

    What the table says of a run may change without a new run of it.
    """
    told = {
        one.name: {**records[one.name], "why": one.why, "fixes": list(one.fixes)}
        for one in described
        if one.name in records
    }
    write_json(output, told)


if __name__ == "__main__":
    run_cli(app)
