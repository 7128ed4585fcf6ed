"""Render the reports and the README's results from the result files, and print the reports."""

from pathlib import Path
from typing import Annotated

import typer

from genlab.core.errors import GenlabError, run_cli
from genlab.core.io import write_text
from genlab.core.params import load_params
from genlab.evaluation.reports import render
from genlab.evaluation.reports.pdf import print_pdf
from genlab.vae.training.checkpoint import CHECKPOINT, CHECKPOINTS, release

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def report(
    dataset: Annotated[
        list[str] | None, typer.Option(help="Dataset to report on. (default: all in params.yaml)")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Write nothing; exit 2 if HEAD's reports differ from HEAD's results.",
        ),
    ] = False,
) -> None:
    """Write reports/DATASET.md, its tables and .pdf, the README's results; release checkpoints.

    Every number comes from results/; the conclusions stand in
    src/genlab/evaluation/reports/templates/DATASET.md.j2.
    """
    root = Path()
    if check:
        if stale := render.check_committed(root):
            raise GenlabError(f"{', '.join(stale)} out of date; run: make report, and commit")
        return
    datasets = dataset or list(load_params(root / "params.yaml").datasets)
    for name in datasets:
        if (CHECKPOINTS / name / CHECKPOINT).is_file():  # else the released one stays
            typer.echo(f"released {release(name)}")
    texts = render.render_reports(root, datasets)
    for path in render.outdated(texts):
        write_text(path, texts[path])
        typer.echo(f"wrote {path}")
    for name in datasets:
        written = Path("reports") / f"{name}.md"
        try:
            typer.echo(f"printed {written.with_suffix('.pdf')}: {print_pdf(written)} pages")
        except GenlabError as error:
            typer.echo(str(error))  # the Markdown is complete without it


if __name__ == "__main__":
    run_cli(app)
