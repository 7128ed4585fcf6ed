"""Stage failure_gallery: show the worst items, and test hypotheses of why they fail.

Writes results/DATASET/failures.json and plots/DATASET/failures/{index.html,sheet.png}.
"""

from pathlib import Path

from pydantic import Field

from genlab.core.errors import run_cli
from genlab.core.io import write_json, write_text
from genlab.core.params.options import DatasetOptions, overridable, parse_options
from genlab.evaluation.failures.gallery import build_gallery, draw_sheet, render_page, summarise


class Options(DatasetOptions, overridable("seed", "bootstrap")):
    """Make the gallery of failures of a dataset as a page and as JSON.

    Example: python stages/failure_gallery.py --dataset arc_grids --count 20
    """

    data_path: Path = Field(Path("data/DATASET"), description="Split file or its folder.")
    evaluated: Path = Field(Path("data/evaluated/DATASET"), description="Written by evaluate.")
    count: int = Field(16, ge=10, le=20, description="Grids in all, or images of each sort.")


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    params = options.params
    dataset = params.dataset(options.dataset)
    evidence = options.evaluated / "evidence.npz"
    sections = build_gallery(dataset, options.data_path, evidence, options.count)
    summary = summarise(sections, bootstrap=params.bootstrap, seed=params.seed)
    write_json(options.output_path("results/DATASET", "failures.json"), summary)
    target = options.output_path("plots/DATASET/failures", "index.html")
    write_text(target, render_page(f"What fails: {dataset.title}", summary, sections))
    draw_sheet(target.with_name("sheet.png"), sections)
    supported = [test["name"] for test in summary["tests"] if test["verdict"] == "supported"]
    print(f"{target}: supported hypotheses: {', '.join(supported)}")


if __name__ == "__main__":
    run_cli(main)
