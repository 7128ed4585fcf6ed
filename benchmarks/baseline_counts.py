"""Bits/dim of a table of counts: each pixel given the one above and the one to the left.

It has no network and no latents. Two numbers are chosen on the validation split: how many bits of
the neighbours are kept, and the pseudo-count that smooths the table (Laplace). The test images are
measured once.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.harness import Result, benchmark
from genlab.datasets.images import load_images
from genlab.evaluation.metrics.reference_models import ContextTable

CONTEXT_BITS = (4, 5, 6, 7)
PSEUDO_COUNTS = (10, 30, 100, 300, 1000)


@benchmark("images.counts_bits_per_dim")
def counts(
    data: Annotated[Path, typer.Option(help="Folder that stage split wrote.")] = Path(
        "data/fashion_mnist"
    ),
) -> Iterator[Result]:
    """Measure the bits/dim of a table of counts of each pixel given two earlier ones."""
    train, val, test = (load_images(data, name) for name in ("train", "val", "test"))
    tables = [ContextTable(train, bits) for bits in CONTEXT_BITS]
    validation = {}
    for table in tables:
        for pseudo_count in PSEUDO_COUNTS:
            validation[table, pseudo_count] = table.bits_per_dim(val, pseudo_count)
    table, pseudo_count = min(validation, key=lambda choice: validation[choice])
    details = {
        "context_bits": table.context_bits,
        "pseudo_count": pseudo_count,
        "validation_bits_per_dim": validation[table, pseudo_count],
    }
    bits = table.bits_per_dim(test, pseudo_count)
    yield Result("images.counts_bits_per_dim", bits, n=len(test), details=details)
