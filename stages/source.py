"""Stage source: detect when the files of a user's own dataset change.

Writes results/sources/DATASET.json: a digest of names, sizes and times. It only lists the files,
since dvc runs it every time.
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
    """Write a digest of the listing of a dataset's files.

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
