"""Stage failure_gallery: show the worst grids, and test over the whole test split why they are.

Writes results/DATASET/failures.json and plots/DATASET/failures/index.html.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from genlab.core.errors import run_cli
from genlab.core.io import write_json, write_text
from genlab.core.params import load_params, overrides
from genlab.datasets.registry import find_dataset
from genlab.evaluation.diagnostics.gallery import build_gallery


@overrides("seed")
def failure_gallery(
    dataset: Annotated[str, typer.Option(help="Dataset whose failures to show.")] = "arc_grids",
    data_path: Annotated[
        Path | None, typer.Option(help="Split file or its folder. (default: data/DATASET)")
    ] = None,
    evaluated: Annotated[
        Path | None, typer.Option(help="Folder of evaluate. (default: data/evaluated/DATASET)")
    ] = None,
    metrics_path: Annotated[
        Path | None, typer.Option(help="JSON file. (default: results/DATASET/failures.json)")
    ] = None,
    plots_path: Annotated[
        Path | None, typer.Option(help="Folder of the page. (default: plots/DATASET/failures)")
    ] = None,
    count: Annotated[int, typer.Option(min=10, max=20, help="Items of each sort.")] = 16,
    *,
    overrides: dict[str, Any],
) -> None:
    """Make the gallery of failures of a dataset as a page and as JSON.

    Example: python stages/failure_gallery.py --dataset arc_grids --count 20
    """
    chosen = find_dataset(dataset)
    params = load_params().with_overrides(**overrides).for_dataset(dataset)
    settings = {"count": count, "bootstrap": params.evaluate.bootstrap, "seed": params.seed}
    summary, page = build_gallery(
        chosen,
        data_path or Path("data") / dataset,
        (evaluated or Path("data/evaluated") / dataset) / "evidence.npz",
        **settings,
    )
    write_json(metrics_path or Path("results") / dataset / "failures.json", summary)
    target = (plots_path or Path("plots") / dataset / "failures") / "index.html"
    write_text(target, page)
    verdicts = [test["verdict"] for test in summary["tests"]]
    print(
        f"{target}: {len(summary['items'])} reconstructions,"
        f" {len(summary['sample_items'])} samples;"
        f" hypotheses: {verdicts.count('supported')} supported,"
        f" {verdicts.count('refuted')} refuted, of {len(verdicts)}"
    )


if __name__ == "__main__":
    run_cli(lambda: typer.run(failure_gallery))
