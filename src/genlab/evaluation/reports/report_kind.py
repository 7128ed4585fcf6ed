"""What reports of grids and reports of images each bring along: captions, tables, figures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Context = dict[str, Any]
"""What the templates speak about, by name."""


@dataclass(frozen=True)
class ReportKind:
    """How the datasets of one kind are reported.

    templates: of "report", "data_sheet" and "readme". benchmarks: which keys of
    results/benchmarks.json are about a dataset. complete: what the templates speak about beside the
    files. draw: figures that compare experiments, into a folder; returns those that were drawn.
    """

    templates: Mapping[str, str]
    captions: Mapping[str, str]
    benchmarks: Callable[[str, str], bool]
    complete: Callable[[Context], Context]
    draw: Callable[[Path, Context], list[Path]]
