"""Stage failure_gallery: show the worst items, and test over the whole test split why they fail.

Writes results/DATASET/failures.json and plots/DATASET/failures/index.html.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from genlab.core.errors import run_cli
from genlab.core.io import write_json, write_text
from genlab.core.options import DatasetOptions, overridable, parse_options
from genlab.datasets.registry import find_dataset
from genlab.evaluation.diagnostics.gallery import build_gallery


class Options(DatasetOptions, overridable("seed", "bootstrap")):
    """Make the gallery of failures of a dataset as a page and as JSON.

    Example: python stages/failure_gallery.py --dataset arc_grids --count 20
    """

    data_path: Path = Field(Path("data/DATASET"), description="Split file or its folder.")
    evaluated: Path = Field(Path("data/evaluated/DATASET"), description="Written by evaluate.")
    count: int = Field(16, ge=10, le=20, description="Items of each kind.")


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    params = options.params
    summary, page = build_gallery(
        find_dataset(options.dataset),
        options.data_path,
        options.evaluated / "evidence.npz",
        count=options.count,
        bootstrap=params.bootstrap,
        seed=params.seed,
    )
    write_json(options.place("results/DATASET", "failures.json"), summary)
    target = options.place("plots/DATASET/failures", "index.html")
    write_text(target, page)
    supported = [test["name"] for test in summary["tests"] if test["verdict"] == "supported"]
    print(f"{target}: supported hypotheses: {', '.join(supported)}")


if __name__ == "__main__":
    run_cli(main)
