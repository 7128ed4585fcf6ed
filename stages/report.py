"""Render the reports and the README's results from the result files, and print the reports."""

from pathlib import Path
from typing import Annotated

import typer

from genlab.core.errors import GenlabError, run_cli

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")


@app.callback(invoke_without_command=True)
def report(
    context: typer.Context,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Dataset to report on. [default: all]")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Write nothing; exit 2 if HEAD's reports differ from HEAD's results.",
        ),
    ] = False,
) -> None:
    """Write reports/DATASET.md, its tables and .pdf, the README's results; release models.

    Every number comes from results/; the conclusions stand in
    src/genlab/evaluation/reports/templates/DATASET.md.j2.
    """
    if context.invoked_subcommand:
        return
    from genlab.core.io import write_text
    from genlab.core.params import load_params
    from genlab.evaluation.metrics import judges
    from genlab.evaluation.reports import render
    from genlab.evaluation.reports.pdf import print_pdf
    from genlab.vae.training.checkpoint import CHECKPOINT, CHECKPOINTS, release

    root = Path()
    if check:
        if stale := render.check_committed(root):
            raise GenlabError(f"{', '.join(stale)} out of date; run: make report, and commit")
        return
    datasets = dataset or list(load_params(root / "params.yaml").datasets)
    for name in datasets:
        if (CHECKPOINTS / name / CHECKPOINT).is_file():  # else the released one stays
            typer.echo(f"released {release(name)}")
        if (judges.FOLDER / name / judges.FILE).is_file():
            typer.echo(f"released {judges.release_judges(name)}")
    texts = render.render_reports(root, datasets)
    for path in render.find_outdated(texts):
        write_text(path, texts[path])
        typer.echo(f"wrote {path}")
    for name in datasets:
        written = Path("reports") / f"{name}.md"
        try:
            typer.echo(f"printed {written.with_suffix('.pdf')}: {print_pdf(written)} pages")
        except GenlabError as error:
            typer.echo(str(error))  # the Markdown is complete without it


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="Folder of a full run.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Folder of another one.")],
) -> None:
    """Compare the metrics of two full runs: intervals, and which differences exceed them.

    Example: genlab report compare . ../clone-of-another-machine
    """
    from genlab.evaluation.reports import compare

    table = compare.compare_runs(first, second)
    typer.echo(table.to_markdown(index=False, disable_numparse=True))
    typer.echo(compare.count_outcomes(table))


if __name__ == "__main__":
    run_cli(app)
