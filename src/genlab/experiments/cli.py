"""`genlab experiments`: run the documented experiments and keep their results."""

from typing import Annotated

import typer

from genlab.core.errors import GenlabError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")


@app.command()
def experiments(
    only: Annotated[
        list[str] | None, typer.Option(help="A sweep, experiment or run (repeatable).")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Number of parallel runs.")] = 1,
    force: Annotated[bool, typer.Option("--force", help="Also run what is up to date.")] = False,
    show: Annotated[
        bool, typer.Option("--list", help="Print what is left and how long it takes; run nothing.")
    ] = False,
) -> None:
    """Run the documented experiments, each a `dvc exp run`, and write one row of results for each.

    First prints what is left and how long it takes. What was run with the same code and params is
    skipped. An interrupted call resumes; an experiment that fails does not stop the others.
    """
    from genlab.experiments.definitions import load_experiments, select_experiments
    from genlab.experiments.results import RESULTS_FILE
    from genlab.experiments.run import describe_pending, list_pending, run_pending

    described = load_experiments("experiments.yaml", only=only or ())
    selected = select_experiments(described, only or [])
    print(describe_pending(list_pending(selected, force=force), jobs=jobs), flush=True)
    if show:
        return
    finished, failures = run_pending(described, selected, jobs=jobs, force=force)
    print(f"{finished} run, {len(failures)} failed; results in {RESULTS_FILE}")
    if failures:
        raise GenlabError("; ".join(failures))
