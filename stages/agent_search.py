"""Stage agent_search: random search for agent.goal, as a baseline of the agent.

It draws agent.max_iterations attempts, at most MAX_STAGE_ATTEMPTS, and none where
agent.compare_with_search is false. A killed run is resumed. Writes data/agent_search (the attempts,
with weights) and results/agent_search.json (their numbers).
"""

import shutil
from pathlib import Path

from genlab.agent.config import Settings
from genlab.agent.library.toolbox import Toolbox
from genlab.agent.random_search import (
    MAX_STAGE_ATTEMPTS,
    STAGE,
    open_search_workspace,
    search,
    write_stage_workspace,
)
from genlab.core.errors import run_cli
from genlab.core.io import UNFINISHED, write_json
from genlab.core.params import IDLE, describe_idle
from genlab.core.params.options import overridable, parse_options

DATA = Path("data")
RESULTS = Path("results/agent_search.json")


class Options(overridable("seed")):
    """Search at random towards agent.goal of params.yaml, for the agent's comparison.

    Example: dvc repro agent_search
    """


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    if reason := describe_idle():
        write_json(DATA / STAGE / IDLE.name, {"reason": reason})
        write_json(RESULTS, {"goal": "", "attempts": []})
        print(reason)
        return
    settings = Settings.from_params(options.params, DATA)
    params = settings.params
    count = min(params.max_iterations, MAX_STAGE_ATTEMPTS) if params.compare_with_search else 0
    workspace = open_search_workspace(UNFINISHED / f"{STAGE}-{settings.search_key}", settings)
    if count:
        with Toolbox(workspace, settings) as toolbox:
            problem = toolbox.describe_problem({})
        search(problem, workspace, count, print)
    attempts = write_stage_workspace(settings, workspace, DATA / STAGE)
    metric = settings.goal.metric
    rows = [
        {
            "attempt": attempt.number,
            "parameters": attempt.parameters,
            metric: attempt.values(metric),
            "failure": attempt.failure,
        }
        for attempt in attempts
    ]
    write_json(RESULTS, {"goal": settings.goal.description, "attempts": rows})
    shutil.rmtree(workspace.root)
    print(f"{RESULTS}: {len(attempts)} attempts")


if __name__ == "__main__":
    run_cli(main)
