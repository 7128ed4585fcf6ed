"""Say how long the stages of a run took, what they wrote, and what to open next.

    python -m scripts.summary [--since SECONDS]

Times come from runs/stages.jsonl, to which every finished stage appends a line, outputs from
dvc.lock. SECONDS since the epoch: stages that started before are left out.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from genlab.core.errors import run_cli
from genlab.core.io import read_yaml
from genlab.core.runtime import STAGES_LOG

# Path that has to exist, command, and what it shows.
NEXT = (
    ("metrics/", "dvc metrics show", "the numbers that matter; dvc metrics diff compares them"),
    ("results/", "make app", "everything in a browser, at http://127.0.0.1:8000"),
    ("results/", "make report", "reports/*.md and .pdf from these results"),
)
FIGURES = ("evaluation/reconstructions.png", "failures/index.html", "scores.png", "progress.png")


def read_stages(folder: Path, since: float = 0.0) -> list[dict[str, Any]]:
    """Read the log lines of stages in `folder` that started at `since` or later."""
    log = folder / STAGES_LOG
    lines = log.read_text(encoding="utf-8").splitlines() if log.is_file() else []
    return [stage for stage in map(json.loads, lines) if stage["started"] >= since]


def describe_stages(folder: Path, since: float = 0.0) -> Iterator[str]:
    """Yield a line per stage (name, wall time, CPU time, outputs) and a line of sums."""
    lock = folder / "dvc.lock"
    locked = read_yaml(lock)["stages"] if lock.is_file() else {}
    stages = read_stages(folder, since)
    if not stages:
        yield "no stage ran: all are up to date, or came from DVC's cache"
        return
    yield f"{'stage':32}{'seconds':>8}{'CPU':>8}  wrote"
    for stage in stages:
        name = "@".join(filter(None, (stage["stage"], stage["dataset"])))
        wrote = ", ".join(out["path"] for out in locked.get(name, {}).get("outs", ()))
        yield f"{name:32}{stage['seconds']:8.1f}{stage['cpu_seconds']:8.1f}  {wrote}"
    sums = [sum(stage[key] for stage in stages) for key in ("seconds", "cpu_seconds")]
    yield f"{f'{len(stages)} stages':32}{sums[0]:8.1f}{sums[1]:8.1f}"


def describe_next(folder: Path) -> Iterator[str]:
    """Yield a line per thing to open in `folder`: existing figures, then commands."""
    yield "next:"
    for figure in FIGURES:
        for path in sorted((folder / "plots").glob(f"**/{figure}")):
            yield f"  {path}"
    for place, command, why in NEXT:
        if (folder / place).is_dir():
            yield f"  {command:18}{why}"


def main() -> None:
    """Print both for the current folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--since", type=float, default=0.0, help="seconds since the epoch")
    since = parser.parse_args().since
    print(*describe_stages(Path(), since), "", *describe_next(Path()), sep="\n")


if __name__ == "__main__":
    run_cli(main)
