"""What the pipeline keeps of a run: its best model, its report, its numbers.

The workspace stays where it is. The numbers hold neither clock nor run_id, so that the same
parameters give the same metrics.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from genlab.agent import report
from genlab.agent.record import RunRecord, read_run
from genlab.agent.registry import CODE, CONFIG_FILE, WEIGHTS, Attempt
from genlab.agent.run import JOURNAL
from genlab.agent.workspace import Workspace
from genlab.core.io import write_bytes, write_json


def write(
    workspace: Workspace, output: Path, metrics: Path, results: Path, plots: Path
) -> RunRecord:
    """Copy best model and report to `output`, the figure to `plots`, and write the numbers.

    metrics: file of the headline, at most five numbers. results: file of all numbers.
    """
    run = read_run(workspace)
    copies = {
        name: workspace.experiments / name for name in (report.MARKDOWN, report.PAGE, report.PLOT)
    }
    if run.best is not None:
        folder = workspace.root / run.best.experiment_dir
        for name in (CODE, CONFIG_FILE, WEIGHTS):
            copies[name] = folder / name
    copies[JOURNAL] = workspace.root / JOURNAL
    for name, source in copies.items():
        if source.exists():
            write_bytes(output / name, source.read_bytes())
        else:  # search has no journal: that of an older run must not stand for it
            (output / name).unlink(missing_ok=True)
    write_bytes(plots / report.PLOT, (workspace.experiments / report.PLOT).read_bytes())
    found = numbers(run)
    write_json(results, found)
    write_json(metrics, headline(found))
    return run


def headline(found: dict[str, Any]) -> dict[str, Any]:
    """The five numbers that `dvc metrics diff` compares; found: what `numbers` returns."""
    best = found.get("best", {})
    return {
        "passed": found["reached"],
        "validation": best.get("validation", {}).get("mean"),
        "test": best.get("test", {}).get(found["metric"]),
        "parameters": best.get("parameters"),
        "attempts": found["attempts"],
    }


def numbers(run: RunRecord) -> dict[str, Any]:
    """All numbers of a run."""
    goal = run.settings.goal
    found: dict[str, Any] = {
        "goal": goal.description,
        "metric": goal.metric,
        "verdict": run.verdict,
        "reached": run.verdict == "achieved",
        "attempts": len(run.attempts),
        "planned_by": run.planned_by,
        "written_by": run.written_by,
        "questions": int(run.spend.get("questions", 0)),
        "tokens": int(run.spend.get("tokens_in", 0) + run.spend.get("tokens_out", 0)),
        "references": run.references,
    }
    if run.best is not None:
        found["best"] = _numbers_of(run.best, goal.metric)
    if (against := run.comparison) is not None:
        low, high = against.interval or (None, None)
        found["minus_search"] = {
            "difference": against.difference,
            "low": low,
            "high": high,
            "seeds": min(len(against.run), len(against.search)),
            "search": statistics.mean(against.search),
        }
    return found


def _numbers_of(attempt: Attempt, metric: str) -> dict[str, Any]:
    values = attempt.values(metric)
    return {
        "attempt": attempt.number,
        "planned_by": attempt.origin,
        "written_by": attempt.code_origin,
        "parameters": attempt.parameters,
        "seeds": len(values),
        "validation": {"mean": statistics.mean(values), "min": min(values), "max": max(values)},
        "test": attempt.test,
    }
