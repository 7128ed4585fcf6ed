"""A whole run: the loop, its best on all seeds and on the test part, search beside it, the report.

Everything is resumed: what a registry holds already is not done again.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from genlab.agent import backends, exam, report
from genlab.agent.attempt import attempts, leader, mended
from genlab.agent.comparison import Comparison, compared, search_workspace
from genlab.agent.lab import Lab
from genlab.agent.loop import BY_BASELINE, Outcome, iterate
from genlab.agent.progress import Progress
from genlab.agent.registry import Registry
from genlab.agent.seeds import confirmed, examined
from genlab.agent.settings import Settings
from genlab.agent.story import RUN_KIND, run_file
from genlab.agent.workspace import PROJECT, Workspace, key_of, lay_out
from genlab.core.io import write_json

UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Finished:
    """A run, search beside it where that was asked for, and the report of both."""

    outcome: Outcome
    comparison: Comparison | None
    report: Path


def check(settings: Settings) -> None:
    """Raise what a person has to mend before anything can be tried; no workspace is needed."""
    backends.check(settings.params)
    exam.check(settings.goal.dataset, settings.data)


def run(settings: Settings, workspace: Workspace, say: Progress) -> Finished:
    """Work on the goal until the loop ends, then tell how; resumes what is there.

    Raises GenlabError where a person has to mend something; what was done until then is kept.
    """
    params = settings.params
    able = backends.writes_code(params)
    # What cannot write code is of demo grade: progress must not depend on what it plans.
    settings = replace(settings, llm_code=settings.llm_code and able, relief=not able)
    _tell(settings, workspace, UNFINISHED)
    known = attempts(mended(workspace))
    start = known[-1].place if known else 0
    with Lab(settings.data, params.sandbox) as lab:
        with backends.opened(params, workspace, say, seed=settings.seed, start=start) as backend:
            outcome = iterate(settings, backend, workspace, say, lab)
        best = _finished(settings, workspace, outcome, lab, say, test=True)
        asked = params.compare_with_search and params.backend != "search"
        if asked and outcome.verdict != BY_BASELINE:
            _search(settings, workspace, len(outcome.attempts), lab, say)
    _tell(settings, workspace, outcome.verdict)
    say.step("")
    told = report.write(workspace)
    return Finished(best, compared(settings, workspace), told)


def _finished(
    settings: Settings,
    workspace: Workspace,
    outcome: Outcome,
    lab: Lab,
    say: Progress,
    *,
    test: bool,
) -> Outcome:
    """The outcome, with its best on all seeds, and on the test part where that is its turn."""
    best = outcome.best
    if best is None:
        return outcome
    more = best
    if len(best.checked) < len(settings.seeds):
        more = confirmed(lab, settings, workspace, best, say.step)
    if test and not best.test:
        say.step("the best one on the test part")
        more = examined(lab, settings, workspace, more)
    if more is not best:
        Registry(workspace).put(more)
    found = [more if each.run_id == more.run_id else each for each in outcome.attempts]
    return replace(outcome, attempts=found, best=leader(found, settings.goal, settings.seeds))


def _search(settings: Settings, workspace: Workspace, budget: int, lab: Lab, say: Progress) -> None:
    """As many attempts by search, none of them saved by reaching the goal early."""
    beside = search_workspace(workspace)
    if not (beside.root / PROJECT).exists():
        shutil.rmtree(beside.root, ignore_errors=True)  # a kill came between: nothing is in it
        lay_out(beside.root, settings.goal.text)
    params = settings.params.model_copy(
        update={"max_iterations": budget, "patience": budget, "max_seconds": 0.0}
    )
    chance = replace(settings, params=params, stop_at_goal=False)
    say.line(f"search, for comparison: {budget} attempts")
    outcome = iterate(chance, None, beside, Within(say), lab)
    _finished(settings, beside, outcome, lab, say, test=False)


class Within:
    """Progress of something within a run: steps are shown, attempts only as lines."""

    def __init__(self, say: Progress) -> None:
        self._say, self._number = say, 0

    def begin(self, number: int, most: int) -> None:
        self._number = number

    def step(self, what: str) -> None:
        self._say.step(f"search, attempt {self._number}: {what}")

    def attempt(self, attempt: Any) -> None:
        """Search's attempts stand in the report."""

    def line(self, text: str) -> None:
        self._say.line(text)


def _tell(settings: Settings, workspace: Workspace, verdict: str) -> None:
    """Write down what the report has to know beside the registry."""
    write_json(
        run_file(workspace),
        {
            "kind": RUN_KIND,
            "version": 1,
            "verdict": verdict,
            "key": key_of(workspace.root),
            "backend": backends.described(settings.params),
            "settings": settings.told(),
        },
    )
