"""The command to type next: the first thing that stands between here and a finished result."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from genlab.core.errors import GenlabError
from genlab.core.experiment_results import RESULTS_FILE, assign, read_results
from genlab.web import shapes
from genlab.web.changes import Change
from genlab.web.components.files import yaml_at
from genlab.web.pipeline import Pipeline
from genlab.web.results import Results


class Step(NamedTuple):
    """A command and the reason for it."""

    command: str
    reason: str


def next_step(
    root: Path, pipeline: Pipeline, results: Sequence[Results], changed: Sequence[Change]
) -> Step:
    """What to do now. The order is that of the work: run, look, commit, compare, measure."""
    stale = pipeline.stale
    if stale:
        names = ", ".join(cell.stage.address for cell in stale[:3])
        more = f" and {len(stale) - 3} more" if len(stale) > 3 else ""
        return Step("make repro", f"{names}{more} would run again.")
    if len(results) < len(pipeline.datasets):
        return Step("make repro", "Not every dataset has results that can be read.")
    if not pipeline.known:
        return Step("dvc status", "How the stages stand is not known: ask dvc yourself.")
    for found in results:
        if not found.passed and found.fix:
            flags = [f"-S {shlex.quote(assign(key, v))}" for key, v in found.fix.items()]
            command = " ".join(["dvc exp run", *flags])
            return Step(command, f"{found.dataset}: {found.found[0]['name']} has a known fix.")
        if not found.passed:
            missed = next(row for row in found.verdict["criteria"] if not row["passed"])
            command = f"make experiments ARGS={shlex.quote('--jobs 2')}"
            return Step(command, f"{found.dataset} misses {missed['name']}: compare other params.")
    if changed:
        command = "git add -A metrics plots dvc.lock && git commit"
        return Step(command, "The results changed since the last commit; put them on record.")
    waiting = _not_run(root)
    if waiting:
        return Step(
            f"make experiments ARGS={shlex.quote(f'--only {waiting[0]}')}",
            f"{len(waiting)} documented experiments have no record yet.",
        )
    if not (root / "results" / "benchmarks.json").is_file():
        return Step("make bench", "The bars have not been measured yet.")
    return Step("make report", "All is up to date; the reports can be written.")


def _not_run(root: Path) -> list[str]:
    """Experiments that are described and were never run, in the order of the file."""
    try:
        done = set(read_results(root / RESULTS_FILE).index)
    except GenlabError:
        done = set()
    described = _described(root / "experiments.yaml")
    return [
        name
        for name, seeds in described.items()
        if not (done & {name} if not seeds else {f"{name}-seed{s}" for s in seeds} <= done)
    ]


def _described(path: Path) -> Mapping[str, list[int]]:
    """Names and seeds of experiments.yaml, manual ones apart; nothing where it is missing."""
    found = yaml_at(path, shapes.Descriptions) if path.exists() else {}
    entries = {name: entry or {} for name, entry in found.items()}
    planned = {name: entry for name, entry in entries.items() if not entry.get("manual")}
    return {name: list(entry.get("seeds") or []) for name, entry in planned.items()}
