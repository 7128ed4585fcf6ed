"""Stage failure_gallery: show the worst items, and test over the whole test split why they fail.

Writes results/DATASET/failures.json and plots/DATASET/failures/index.html.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from genlab.core.errors import run_cli
from genlab.core.io import write_json, write_text
from genlab.core.params import DatasetOptions, load_params, overridable, parse_options
from genlab.datasets.registry import find_dataset
from genlab.evaluation.diagnostics.gallery import build_gallery


class Options(DatasetOptions, overridable("seed", "bootstrap")):
    """Make the gallery of failures of a dataset as a page and as JSON.

    Example: python stages/failure_gallery.py --dataset arc_grids --count 20
    """

    data_path: Path | None = Field(
        None, description="Split file or its folder. [default: data/DATASET]"
    )
    evaluated: Path | None = Field(
        None, description="Folder written by evaluate. [default: data/evaluated/DATASET]"
    )
    metrics_path: Path | None = Field(
        None, description="JSON file. [default: results/DATASET/failures.json]"
    )
    plots_path: Path | None = Field(
        None, description="Folder of the page. [default: plots/DATASET/failures]"
    )
    count: int = Field(16, ge=10, le=20, description="Items of each kind.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the stage with these arguments, by default the command line's."""
    options = parse_options(Options, arguments)
    name = options.dataset
    chosen = find_dataset(name)
    params = load_params().with_overrides(**options.overrides).for_dataset(name)
    summary, page = build_gallery(
        chosen,
        options.data_path or Path("data") / name,
        (options.evaluated or Path("data/evaluated") / name) / "evidence.npz",
        count=options.count,
        bootstrap=params.bootstrap,
        seed=params.seed,
    )
    write_json(options.metrics_path or Path("results") / name / "failures.json", summary)
    target = (options.plots_path or Path("plots") / name / "failures") / "index.html"
    write_text(target, page)
    verdicts = [test["verdict"] for test in summary["tests"]]
    print(
        f"{target}: {len(summary['items'])} reconstructions,"
        f" {len(summary['sample_items'])} samples; hypotheses:"
        f" {verdicts.count('supported')} supported, {verdicts.count('refuted')} refuted,"
        f" of {len(verdicts)}"
    )


if __name__ == "__main__":
    run_cli(main)
