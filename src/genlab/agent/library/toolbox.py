"""What the tools act on: a workspace with its parameters, goal, data, judge and language model.

The tools' signatures name no workspace, so one is bound around their calls (`bind_toolbox`).
Without one they act on the nearest workspace upwards of the current folder.
"""

from __future__ import annotations

import atexit
import copy
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from genlab.agent.architecture.template import Size
from genlab.agent.config import Problem, Settings
from genlab.agent.evaluator.results import ModelSummary, SeedResult
from genlab.agent.goals.goal import parse_goal
from genlab.agent.registry import WEIGHTS, Attempt, Registry
from genlab.agent.workspace import PROJECT, Workspace, read_project_goal
from genlab.core.errors import GenlabError
from genlab.core.params import PARAMS_FILE, load_params
from genlab.llm.backends import open_backend, writes_code
from genlab.llm.chat import Backend

if TYPE_CHECKING:  # they need torch
    from genlab.agent.evaluator.datasets import Data, DataSplit
    from genlab.agent.evaluator.judge import ModelJudge
    from genlab.agent.library.trials import Trial

JOURNAL = "tools.jsonl"  # of tools that are called outside of a run


class Toolbox(AbstractContextManager["Toolbox"]):
    """A workspace with what its tools need; data, judge and language model are opened lazily.

    backend: the tools' language model, or a function that opens it; None: there is none. sources:
    workspaces whose trainings are not repeated. look_ahead: called with an evaluation and what it
    has so far, when its next seeds are being trained.
    """

    def __init__(
        self,
        workspace: Workspace,
        settings: Settings,
        backend: Backend | Callable[[ExitStack], Backend | None] | None = None,
        *,
        sources: Sequence[Workspace] = (),
    ) -> None:
        self.workspace, self.settings, self._backend = workspace, settings, backend
        self.params, self.goal = settings.params, settings.goal
        self.sources = sources
        self.evaluated = list[str]()  # run_ids that the evaluator tool has returned, in order
        self.written = dict[Path, str]()  # files that the tool write_file has written
        self.look_ahead: Callable[[Trial, Attempt], None] | None = None
        self.served = set[str]()  # run_ids of the attempts that evaluations have returned
        self._foreseen: dict[tuple[str, int], Future[tuple[SeedResult, bytes]]] = {}
        # Shared with the copy that has no language model.
        self._stack, self._judges = ExitStack(), list["ModelJudge"]()
        self._summaries: dict[Any, ModelSummary] = {}
        self._threads = ThreadPoolExecutor(os.cpu_count())
        self._cancelled = Event()

    @classmethod
    def from_workspace(cls, workspace: Workspace) -> Toolbox:
        """A toolbox as a run has it, with the params.yaml and data of the workspace's project.

        They lie one or two folders above the workspace, or else in the current folder. Its language
        model is opened at its first use, with a journal that is not the run's.
        """
        above = workspace.root.resolve().parents[:2]
        homes = (folder for folder in above if (folder / PARAMS_FILE).is_file())
        home = next(homes, Path.cwd())
        params = load_params(home / PARAMS_FILE)
        agent = params.agent
        goal = read_project_goal(workspace.root) or parse_goal(
            agent.goal, dataset=agent.dataset, own=params.own_images
        )

        def open_session(stack: ExitStack) -> Backend | None:
            # A transcript answers the questions of its run alone.
            if agent.backend == "replay" or not writes_code(agent):
                return None
            path = workspace.root / JOURNAL
            quiet = open_backend(agent, path, seed=params.seed, note=lambda line: None)
            return stack.enter_context(quiet)

        settings = Settings(goal, agent, params.seed, data=home / "data")
        return cls(workspace, settings, open_session)

    @property
    def backend(self) -> Backend | None:
        """The tools' language model."""
        if callable(self._backend):
            self._backend = self._backend(self._stack)
        return self._backend

    def without_backend(self) -> Toolbox:
        """The same toolbox, data and judge included, without a language model."""
        found = copy.copy(self)
        found._backend = None
        return found

    @cached_property
    def data(self) -> Data:
        """The goal's data, of which every training sees the same."""
        from genlab.agent.evaluator.datasets import load_data

        sizes = {"subset": self.params.subset, "validation": self.params.validation}
        return load_data(self.goal.dataset, self.settings.data, **sizes)

    @cached_property
    def test(self) -> DataSplit:
        """The goal's test part, which no planner sees."""
        from genlab.agent.evaluator.datasets import load_test

        return load_test(self.goal.dataset, self.settings.data)

    @property
    def judge(self) -> ModelJudge:
        """A judge on the goal's data; parallel evaluations use `borrow_judge`."""
        with self.borrow_judge() as judge:
            return judge

    @property
    def contract(self) -> tuple[Size, int, str]:
        """What a model has to fit: shape of its input, number of outputs, task."""
        return self.data.shape, self.judge.outputs, self.goal.task

    @contextmanager
    def borrow_judge(self) -> Iterator[ModelJudge]:
        """Hold a judge that no other thread uses; there are as many as parallel evaluations."""
        from genlab.agent.evaluator.judge import ModelJudge

        try:
            judge = self._judges.pop()
        except IndexError:
            task, budget = self.goal.task, self.settings.budget
            options = {"mode": self.params.sandbox, "device": self.params.device}
            # The distance needs features that are learnt once per machine.
            frechet = self.goal.metric == "frechet_distance"
            judge = ModelJudge(
                self.data, task, budget, frechet=frechet, cancelled=self._cancelled, **options
            )
            self._stack.enter_context(judge)
        try:
            yield judge
        finally:
            self._judges.append(judge)

    def inspect(self, source: str, class_name: str, size: Size | None = None) -> ModelSummary:
        """Measure a model in the sandbox; a failure is in the summary.

        With an input size other than the data's it is not checked for the goal's task. Summaries
        are kept: three tools inspect each attempt.
        """
        key = (source, class_name, size)
        if key in self._summaries:
            return self._summaries[key]
        with self.borrow_judge() as judge:
            found = judge.inspect(source, class_name, size or ())
        if not found.failure:  # which may be the fault of a busy machine
            self._summaries[key] = found
        return found

    def describe_problem(self, references: dict[str, dict[str, float]]) -> Problem:
        """What every planner knows of the goal's data, with metrics of reference models."""
        data = self.data
        sizes = len(data.train), len(data.validation)
        outputs = self.judge.outputs
        return Problem(self.settings, sizes, data.shape, data.classes, outputs, references)

    def find_finished(self, digest: str, seed: int) -> tuple[SeedResult, bytes] | None:
        """The training of an evaluation's seed that a source holds; None where none does.

        With the weights of the first seed: those of others are not kept. It has cost no seconds
        here; one that the clock has cut is not taken.
        """
        for source, attempt in self._finished.get(digest, ()):
            results = [SeedResult(**result) for result in attempt.seeds if result["seed"] == seed]
            weights = source.root / attempt.experiment_dir / WEIGHTS
            if results and not results[0].cut and weights.is_file():
                return replace(results[0], seconds=0.0), weights.read_bytes()
        return None

    def start(self, trial: Trial, seed: int) -> Future[tuple[SeedResult, bytes]]:
        """Begin the training of a seed, or join the one that was foreseen.

        As many run at a time as there are cores, over the seeds of all models.
        """
        foreseen = self._foreseen.pop((trial.digest, seed), None)
        return self._threads.submit(trial.train, seed) if foreseen is None else foreseen

    def foresee(self, trial: Trial, seed: int) -> None:
        """Begin a training that an evaluation may want, as soon as a core is free."""
        key = trial.digest, seed
        if key not in self._foreseen:
            self._foreseen[key] = self._threads.submit(trial.train, seed)

    def forget_foreseen(self) -> None:
        """Leave what was foreseen and has not begun."""
        for key, future in list(self._foreseen.items()):
            if future.cancel():
                del self._foreseen[key]

    @cached_property
    def _finished(self) -> dict[str, list[tuple[Workspace, Attempt]]]:
        """Attempts of the sources by their digest."""
        attempts: dict[str, list[tuple[Workspace, Attempt]]] = {}
        for source in self.sources:
            for attempt in Registry(source).read_attempts():
                attempts.setdefault(attempt.digest, []).append((source, attempt))
        return attempts

    def cancel(self) -> None:
        """End the trainings under way, without a result; nothing is trained any more."""
        self._cancelled.set()

    def __exit__(self, *_: object) -> None:
        """End the sandboxes and the language model."""
        self.cancel()
        self._threads.shutdown(cancel_futures=True)
        self._judges.clear()
        self._stack.close()


_bound: ContextVar[Toolbox | None] = ContextVar("toolbox", default=None)
bound_toolbox = _bound.get  # the toolbox of the block around, if there is one


@contextmanager
def bind_toolbox(toolbox: Toolbox) -> Iterator[Toolbox]:
    """Let the tools act on `toolbox` within the block."""
    token = _bound.set(toolbox)
    try:
        yield toolbox
    finally:
        _bound.reset(token)


def current_toolbox() -> Toolbox:
    """The toolbox that is bound, or one of the nearest workspace upwards.

    Raises a GenlabError where there is neither.
    """
    if (found := bound_toolbox()) is not None:
        return found
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / PROJECT).is_file():
            return _open(folder)
    fix = "go to workspaces/<project>, or make one with create_pytorch_project_scaffold"
    raise GenlabError(f"{here} lies in no workspace; {fix}")


@cache
def _open(root: Path) -> Toolbox:
    """One toolbox per workspace and process, so that torch is imported once."""
    found = Toolbox.from_workspace(Workspace(root))
    atexit.register(found.__exit__)
    return found
