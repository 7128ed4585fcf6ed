"""Stage source: notice when the files of a dataset of one's own change.

Writes results/sources/DATASET.json: a digest of names, sizes and times. No file is read, so that
dvc asks for no more than a listing.
"""

from pathlib import Path

from pydantic import Field

from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.params import load_params
from genlab.core.params.options import StageOptions, parse_options
from genlab.core.paths import resolve_path
from genlab.datasets.own import digest_listing


class Options(StageOptions):
    """Write down what files a dataset of one's own has.

    Example: python stages/source.py --dataset my_photos
    """

    dataset: str = Field(description="Name of the dataset.")


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    source = load_params(complete=False).dataset(options.dataset).source
    files = digest_listing(resolve_path(source.path)) if source else ""
    target = Path("results/sources", f"{options.dataset}.json")
    write_json(target, {"files": files})
    print(target)


if __name__ == "__main__":
    run_cli(main)
