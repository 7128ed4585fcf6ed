"""The three steps of a run: measure reference models, make attempts, test the best model.

A run can be stopped at any time and resumed: what the journal and the registry hold is not
computed again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from genlab.agent.config import Problem, Settings
from genlab.agent.decisions import compare_with_goal, find_best
from genlab.agent.evaluator.estimates import estimate, summarise
from genlab.agent.evaluator.results import EvaluationError
from genlab.agent.library.toolbox import Toolbox
from genlab.agent.library.trials import name_weights
from genlab.agent.loop import Loop, Progress
from genlab.agent.planning.llm_planner import LLMPlanner
from genlab.agent.planning.planner import Planner
from genlab.agent.random_search import find_finished_searches
from genlab.agent.registry import CODE, WEIGHTS, Attempt, Registry
from genlab.agent.tool_loop import ToolLoop
from genlab.agent.workspace import JOURNAL, SAMPLES, Workspace
from genlab.llm import backends
from genlab.llm.journal import Journal

REPORT_SAMPLES = 64  # images that a generative model draws for the report


@dataclass
class RunContext:
    """An open run: its problem and what it works with.

    session: the journal of the language model; None where the run has none.
    """

    problem: Problem
    toolbox: Toolbox
    session: Journal | None
    progress: Progress

    @property
    def settings(self) -> Settings:
        """The settings of the run."""
        return self.problem.settings

    @property
    def spent(self) -> dict[str, float]:
        """Questions, tokens, seconds and dollars so far."""
        return self.session.spent if self.session else {}

    def make_attempts(self) -> tuple[str, list[Attempt]]:
        """Make attempts until the goal or a limit is reached; returns the verdict and them."""
        params = self.settings.params
        loop: Loop | ToolLoop
        if self.session is not None and params.mode == "tools":
            loop = ToolLoop(self.problem, self.toolbox, self.progress, self.session)
        else:
            planner = self.make_planner()
            loop = Loop(self.problem, self.toolbox, self.progress, self.session, planner=planner)
        verdict = loop.run()
        Registry(self.toolbox.workspace).unnumber_others(loop.attempts)
        self.test_best(loop.attempts)
        return verdict, loop.attempts

    def make_planner(self) -> Planner:
        """Make a planner that asks the language model, or random search where there is none."""
        if self.session is None:
            return Planner(self.problem)
        params = self.settings.params
        small = params.backend == "embedded" and not params.gguf
        return LLMPlanner(self.problem, self.session, self.toolbox, small=small)

    def test_best(self, attempts: list[Attempt]) -> None:
        """Measure the best attempt on the test set, once.

        The weights are those of the new seeds that confirmed it, or else those of its first seed,
        which has no verdict: one training says nothing of another, and this one was chosen.
        """
        best = find_best(attempts, self.settings)
        if best is None or best.test:
            return
        self.progress("  the best model on the test set")
        folder = self.toolbox.workspace.root / best.experiment_dir
        files = {best.seeds[0]["seed"]: WEIGHTS}
        if best.confirmation:
            files = {result["seed"]: name_weights(result["seed"]) for result in best.confirmation}
        source = (folder / CODE).read_text(encoding="utf-8")
        goal = self.settings.goal
        evaluator = self.toolbox.evaluator
        test = self.toolbox.test
        try:
            results = [
                evaluator.test(source, best.model_name, (folder / name).read_bytes(), test, seed)
                for seed, name in files.items()
            ]
            metrics = summarise(results)
            measured = estimate(results, goal.metric)
            if measured is not None and best.confirmation:
                metrics["verdict"] = compare_with_goal(measured, goal)
            if goal.task == "generate":
                weights = (folder / WEIGHTS).read_bytes()
                draws = evaluator.draw(source, best.model_name, weights, REPORT_SAMPLES)
                np.save(self.toolbox.workspace.experiments / SAMPLES, draws, allow_pickle=False)
        except EvaluationError as error:  # recorded, so that the test set is used once
            metrics = {"failure": str(error)}
        registry = Registry(self.toolbox.workspace)
        registry.put(best.model_copy(update={"test": metrics}))
        registry.write()


@contextmanager
def open_run(settings: Settings, workspace: Workspace, progress: Progress) -> Iterator[RunContext]:
    """Open a run in its workspace: journal, data, evaluator, and measured reference models."""
    from genlab.agent.evaluator.references import measure_references

    params = settings.params
    Registry(workspace).recover()
    journal = workspace.root / JOURNAL
    with backends.open_backend(params, journal, seed=settings.seed, note=progress) as session:
        coder = session if session and backends.writes_code(params) else None
        searches = find_finished_searches(settings)
        with Toolbox(workspace, settings, coder, sources=searches) as toolbox:
            progress("  measuring reference models")
            references = measure_references(
                toolbox.evaluator,
                workspace.experiments / "references.json",
                seeds=params.seeds,
                test=toolbox.test,
            )
            yield RunContext(toolbox.describe_problem(references), toolbox, session, progress)
