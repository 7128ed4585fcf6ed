"""Stage params: resolve params.yaml into what each stage depends on: its values and its code.

Writes results/DATASET/params.json, or results/params.json for the stages without a dataset:
{stage: {"code": digest, key: value}}. The other stages depend on their entry of it, so that a
parameter that only grids use, or a reworded comment, leaves the stages of images up to date.
"""

from pathlib import Path

from pydantic import Field

from genlab.core.code import add_code
from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.options import StageOptions, parse_options
from genlab.core.params import load_params


class Options(StageOptions):
    """Resolve params.yaml for the stages of a dataset, or for those without one.

    Example: python stages/params.py --dataset arc_grids
    """

    dataset: str | None = Field(None, description="Name of the dataset.")
    output: Path | None = Field(None, description="Folder for the file, instead of DVC's.")


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    dataset = options.dataset
    params = load_params()
    values = params.resolve(dataset) if dataset else params.resolve_shared()
    folder = options.output or Path("results", dataset or "")
    write_json(folder / "params.json", add_code(values))
    print(folder / "params.json")


if __name__ == "__main__":
    run_cli(main)
