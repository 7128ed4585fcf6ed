"""The README's sections of the agent, the benchmark and the app: their targets and last results.

They have no data set of their own, so they are no `ReportKind`; the markers are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from genlab.core.io import read_json
from genlab.evaluation.reports.report import BENCHMARKS, rendered, spliced
from genlab.evaluation.reports.report_kind import Context
from genlab.evaluation.reports.targets import read_targets, target_rows

JOBS: Mapping[str, str] = {"agent": "agent.", "benchmark": "swap.", "app": "app."}
"""The prefix of each job's keys in results/benchmarks.json."""


def texts(root: Path, job: str) -> dict[Path, str]:
    """The README with `job`'s section as its files say; empty where it has no place for it.

    Raises GenlabError where the README has half a pair of markers.
    """
    results = root / "metrics" / f"{job}.json"
    path, producer_command = BENCHMARKS
    benchmarks = read_json(root / path, producer_command=producer_command)
    found = read_json(results, producer_command="make repro") if results.is_file() else None
    context: Context = {
        "dataset": job,
        "targets": list(target_rows(read_targets(root, JOBS[job]), benchmarks)),
        "results": found,
        "standings": standings(found or {}),
    }
    section = rendered(f"{job}_readme.md.j2", context)
    text = spliced(root / "README.md", job, section)
    return {} if text is None else {root / "README.md": text}


def standings(found: Context) -> list[tuple[str, Context]]:
    """The tools of a leaderboard, the best first, those without a score last."""
    tools: Context = found.get("tools", {})
    return sorted(
        tools.items(), key=lambda item: (item[1]["score"] is None, -(item[1]["score"] or 0))
    )
