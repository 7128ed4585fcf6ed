"""Render the reports and the README's result section from the run's own files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from genlab.core.errors import GenlabError, run_cli
from genlab.core.io import write_text
from genlab.core.params import load_params
from genlab.evaluation.reports import job_report, report

app = typer.Typer(add_completion=False)


@app.command()
def main(
    dataset: Annotated[
        list[str] | None, typer.Option(help="Dataset to report on; default: all in params.yaml.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 2 if a file is out of date.")
    ] = False,
) -> None:
    """Make reports/DATASET.md, its data sheet, its figures and the README's result section.

    Reads metrics/, plots/ and params.yaml; every number in the output comes from them. Notes of
    your own go to reports/notes_DATASET.md, with placeholders such as {{ metrics.pixel_accuracy }}.
    """
    root = Path()
    for name in dataset or load_params(root / "params.yaml").datasets:
        context = report.gather(root, name)
        if not check:
            for path in report.draw(root, name, context):
                typer.echo(f"drew {path}")
        _write(report.texts(root, name, context), check)
    for job in () if dataset else job_report.JOBS:
        _write(job_report.texts(root, job), check)


def _write(rendered: Mapping[Path, str], check: bool) -> None:
    old = report.stale(rendered)
    if check and old:
        raise GenlabError(f"{', '.join(map(str, old))} out of date; run: make report")
    for path in old:
        write_text(path, rendered[path])
        typer.echo(f"wrote {path}")


if __name__ == "__main__":
    run_cli(app)
