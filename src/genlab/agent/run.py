"""A whole run: references, the loop, its best model on the test set, search beside it, the report.

Everything can be stopped and started again: what is in the journal and the registry is not done
again.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from genlab.agent import record, report
from genlab.agent.config import Settings
from genlab.agent.loop import Loop, leader
from genlab.agent.planner import LLMPlanner, Planner, SearchPlanner
from genlab.agent.progress import Progress
from genlab.agent.prompts import Problem
from genlab.agent.registry import CODE, WEIGHTS, Attempt, Registry
from genlab.agent.tool_loop import ToolLoop
from genlab.agent.tools.toolbox import Toolbox
from genlab.agent.workspace import PROJECT, Workspace, lay_out
from genlab.core.errors import GenlabError
from genlab.llm.backends import (
    check_backend,
    describe_backend,
    open_backend,
    writes_code,
)
from genlab.llm.chat import Backend
from genlab.llm.journal import Journal

JOURNAL = "transcript.jsonl"


def check(settings: Settings) -> None:
    """Raise a GenlabError for what a person has to correct before anything can be tried."""
    from genlab.agent.evaluator.datasets import check_data

    check_backend(settings.params)
    if settings.params.mode == "tools" and settings.params.backend == "search":
        raise GenlabError("agent.mode tools needs a language model; choose another agent.backend")
    check_data(settings.goal.dataset, settings.data)


def run(settings: Settings, workspace: Workspace, progress: Progress) -> Path:
    """Work on the goal until it is reached or a limit is, then report; resumes what is there.

    Returns the report's path. Raises a GenlabError where a person has to correct something; what
    was finished until then is kept.
    """
    params, backend = settings.params, describe_backend(settings.params)
    with workspace.lock():
        Registry(workspace).recover()
        with open_backend(
            params, workspace.root / JOURNAL, seed=settings.seed, note=progress.note
        ) as session:
            coder = session if session and writes_code(params) else None
            with _toolbox(settings, workspace, coder) as toolbox:
                problem = state_problem(settings, toolbox, progress)
                references = problem.references
                record.write_run(workspace, settings, record.UNFINISHED, backend, references)
                verdict, attempts = work(settings, toolbox, problem, session, progress)
                test_best(settings, toolbox, attempts, progress)
                if params.compare_with_search and params.backend != "search":
                    run_search(settings, workspace, len(attempts), references, progress)
        record.write_run(workspace, settings, verdict, backend, references)
        progress.step("")
        return report.write(workspace)


def work(
    settings: Settings,
    toolbox: Toolbox,
    problem: Problem,
    session: Journal | None,
    progress: Progress,
) -> tuple[str, list[Attempt]]:
    """Run the loop of the mode; returns the verdict and the attempts."""
    if session is not None and settings.params.mode == "tools":
        by_tools = ToolLoop(settings, toolbox, problem, progress, session)
        return by_tools.run(), by_tools.attempts
    planner: Planner = SearchPlanner(problem)
    if session is not None:
        small = settings.params.backend == "embedded" and not settings.params.gguf
        planner = LLMPlanner(problem, session, small=small)
    loop = Loop(settings, toolbox, planner, progress, session)
    return loop.run(), loop.attempts


def state_problem(
    settings: Settings,
    toolbox: Toolbox,
    progress: Progress,
    references: dict[str, dict[str, float]] | None = None,
) -> Problem:
    """What planners know; reference models are measured once per workspace."""
    from genlab.agent.evaluator.references import measure_references

    data, judge = toolbox.data, toolbox.judge
    if references is None:
        progress.step("measuring reference models")
        path = toolbox.workspace.experiments / "references.json"
        references = measure_references(judge, path)
    return Problem(settings, data.shape, data.classes, judge.outputs, references)


def test_best(
    settings: Settings, toolbox: Toolbox, attempts: list[Attempt], progress: Progress
) -> None:
    """Measure the best attempt on the test set: once, with the weights of its first seed."""
    from genlab.agent.evaluator.datasets import load_test
    from genlab.agent.evaluator.judge import EvaluationError

    best = leader(attempts, settings)
    if best is None or best.test:
        return
    progress.step("the best model on the test set")
    folder = toolbox.workspace.root / best.experiment_dir
    try:
        weights = (folder / WEIGHTS).read_bytes()
        source = (folder / CODE).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise GenlabError(
            f"{error.filename} is missing; remove {folder} and run the agent again"
        ) from error
    test = load_test(settings.goal.dataset, settings.data)
    try:
        found: dict[str, Any] = dict(toolbox.judge.test(source, best.model_name, weights, test))
    except EvaluationError as error:  # recorded, so that the test set is not opened again
        found = {"failure": str(error)}
    tested = best.model_copy(update={"test": found})
    Registry(toolbox.workspace).put(tested)
    attempts[attempts.index(best)] = tested


def run_search(
    settings: Settings,
    workspace: Workspace,
    attempts: int,
    references: dict[str, dict[str, float]],
    progress: Progress,
) -> None:
    """Random search with the same number of attempts; reaching the goal early does not end it."""
    beside = Workspace(workspace.root / record.SEARCH)
    if not (beside.root / PROJECT).exists():
        shutil.rmtree(beside.root, ignore_errors=True)  # killed while it was laid out
        lay_out(beside.root, settings.goal, settings.key)
    Registry(beside).recover()
    limits = {"max_iterations": attempts, "patience": max(1, attempts), "max_seconds": 0.0}
    params = settings.params.model_copy(update=limits)
    alone = replace(settings, params=params, stop_at_goal=False)
    progress.note(f"random search, for comparison: {attempts} attempts")
    with _toolbox(alone, beside, None) as toolbox:
        problem = state_problem(alone, toolbox, progress, references)
        Loop(alone, toolbox, SearchPlanner(problem), _Steps(progress)).run()


class _Steps(Progress):
    """Passes on the steps of search; its attempts are in the report."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def step(self, what: str) -> None:
        self._progress.step(f"search: {what}" if what else "")


def _toolbox(settings: Settings, workspace: Workspace, backend: Backend | None) -> Toolbox:
    return Toolbox(workspace, settings, backend)
