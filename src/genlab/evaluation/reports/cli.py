"""`genlab report`: render reports and the README's results, print them, compare two runs."""

from pathlib import Path
from typing import Annotated

import typer

from genlab.core.errors import GenlabError

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
    if check:
        _check_committed()
        return
    from genlab.core.params import load_params

    datasets = dataset or list(load_params().datasets)
    _release_models(datasets)
    _write_reports(datasets)
    _print_reports(datasets)


def _check_committed() -> None:
    from genlab.evaluation.reports import render

    if outdated := render.check_committed(Path()):
        raise GenlabError(f"{', '.join(outdated)} out of date; run: make report, and commit")


def _release_models(datasets: list[str]) -> None:
    """Copy checkpoints and judges that were trained here to checkpoints/; others stay there."""
    from genlab.evaluation.metrics import judges
    from genlab.vae.training.checkpoint import CHECKPOINT, CHECKPOINTS, release

    for name in datasets:
        if (CHECKPOINTS / name / CHECKPOINT).is_file():
            typer.echo(f"released {release(name)}")
        if (judges.FOLDER / name / judges.FILE).is_file():
            typer.echo(f"released {judges.release_judges(name)}")


def _write_reports(datasets: list[str]) -> None:
    from genlab.core.io import write_text
    from genlab.evaluation.reports import render

    texts = render.render_reports(Path(), datasets)
    for path in render.find_outdated(texts):
        write_text(path, texts[path])
        typer.echo(f"wrote {path}")


def _print_reports(datasets: list[str]) -> None:
    from genlab.evaluation.reports.pdf import print_pdf

    for name in datasets:
        markdown = Path("reports") / f"{name}.md"
        try:
            typer.echo(f"printed {markdown.with_suffix('.pdf')}: {print_pdf(markdown)} pages")
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
