"""What the research agent must show: whether it reaches goals, survives, and stays in its place.

    python benchmarks/agent.py --only scripted

Jobs: bound and goal_rate (agent_goal.py; what an LLM is worth is llm_minus_search), ablations,
scripted (agent_scripted.py), malformed (agent_malformed.py), kill_lost (agent_kill.py), overhead
and repro_ok (agent_cost.py). Attacks on the sandbox are benchmarks/attacks.py. goal_rate and
ablations need the bound, and take an hour or two of a slow core each; they resume.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from agent_cost import overhead, repro_ok
from agent_goal import ablations, bound, goal_rate
from agent_kill import kill_lost
from agent_malformed import malformed
from agent_scripted import scripted
from agent_setting import Setting
from genlab.core.errors import GenlabError, run_cli
from record import BENCHMARKS

JOBS: dict[str, Callable[[Setting], None]] = {
    job.__name__: job
    for job in (
        repro_ok, scripted, malformed, kill_lost, overhead, bound, goal_rate, ablations,
    )
}  # fmt: skip


def bench(
    only: Annotated[str, typer.Option(help=f"One of {', '.join(JOBS)}; empty = all.")] = "",
    seeds: Annotated[
        int, typer.Option(min=1, max=10, help="Runs behind a rate: of the agent, and of search.")
    ] = 10,
    data: Annotated[Path, typer.Option(help="Folder of the datasets' folders.")] = Path("data"),
    workspaces: Annotated[
        Path, typer.Option(help="Where runs of goal_rate and ablations are kept, and resumed.")
    ] = Path("workspaces/benchmarks"),
    fresh: Annotated[bool, typer.Option(help="Begin those runs again.")] = False,
    keep: Annotated[bool, typer.Option(help="Record what was measured.")] = True,
    output: Annotated[Path, typer.Option(help="File the results go to.")] = BENCHMARKS,
) -> None:
    """Measure the agent; write `agent.*`.

    Example: python benchmarks/agent.py --only malformed
    """
    if only and only not in JOBS:
        raise GenlabError(f"--only must be one of {', '.join(JOBS)}, got {only!r}")
    if fresh:
        shutil.rmtree(workspaces, ignore_errors=True)
    options = "" if seeds == 10 else f" --seeds {seeds}"
    setting = Setting(data, workspaces, output if keep else None, seeds, options)
    for name in [only] if only else JOBS:
        print(f"{name}: {(JOBS[name].__doc__ or '').splitlines()[0]}", flush=True)
        JOBS[name](setting)


if __name__ == "__main__":
    run_cli(lambda: typer.run(bench))
