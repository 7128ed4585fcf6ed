"""The attempts of a run: reference models, the loop, its best model on the test set.

Everything can be stopped and started again: what is in the journal and the registry is not done
again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from genlab.agent.config import Problem, Settings
from genlab.agent.decisions import compare, find_best
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

DRAWN = 64  # samples of a generative model, for the report


@dataclass
class RunContext:
    """A run that is open. session: the journal of its language model; None: there is none."""

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
        """Work until the goal or a limit is reached; returns the verdict and the attempts."""
        params = self.settings.params
        loop: Loop | ToolLoop
        if self.session is not None and params.mode == "tools":
            loop = ToolLoop(self.problem, self.toolbox, self.progress, self.session)
        else:
            planner = Planner(self.problem)
            if self.session is not None:
                small = params.backend == "embedded" and not params.gguf
                planner = LLMPlanner(self.problem, self.session, self.toolbox, small=small)
            loop = Loop(self.problem, self.toolbox, self.progress, self.session, planner=planner)
        verdict = loop.run()
        Registry(self.toolbox.workspace).unnumber_others(loop.attempts)
        self.test_best(loop.attempts)
        return verdict, loop.attempts

    def test_best(self, attempts: list[Attempt]) -> None:
        """Measure the best attempt on the test set, once.

        With the weights of the new seeds that confirmed it, or else with those of its first seed.
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
        judge = self.toolbox.judge
        test = self.toolbox.test
        try:
            results = [
                judge.test(source, best.model_name, (folder / name).read_bytes(), test, seed)
                for seed, name in files.items()
            ]
            metrics = summarise(results)
            if (measured := estimate(results, goal.metric)) is not None:
                metrics["verdict"] = compare(measured, goal)
            if goal.task == "generate":
                weights = (folder / WEIGHTS).read_bytes()
                draws = judge.draw(source, best.model_name, weights, DRAWN)
                np.save(self.toolbox.workspace.experiments / SAMPLES, draws, allow_pickle=False)
        except EvaluationError as error:  # recorded, so that the test set is not opened again
            metrics = {"failure": str(error)}
        registry = Registry(self.toolbox.workspace)
        registry.put(best.model_copy(update={"test": metrics}))
        registry.write()


@contextmanager
def open_run(settings: Settings, workspace: Workspace, progress: Progress) -> Iterator[RunContext]:
    """Open journal, data and judge of a run in its workspace, and measure the reference models."""
    from genlab.agent.evaluator.references import measure_references

    params = settings.params
    Registry(workspace).recover()
    journal = workspace.root / JOURNAL
    with backends.open_backend(params, journal, seed=settings.seed, note=progress) as session:
        coder = session if session and backends.writes_code(params) else None
        with Toolbox(
            workspace, settings, coder, sources=find_finished_searches(settings)
        ) as toolbox:
            progress("  measuring reference models")
            references = measure_references(
                toolbox.judge,
                workspace.experiments / "references.json",
                seeds=params.seeds,
                test=toolbox.test,
            )
            yield RunContext(toolbox.describe_problem(references), toolbox, session, progress)
