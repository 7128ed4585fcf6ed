"""What the pipeline keeps of a run: its best model, its report, its numbers.

The workspace is work and stays where it is; the snapshot is written again from it, and holds in its
numbers neither clock nor run_id, so that the same params give the same metrics.
"""

from __future__ import annotations

import hashlib
import statistics
from pathlib import Path
from typing import Any

from genlab.agent import exam, guest, quick_evaluator, report, space, template
from genlab.agent.attempt import CODE, CONFIG_FILE, WEIGHTS, Attempt
from genlab.agent.backends import TRANSCRIPT
from genlab.agent.settings import Settings
from genlab.agent.story import Story, story
from genlab.agent.workspace import Workspace
from genlab.core.io import sha256, write_bytes, write_json

JUDGES = (exam, guest, quick_evaluator, space, template)
"""Modules that decide what an attempt is worth; a change of the others leaves what was paid for."""


def key(settings: Settings) -> str:
    """Tells runs apart by all that their numbers depend on: params, data, and how they are marked.

    A workspace under another key is left as it is, and a new one is opened.
    """
    told = hashlib.sha256(settings.whole_key.encode())
    folder = settings.data / settings.goal.dataset
    paths = sorted(folder.rglob("*") if folder.is_dir() else [])
    if settings.params.backend == "replay":
        paths.append(Path(settings.params.transcript))
    paths += [Path(str(module.__file__)) for module in JUDGES]
    for path in paths:
        if path.is_file():
            told.update(sha256(path).encode())
    return told.hexdigest()[:12]


def write(workspace: Workspace, output: Path, metrics: Path, results: Path, plots: Path) -> Story:
    """Copy best model and report to `output`, the plot to `plots`; write the numbers.

    metrics: file for the headline, at most five numbers. results: file for all of them.
    """
    told = story(workspace)
    copies = {name: workspace.experiments / name for name in (report.MARKDOWN, report.PAGE)}
    copies |= {name: workspace.experiments / name for name in (report.PLOT, report.DARK_PLOT)}
    if told.best is not None:
        folder = workspace.root / told.best.experiment_dir
        copies |= {name: folder / name for name in (CODE, CONFIG_FILE, WEIGHTS)}
    copies[TRANSCRIPT] = workspace.root / TRANSCRIPT
    for name, source in copies.items():
        if source.exists():
            write_bytes(output / name, source.read_bytes())
        else:  # search has no transcript: an older run's must not stand for it
            (output / name).unlink(missing_ok=True)
    write_bytes(plots / report.PLOT, (workspace.experiments / report.PLOT).read_bytes())
    found = numbers(told)
    write_json(results, found)
    write_json(metrics, headline(found))
    return told


def headline(found: dict[str, Any]) -> dict[str, Any]:
    """The five numbers that `dvc metrics diff` compares; `found` is what `numbers` returns."""
    best = found.get("best", {})
    return {
        "passed": found["reached_by_agent"],
        "val_accuracy": best.get("val_accuracy", {}).get("mean"),
        "test_accuracy": best.get("test_accuracy", {}).get("accuracy"),
        "parameters": best.get("parameters"),
        "attempts": found["attempts"],
    }


def numbers(told: Story) -> dict[str, Any]:
    """The run in numbers."""
    found: dict[str, Any] = {
        "goal": str(told.settings.goal),
        "verdict": told.verdict,
        "reached_by_agent": told.verdict == "achieved",
        "attempts": len(told.attempts),
        "planned_by": told.planned_by,
        "written_by": told.written_by,
        "questions": int(told.spend.get("questions", 0)),
        "tokens": int(told.spend.get("tokens_in", 0) + told.spend.get("tokens_out", 0)),
    }
    if told.baseline is not None:
        found["baseline"] = _of(told.baseline)
    if told.best is not None:
        found["best"] = _of(told.best)
    if told.comparison is not None and told.comparison.metric != "seconds":
        against = told.comparison
        low, high = against.interval or (None, None)
        found["less_search"] = {
            "metric": against.metric,
            "difference": against.difference,
            "low": low,
            "high": high,
            "seeds": min(len(against.run), len(against.search)),
            "search": statistics.mean(against.search),
        }
    return found


def _of(attempt: Attempt) -> dict[str, Any]:
    accuracies = attempt.values("accuracy")
    losses = attempt.values("val_loss")
    told: dict[str, Any] = {
        "attempt": attempt.iteration,
        "planned_by": attempt.plan_origin,
        "written_by": attempt.code_origin,
        "parameters": attempt.metrics_summary.get("parameters"),
        "seeds": len(attempt.checked),
    }
    if accuracies:
        told["val_accuracy"] = {
            "mean": statistics.mean(accuracies), "min": min(accuracies), "max": max(accuracies),
        }  # fmt: skip
        told["val_loss"] = statistics.mean(losses)
    if "accuracy" in attempt.test:
        told["test_accuracy"] = {name: attempt.test[name] for name in ("accuracy", "low", "high")}
    return told
