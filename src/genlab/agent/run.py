"""A whole run: references, the loop, its best model on the test set, search beside it, the report.

Everything can be stopped and started again: what is in the journal and the registry is not done
again.
"""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from genlab.agent import record, report
from genlab.agent.config import Problem, Settings
from genlab.agent.decisions import leader
from genlab.agent.evaluator.results import EvaluationError
from genlab.agent.loop import Loop, Progress
from genlab.agent.registry import CODE, WEIGHTS, Attempt, Registry
from genlab.agent.tool_loop import ToolLoop
from genlab.agent.tools.toolbox import Toolbox
from genlab.agent.workspace import JOURNAL, PROJECT, Workspace, lay_out
from genlab.core.errors import GenlabError
from genlab.llm import backends


def print_line(line: str) -> None:
    """Print a line on standard error."""
    print(line, file=sys.stderr, flush=True)


def check(settings: Settings) -> None:
    """Raise a GenlabError for what a person has to correct before anything can be tried."""
    from genlab.agent.evaluator.datasets import check_data

    backends.check_backend(settings.params)
    if settings.params.mode == "tools" and settings.params.backend == "search":
        raise GenlabError("agent.mode tools needs a language model; choose another agent.backend")
    check_data(settings.goal.dataset, settings.data)


def run(settings: Settings, workspace: Workspace, progress: Progress = print_line) -> Path:
    """Work on the goal until it is reached or a limit is, then report; resumes what is there.

    Returns the report's path. Raises a GenlabError where a person has to correct something; what
    was finished until then is kept.
    """
    from genlab.agent.evaluator.references import measure_references

    params, backend = settings.params, backends.describe_backend(settings.params)
    journal, seed = workspace.root / JOURNAL, settings.seed
    with workspace.lock():
        Registry(workspace).recover()
        with backends.open_backend(params, journal, seed=seed, note=progress) as session:
            coder = session if session and backends.writes_code(params) else None
            with Toolbox(workspace, settings, coder) as toolbox:
                progress("  measuring reference models")
                kept = workspace.experiments / "references.json"
                references = measure_references(toolbox.judge, kept)
                record.write_run(workspace, settings, record.UNFINISHED, backend, references)
                data, outputs = toolbox.data, toolbox.judge.outputs
                sizes = len(data.train), len(data.validation)
                problem = Problem(settings, sizes, data.shape, data.classes, outputs, references)
                loop: Loop | ToolLoop = Loop(problem, toolbox, progress, session)
                if session is not None and params.mode == "tools":
                    loop = ToolLoop(problem, toolbox, progress, session)
                verdict = loop.run()
                Registry(workspace).number_only(loop.attempts)
                test_best(settings, toolbox, loop.attempts, progress)
                spent = session.spent if session else {}
                record.write_run(workspace, settings, verdict, backend, references, spent)
                path = report.write(workspace)
                if params.compare_with_search and params.backend != "search":
                    run_search(problem, workspace, len(loop.attempts), progress)
                    report.write(workspace)
        return path


def test_best(
    settings: Settings, toolbox: Toolbox, attempts: list[Attempt], progress: Progress
) -> None:
    """Measure the best attempt on the test set: once, with the weights of its first seed."""
    from genlab.agent.evaluator.datasets import load_test

    best = leader(attempts, settings)
    if best is None or best.test:
        return
    progress("  the best model on the test set")
    folder = toolbox.workspace.root / best.experiment_dir
    weights = (folder / WEIGHTS).read_bytes()
    source = (folder / CODE).read_text(encoding="utf-8")
    test = load_test(settings.goal.dataset, settings.data)
    try:
        seed = best.seeds[0]["seed"]
        tested = toolbox.judge.test(source, best.model_name, weights, test, seed)
        found: dict[str, Any] = dict(tested)
    except EvaluationError as error:  # recorded, so that the test set is not opened again
        found = {"failure": str(error)}
    Registry(toolbox.workspace).put(best.model_copy(update={"test": found}))


def run_search(problem: Problem, workspace: Workspace, attempts: int, progress: Progress) -> None:
    """Random search with the same number of attempts; reaching the goal early does not end it."""
    settings, beside = problem.settings, Workspace(workspace.root / record.SEARCH)
    if not (beside.root / PROJECT).exists():
        shutil.rmtree(beside.root, ignore_errors=True)  # killed while it was laid out
        lay_out(beside.root, settings.goal, settings.key)
    Registry(beside).recover()
    limits = {"max_iterations": attempts, "patience": max(1, attempts), "max_seconds": 0.0}
    params = settings.params.model_copy(update=limits)
    alone = replace(problem, settings=replace(settings, params=params, stop_at_goal=False))
    with Toolbox(beside, alone.settings, None) as toolbox:
        loop = Loop(alone, toolbox, lambda line: progress(f"search: {line.strip()}"), None)
        loop.run()
    Registry(beside).number_only(loop.attempts)
