"""The README's sections of the agent, the benchmark and the app: their bars and last results.

They have no data set of their own, so they are no `ReportKind`; the markers are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from genlab.core.io import read_json
from genlab.evaluation.reports.report import BENCHMARKS, rendered, spliced
from genlab.evaluation.reports.report_kind import Context, Target, bars

JOBS: Mapping[str, Mapping[str, Target]] = {
    "agent": {
        "agent.repro_ok": Target(
            "`make repro`: all attempts ended without a crash", ">=", 1, None, True
        ),
        "agent.goal_bound": Target(
            "accuracy that 8 of 10 runs of search reach in 5 attempts", ">=", None, None
        ),
        "agent.goal_rate": Target(
            "runs of the agent that reach it, embedded model", ">=", 0.8, 1.0
        ),
        "agent.goal_rate.planned_by_llm": Target(
            "of these, reached by a plan of the model's own", ">=", None, None
        ),
        "agent.goal_rate.search": Target("runs of search that reach it", ">=", None, None),
        "agent.llm_minus_search": Target("best accuracy, less search's", ">=", None, None),
        "agent.scripted": Target(
            "a capable planner: followed, its code run, stopped at the goal", ">=", 1, None, True
        ),
        "agent.ablations.no_registry": Target(
            "best without the registry in the prompt, less the best with all", ">=", None, None
        ),
        "agent.ablations.no_repair": Target("the same without repair", ">=", None, None),
        "agent.ablations.no_branching": Target("the same without branching", ">=", None, None),
        "agent.malformed": Target(
            "200 hostile answers: crashes, hangs, escapes, torn registries", "<=", 0, None
        ),
        "agent.attacks_stopped": Target("attacks on the sandbox that it stopped", ">=", 40, None),
        "agent.kill_lost": Target(
            "kill -9 at 20 points: attempts lost or paid for twice", "<=", 0, None
        ),
        "agent.overhead_s": Target("seconds of an attempt beyond LLM and training", "<=", 1.0, 0.3),
    },
    "benchmark": {
        "swap.ordered": Target("held-out persons, pairs ordered right", ">=", 0.95, 1.0),
        "swap.identity": Target("same and different persons told apart", ">=", 1.0, None),
        "swap.runner_over_ideal": Target(
            "100 images at 16 a time, over the ideal", "<=", 1.15, 1.05
        ),
        "swap.score_scaling": Target("scoring on two cores over one", ">=", 1.7, 1.9),
        "swap.score_s": Target("seconds to score an image of 1,024 pixels", "<=", 1.5, 0.7),
        "swap.kill_lost": Target(
            "kill -9 at 20 points: images lost, paid for twice, broken stores", "<=", 0, None
        ),
        "swap.hostile_server": Target(
            "a hostile image server: wrong scores, hangs, crashes", "<=", 0, None
        ),
        "swap.leaderboard_s": Target(
            "seconds for the leaderboard of 10,000 images", "<=", 1.0, 0.2
        ),
    },
    "app": {
        "app.start_s": Target("seconds from start to the first page", "<=", 5, 3),
        "app.page_ms": Target("page change, warm, median, ms", "<=", 500, 200),
        "app.event_ms": Target("event from runner to pixel, median, ms", "<=", 700, 300),
        "app.ws_lost": Target("200 clients, 1,000 events: lost or reordered", "<=", 0, None),
        "app.rate_ms": Target("next picture after a key press, ms", "<=", 300, 100),
        "app.schemathesis": Target("requests answered by 5xx or off the schema", "<=", 0, None),
        "app.attacks": Target("60 attacks on the server: successes", "<=", 0, None),
        "app.axe": Target("serious findings of axe-core on all pages", "<=", 0, None),
    },
}
"""What each job set out to reach, by key of results/benchmarks.json."""


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
        "targets": list(bars(JOBS[job], benchmarks)),
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
