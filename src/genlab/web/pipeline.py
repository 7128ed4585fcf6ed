"""The pipeline as it stands: each stage of each dataset, whether it is up to date, and why not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from genlab.core.errors import GenlabError
from genlab.web import shapes
from genlab.web.components.files import fits, json_at, yaml_at

TIMINGS: Mapping[str, tuple[str, str]] = {
    "train": ("data/checkpoints/{dataset}/provenance.json", "training_seconds"),
    "evaluate": ("data/evaluated/{dataset}/timing.json", "seconds"),
}
"""Sidecars that say how long a stage took: file and key. The other stages keep no time."""

WORDS = {
    "modified": "{what} changed",
    "deleted": "{what} is gone",
    "new": "{what} is new",
    "not in cache": "{what} is not in the cache",
}
COMMAND = "dvc repro"


@dataclass(frozen=True)
class Stage:
    """One stage of one dataset (None: of the whole pipeline), as dvc.yaml declares it.

    `outs` are paths below the root; `ran` says whether dvc.lock holds a run of it.
    """

    name: str
    dataset: str | None
    says: str
    outs: tuple[str, ...]
    ran: bool

    @property
    def address(self) -> str:
        """What stands after `dvc repro`."""
        return self.name if self.dataset is None else f"{self.name}@{self.dataset}"


@dataclass(frozen=True)
class Cell:
    """A stage with what is known of its last run."""

    stage: Stage
    state: str
    reasons: tuple[str, ...] = ()
    written: datetime | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Pipeline:
    """Stages in their order, and a cell for each of them and each dataset."""

    names: tuple[str, ...]
    datasets: tuple[str, ...]
    cells: Mapping[str, Cell] = field(default_factory=dict)

    @property
    def stale(self) -> list[Cell]:
        """What `dvc repro` would run, in order."""
        return [cell for cell in self.cells.values() if cell.state in ("stale", "never run")]

    @property
    def known(self) -> bool:
        """Whether dvc has said how the stages stand."""
        return not any(cell.state in ("checking", "unknown") for cell in self.cells.values())

    def row(self, dataset: str | None) -> list[Cell]:
        """The stages of a dataset, or (None) those that are run once for all of them."""
        return [cell for cell in self.cells.values() if cell.stage.dataset == dataset]


def read_pipeline(
    root: Path,
    datasets: Sequence[str],
    status: Mapping[str, Any] | None,
    *,
    asking: bool = False,
) -> Pipeline:
    """The declared stages with their state; `status` is dvc's, None where it is not known.

    asking: whether it will be known in a moment.

    Raises Missing where there is no dvc.yaml, and a GenlabError where it is no YAML.
    """
    stages = declared(root, datasets)
    unknown = "checking" if asking else "unknown"
    cells = {stage.address: _cell(root, stage, status, unknown) for stage in stages}
    return Pipeline(tuple(dict.fromkeys(s.name for s in stages)), tuple(datasets), cells)


def declared(root: Path, datasets: Sequence[str]) -> list[Stage]:
    """Every stage of dvc.yaml, once for each dataset where a matrix says so."""
    entries = yaml_at(root / "dvc.yaml", shapes.Pipeline)["stages"]
    lock = root / "dvc.lock"
    locked = set(yaml_at(lock, shapes.Locked).get("stages", {})) if lock.exists() else set()
    found = []
    for name, entry in entries.items():
        rows: Sequence[str | None] = datasets if "matrix" in entry else (None,)
        for dataset in rows:
            outs = tuple(_outs(entry.get("outs", []), dataset or ""))
            address = name if dataset is None else f"{name}@{dataset}"
            found.append(Stage(name, dataset, entry.get("desc", ""), outs, address in locked))
    return found


def reasons(found: Iterable[Any]) -> list[str]:
    """What dvc status says of a stage, as sentences without a full stop."""
    words = []
    for entry in found:
        if not isinstance(entry, Mapping):  # "always changed", "frozen"
            words.append(str(entry))
            continue
        for section, changes in entry.items():
            if section == "changed command" or not isinstance(changes, Mapping):
                words.append("its command changed")
                continue
            words += [_reason(what, how) for what, how in changes.items()]
    return words


def _reason(what: str, how: Any) -> str:
    if isinstance(how, Mapping):  # {"params.yaml": {"beta_max": "modified"}}
        changed = ", ".join(f"{key} ({state})" for key, state in how.items())
        return f"{what}: {changed}"
    return WORDS.get(str(how), "{what}: {how}").format(what=what, how=how)


def _cell(root: Path, stage: Stage, status: Mapping[str, Any] | None, unknown: str) -> Cell:
    written, seconds = _written(root, stage), _seconds(root, stage)
    if not stage.ran:
        return Cell(stage, "never run", ("dvc.lock holds no run of it",), written, seconds)
    if status is None:
        return Cell(stage, unknown, (), written, seconds)
    found = status.get(stage.address)
    if not found:
        return Cell(stage, "up to date", (), written, seconds)
    return Cell(stage, "stale", tuple(reasons(found)), written, seconds)


def _written(root: Path, stage: Stage) -> datetime | None:
    """When the newest of a stage's outs was written here, by a run or by a checkout.

    What git holds was written by whoever cloned last: it counts only where there is nothing else.
    """
    large = [out for out in stage.outs if out.startswith("data/")]
    times = [p.stat().st_mtime for p in (root / o for o in large or stage.outs) if p.exists()]
    return datetime.fromtimestamp(max(times), timezone.utc) if times else None


def _seconds(root: Path, stage: Stage) -> float | None:
    if stage.name not in TIMINGS:
        return None
    pattern, key = TIMINGS[stage.name]
    try:
        taken = json_at(
            root / pattern.format(dataset=stage.dataset), dict[str, Any], producer_command=COMMAND
        )
    except GenlabError:
        return None  # the picture says nothing of it; the stage's own state tells the fault
    return float(taken[key]) if fits(taken.get(key), float) else None


def _outs(entries: Iterable[Any], dataset: str) -> list[str]:
    paths = [next(iter(entry)) if isinstance(entry, Mapping) else entry for entry in entries]
    return [str(path).replace("${item.dataset}", dataset) for path in paths]


def lasted(seconds: float | None) -> str:
    """A duration as people say it; a dash where nobody measured."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def ago(when: datetime | None, now: datetime | None = None) -> str:
    """How long ago something was; "never" for None."""
    if when is None:
        return "never"
    seconds = ((now or datetime.now(timezone.utc)) - when).total_seconds()
    if seconds < 60:
        return "just now"
    for size, word in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {word}{'s' * (count != 1)} ago"
    raise AssertionError(seconds)
