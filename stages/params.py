"""Stage params: resolve params.yaml into the values that each stage of a dataset depends on.

Writes results/DATASET/params.json: {stage: {key: value}}. The other stages depend on their entry
of it, so a parameter that only grids use leaves the stages of images up to date.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.params import DatasetOptions, load_params, parse_options


class Options(DatasetOptions):
    """Resolve params.yaml for a dataset.

    Example: python stages/params.py --dataset arc_grids
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the stage with these arguments, by default the command line's."""
    dataset = parse_options(Options, arguments).dataset
    path = Path("results") / dataset / "params.json"
    write_json(path, load_params().resolve(dataset))
    print(path)


if __name__ == "__main__":
    run_cli(main)
