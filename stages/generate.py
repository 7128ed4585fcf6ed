"""Stage generate: draw the grids of a dataset, or read its images from their source.

Writes, into data/generated/DATASET/ or --output, for grids: grids.npz (key `grids`, uint8
(n, size, size)), objects.npz (key `objects`: one row per object); for images: train.npy and
test.npy (all.npy where there is no official test split; uint8 (n, height, width, channels)),
labels.npz; and manifest.json (source, counts, checksums).
"""

from pydantic import Field

from genlab.core.errors import run_cli
from genlab.core.params.options import DatasetOptions, overridable, parse_options
from genlab.datasets.generating import generate


class Options(DatasetOptions, overridable("seed")):
    """Generate the items of a dataset; defaults come from params.yaml.

    Example: python stages/generate.py --output /tmp/grids --count 2000 --seed 1
    """

    count: int | None = Field(
        None,
        ge=1,
        description="Grids to draw, or most images of each part. [default: grids.count,"
        " images.count]",
    )


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    folder = options.output_path("data/generated/DATASET")
    print(generate(options.dataset, options.params, folder, options.count))


if __name__ == "__main__":
    run_cli(main)
