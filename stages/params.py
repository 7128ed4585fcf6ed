"""Stage params: resolve params.yaml into the values that each stage of a dataset depends on.

Writes results/DATASET/params.json: {stage: {key: value}}. The other stages depend on their entry
of it, so a parameter that only grids use leaves the stages of images up to date.
"""

from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.options import DatasetOptions, parse_options
from genlab.core.params import load_params


class Options(DatasetOptions):
    """Resolve params.yaml for a dataset.

    Example: python stages/params.py --dataset arc_grids
    """


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    path = options.place("results/DATASET", "params.json")
    write_json(path, load_params().resolve(options.dataset))
    print(path)


if __name__ == "__main__":
    run_cli(main)
