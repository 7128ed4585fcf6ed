"""What reports of grids and reports of images each bring along: bars, captions, tables, figures."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

Context = dict[str, Any]
"""What the templates speak about, by name."""


class Target(NamedTuple):
    """A bar: what is measured, ">=" or "<=", the bar and the stretch; None where none is set.

    flag: the benchmark says yes (1) or no (0).
    """

    what: str
    sign: str
    bar: float | None
    stretch: float | None
    flag: bool = False


@dataclass(frozen=True)
class ReportKind:
    """How the datasets of one kind are reported.

    templates: of "report", "data_sheet" and "readme". benchmarks: which keys of
    results/benchmarks.json are about a dataset. complete: what the templates speak about beside the
    files. draw: figures that compare experiments, into a folder; returns those that were drawn.
    """

    templates: Mapping[str, str]
    captions: Mapping[str, str]
    targets: Callable[[str], Mapping[str, Target]]
    benchmarks: Callable[[str, str], bool]
    complete: Callable[[Context], Context]
    draw: Callable[[Path, Context], list[Path]]


def bars(targets: Mapping[str, Target], benchmarks: Mapping[str, Any]) -> Iterator[Context]:
    """The rows of the table of bars; a benchmark that was not run has no value."""
    for key, target in targets.items():
        entry = {"interval": None, "n": None, **benchmarks.get(key, {})}
        value = entry.get("value")
        reached = [
            None
            if value is None or aim is None
            else (value >= aim if target.sign == ">=" else value <= aim)
            for aim in (target.bar, target.stretch)
        ]
        yield {
            "key": key,
            "what": target.what,
            "bar": _shown(target.bar, target.flag),
            "stretch": _shown(target.stretch, target.flag),
            "entry": entry,
            "value": _shown(value, target.flag),
            "reached": reached[0],
            "stretch_reached": reached[1],
        }


def _shown(value: float | None, flag: bool) -> float | bool | None:
    return bool(value) if flag and value is not None else value
