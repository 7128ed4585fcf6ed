"""What the tools act on: a workspace with its parameters, goal, data, evaluator and language model.

The tools' signatures name no workspace, so a toolbox is bound around their calls (`bind_toolbox`).
Without one they act on the workspace that holds the current folder.
"""

from __future__ import annotations

import atexit
import copy
from collections.abc import Callable, Iterator, Sequence
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
from genlab.agent.goals.parser import parse_goal
from genlab.agent.library.training_pool import TrainedSeed, TrainingPool
from genlab.agent.registry import WEIGHTS, Attempt, Registry
from genlab.agent.workspace import PROJECT, Workspace, read_project_goal
from genlab.core.errors import GenlabError
from genlab.core.params import PARAMS_FILE, load_params
from genlab.llm.backends import open_backend, writes_code
from genlab.llm.chat import Backend

if TYPE_CHECKING:  # they need torch
    from genlab.agent.evaluator.datasets import Data, DataSplit
    from genlab.agent.evaluator.model_evaluator import ModelEvaluator

JOURNAL = "tools.jsonl"  # questions and answers of tools that are called outside of a run


class Toolbox(AbstractContextManager["Toolbox"]):
    """A workspace with what its tools need; data, evaluator and language model are opened lazily.

    backend: the tools' language model, or a function that opens it; None where there is none.
    sources: other workspaces, whose finished trainings are taken instead of being repeated.
    """

    def __init__(
        self,
        workspace: Workspace,
        settings: Settings,
        backend: Backend | Callable[[ExitStack], Backend | None] | None = None,
        *,
        sources: Sequence[Workspace] = (),
    ) -> None:
        self.workspace = workspace
        self.settings = settings
        self.params = settings.params
        self.goal = settings.goal
        self.sources = sources
        self.evaluated_run_ids = list[str]()  # that the evaluator tool has returned, in order
        self.written_files = dict[Path, str]()  # by the tool write_file
        self.returned_run_ids = set[str]()  # of the attempts that trials have returned
        self._backend = backend
        # Shared with the copy that has no language model.
        self.trainings = TrainingPool()
        self._stack = ExitStack()
        self._idle_evaluators = list["ModelEvaluator"]()
        self._summaries: dict[Any, ModelSummary] = {}
        self._cancelled = Event()

    @classmethod
    def from_workspace(cls, workspace: Workspace) -> Toolbox:
        """Open a toolbox as a run has it, with the params.yaml and data of the workspace's project.

        They lie one or two folders above the workspace, or else in the current folder. Its language
        model is opened at its first use, with a journal that is not the run's.
        """
        parents = workspace.root.resolve().parents[:2]
        projects = (folder for folder in parents if (folder / PARAMS_FILE).is_file())
        project = next(projects, Path.cwd())
        params = load_params(project / PARAMS_FILE)
        agent = params.agent
        goal = read_project_goal(workspace.root) or parse_goal(
            agent.goal, dataset=agent.dataset, own_datasets=params.own_images
        )

        def open_session(stack: ExitStack) -> Backend | None:
            # A transcript answers the questions of its run alone.
            if agent.backend == "replay" or not writes_code(agent):
                return None
            path = workspace.root / JOURNAL
            session = open_backend(agent, path, seed=params.seed, note=lambda line: None)
            return stack.enter_context(session)

        settings = Settings(goal, agent, params.seed, data=project / "data")
        return cls(workspace, settings, open_session)

    @property
    def backend(self) -> Backend | None:
        """The tools' language model."""
        if callable(self._backend):
            self._backend = self._backend(self._stack)
        return self._backend

    def without_backend(self) -> Toolbox:
        """Return the same toolbox, data and evaluator included, without a language model."""
        toolbox = copy.copy(self)
        toolbox._backend = None
        return toolbox

    @cached_property
    def data(self) -> Data:
        """The goal's training and validation data, the same for every training."""
        from genlab.agent.evaluator.datasets import load_data

        sizes = {"subset": self.params.subset, "validation": self.params.validation}
        return load_data(self.goal.dataset, self.settings.data, **sizes)

    @cached_property
    def test(self) -> DataSplit:
        """The goal's test split, which no planner sees."""
        from genlab.agent.evaluator.datasets import load_test

        return load_test(self.goal.dataset, self.settings.data)

    @property
    def evaluator(self) -> ModelEvaluator:
        """An evaluator on the goal's data, for one thread; parallel ones use `borrow_evaluator`."""
        with self.borrow_evaluator() as evaluator:
            return evaluator

    @property
    def contract(self) -> tuple[Size, int, str]:
        """What a model must fit: shape of an input, number of outputs, task."""
        return self.data.shape, self.evaluator.outputs, self.goal.task

    @contextmanager
    def borrow_evaluator(self) -> Iterator[ModelEvaluator]:
        """Hold an evaluator that no other thread uses; an idle one, or else a new one."""
        from genlab.agent.evaluator.model_evaluator import ModelEvaluator

        try:
            evaluator = self._idle_evaluators.pop()
        except IndexError:
            evaluator = ModelEvaluator(
                self.data,
                self.goal.task,
                self.settings.budget,
                # The distance needs features that are learnt once per machine.
                frechet=self.goal.metric == "frechet_distance",
                cancelled=self._cancelled,
                mode=self.params.sandbox,
                device=self.params.device,
            )
            self._stack.enter_context(evaluator)
        try:
            yield evaluator
        finally:
            self._idle_evaluators.append(evaluator)

    def inspect(self, source: str, class_name: str, size: Size | None = None) -> ModelSummary:
        """Measure a model in the sandbox; a failure is in the summary.

        With an input size other than the data's, the model is not checked for the goal's task.
        Summaries are cached: three tools inspect each attempt.
        """
        key = (source, class_name, size)
        if key in self._summaries:
            return self._summaries[key]
        with self.borrow_evaluator() as evaluator:
            summary = evaluator.inspect(source, class_name, size or ())
        if not summary.failure:  # which may be the fault of a busy machine
            self._summaries[key] = summary
        return summary

    def describe_problem(self, references: dict[str, dict[str, float]]) -> Problem:
        """Describe the goal's data to a planner, with the metrics of reference models."""
        data = self.data
        return Problem(
            self.settings,
            sizes=(len(data.train), len(data.validation)),
            shape=data.shape,
            classes=data.classes,
            outputs=self.evaluator.outputs,
            references=references,
        )

    def find_finished(self, digest: str, seed: int) -> TrainedSeed | None:
        """Find the training of a trial's seed in the sources; None where none has it.

        The weights are those of the first seed, the only ones that are stored. The result counts 0
        seconds here. A training that the time limit ended early is not taken.
        """
        for source, attempt in self._attempts_of_sources.get(digest, ()):
            results = [SeedResult(**result) for result in attempt.seeds if result["seed"] == seed]
            weights = source.root / attempt.experiment_dir / WEIGHTS
            if results and not results[0].cut and weights.is_file():
                return replace(results[0], seconds=0.0), weights.read_bytes()
        return None

    @cached_property
    def _attempts_of_sources(self) -> dict[str, list[tuple[Workspace, Attempt]]]:
        """Attempts of the sources by digest, each with its workspace."""
        attempts: dict[str, list[tuple[Workspace, Attempt]]] = {}
        for source in self.sources:
            for attempt in Registry(source).read_attempts():
                attempts.setdefault(attempt.digest, []).append((source, attempt))
        return attempts

    def cancel(self) -> None:
        """End the trainings under way, without a result; no other one starts."""
        self._cancelled.set()

    def __exit__(self, *_: object) -> None:
        """End the sandboxes and the language model."""
        self.cancel()
        self.trainings.shut_down()
        self._idle_evaluators.clear()
        self._stack.close()


_bound: ContextVar[Toolbox | None] = ContextVar("toolbox", default=None)


def bound_toolbox() -> Toolbox | None:
    """Return the toolbox of the enclosing `bind_toolbox`; None outside of one."""
    return _bound.get()


@contextmanager
def bind_toolbox(toolbox: Toolbox) -> Iterator[Toolbox]:
    """Let the tools act on `toolbox` within the block."""
    token = _bound.set(toolbox)
    try:
        yield toolbox
    finally:
        _bound.reset(token)


def current_toolbox() -> Toolbox:
    """Return the bound toolbox, or else one of the workspace that holds the current folder.

    Raises a GenlabError where there is neither.
    """
    toolbox = bound_toolbox()
    if toolbox is not None:
        return toolbox
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / PROJECT).is_file():
            return _open(folder)
    fix = "go to workspaces/<project>, or make one with create_pytorch_project_scaffold"
    raise GenlabError(f"{here} lies in no workspace; {fix}")


@cache
def _open(root: Path) -> Toolbox:
    """Open one toolbox per workspace and process, which is closed when the process ends."""
    toolbox = Toolbox.from_workspace(Workspace(root))
    atexit.register(toolbox.__exit__)
    return toolbox
