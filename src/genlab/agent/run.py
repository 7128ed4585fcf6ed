"""A complete run: attempts, random search for comparison, report; a stopped one is resumed."""

import sys
from pathlib import Path

from genlab.agent import record, report
from genlab.agent.config import Settings
from genlab.agent.iterate import open_run
from genlab.agent.loop import Progress
from genlab.agent.random_search import run_search_baseline
from genlab.agent.workspace import Workspace
from genlab.core.errors import GenlabError
from genlab.llm import backends


def print_line(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr, flush=True)


def check_settings(settings: Settings) -> None:
    """Raise a GenlabError for what the user has to correct before a run can start."""
    from genlab.agent.evaluator.datasets import check_data

    backends.check_backend(settings.params)
    if settings.params.mode == "tools" and settings.params.backend == "search":
        raise GenlabError("agent.mode tools needs a language model; choose another agent.backend")
    for line in check_data(settings.goal.dataset, settings.data, settings.goal.task):
        print_line(line)


def run(settings: Settings, workspace: Workspace, progress: Progress = print_line) -> Path:
    """Make attempts until the goal or a limit is reached, then report; resumes a stopped run.

    Returns the report's path. Raises a GenlabError where the user has to correct something; the
    next start goes on from there.
    """
    params = settings.params
    backend = backends.describe_backend(params)
    with workspace.lock(), open_run(settings, workspace, progress) as context:
        references = context.problem.references
        record.write_run(workspace, settings, record.UNFINISHED, backend, references)
        verdict, attempts = context.make_attempts()
        record.write_run(workspace, settings, verdict, backend, references, context.spent)
        path = report.write(workspace)
        if params.compare_with_search and params.backend != "search":
            run_search_baseline(context.problem, workspace, len(attempts), progress)
            report.write(workspace)
    return path
