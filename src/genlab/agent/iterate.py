"""The attempts of a run: reference models, the loop, its best model on the test set.

Everything can be stopped and started again: what is in the journal and the registry is not done
again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from genlab.agent.config import Problem, Settings
from genlab.agent.decisions import leader
from genlab.agent.evaluator.results import EvaluationError
from genlab.agent.llm_planner import LLMPlanner
from genlab.agent.loop import Loop, Progress
from genlab.agent.planner import Planner
from genlab.agent.random_search import find_sources
from genlab.agent.registry import CODE, WEIGHTS, Attempt, Registry
from genlab.agent.tool_loop import ToolLoop
from genlab.agent.tools.toolbox import Toolbox
from genlab.agent.workspace import JOURNAL, Workspace
from genlab.llm import backends
from genlab.llm.journal import Journal


@dataclass
class Work:
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
                planner = LLMPlanner(self.problem, self.session, small=small)
            loop = Loop(self.problem, self.toolbox, self.progress, self.session, planner=planner)
        verdict = loop.run()
        Registry(self.toolbox.workspace).number_only(loop.attempts)
        self.test_best(loop.attempts)
        return verdict, loop.attempts

    def test_best(self, attempts: list[Attempt]) -> None:
        """Measure the best attempt on the test set: once, with the weights of its first seed."""
        from genlab.agent.evaluator.datasets import load_test

        best = leader(attempts, self.settings)
        if best is None or best.test:
            return
        self.progress("  the best model on the test set")
        folder = self.toolbox.workspace.root / best.experiment_dir
        weights = (folder / WEIGHTS).read_bytes()
        source = (folder / CODE).read_text(encoding="utf-8")
        test = load_test(self.settings.goal.dataset, self.settings.data)
        seed = best.seeds[0]["seed"]
        try:
            metrics = dict(self.toolbox.judge.test(source, best.model_name, weights, test, seed))
        except EvaluationError as error:  # recorded, so that the test set is not opened again
            metrics = {"failure": str(error)}
        Registry(self.toolbox.workspace).put(best.model_copy(update={"test": metrics}))


@contextmanager
def open_work(settings: Settings, workspace: Workspace, progress: Progress) -> Iterator[Work]:
    """Open journal, data and judge of a run in its workspace, and measure the reference models."""
    from genlab.agent.evaluator.references import measure_references

    params = settings.params
    Registry(workspace).recover()
    journal = workspace.root / JOURNAL
    with backends.open_backend(params, journal, seed=settings.seed, note=progress) as session:
        coder = session if session and backends.writes_code(params) else None
        with Toolbox(workspace, settings, coder, sources=find_sources(settings)) as toolbox:
            progress("  measuring reference models")
            judge = toolbox.judge
            references = measure_references(judge, workspace.experiments / "references.json")
            yield Work(toolbox.describe_problem(references), toolbox, session, progress)
