"""What the tools act on: a workspace with its parameters, goal, data, judge and language model.

The tools' signatures name no workspace, so one is bound around their calls:

    with Toolbox(workspace, params, goal, data=Path("data")) as toolbox, using(toolbox):
        write_file("src/models/current_model.py", code)

Without one they act on the nearest workspace upwards of the current folder.
"""

from __future__ import annotations

import atexit
import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from genlab.agent.goals import Goal, parse_goal
from genlab.agent.workspace import PROJECT, Workspace, goal_of
from genlab.core.errors import GenlabError
from genlab.core.params import PARAMS_FILE, AgentParams, load_params

if TYPE_CHECKING:
    from genlab.agent.evaluator.datasets import Data
    from genlab.agent.evaluator.judge import Budget, Judge, Summary
    from genlab.llm.chat import Backend

TOOLS_JOURNAL = "tools.jsonl"  # of tools that are called on their own
NO_WORKSPACE = "go to workspaces/<project>, or make one with create_pytorch_project_scaffold"


class Toolbox(AbstractContextManager["Toolbox"]):
    """A workspace with what its tools need; data, judge and language model are opened lazily.

    data: the folder that holds the folders of the datasets. backend: the tools' language model, or
    a function that opens it at its first use; None: there is none. pip_index: a mirror for pip.
    """

    def __init__(
        self,
        workspace: Workspace,
        params: AgentParams,
        goal: Goal,
        *,
        data: Path,
        backend: Backend | Callable[[ExitStack], Backend | None] | None = None,
        threads: int = 1,
        pip_index: str = "",
    ) -> None:
        self.workspace, self.params, self.goal = workspace, params, goal
        self.data_folder, self.threads, self.pip_index = data, threads, pip_index
        self._backend, self._shared = backend, _Shared()

    @classmethod
    def of_workspace(cls, workspace: Workspace) -> Toolbox:
        """A toolbox as a run has it: params.yaml and data lie two folders above the workspace.

        Its language model is opened at its first use, with a journal that is not the run's.
        """
        home = workspace.root.resolve().parent.parent
        params = load_params(home / PARAMS_FILE)
        agent = params.agent
        goal = goal_of(workspace.root) or parse_goal(agent.goal, dataset=agent.dataset)

        def open_session(stack: ExitStack) -> Backend | None:
            from genlab.llm.backends import open_backend

            if agent.backend == "replay":  # a transcript answers the questions of its run alone
                return None
            path = workspace.root / TOOLS_JOURNAL
            session = stack.enter_context(open_backend(agent, path, seed=params.seed))
            return None if session is None else session.backend

        return cls(
            workspace, agent, goal, data=home / "data", backend=open_session, threads=params.threads
        )

    @property
    def backend(self) -> Backend | None:
        """The tools' language model."""
        if callable(self._backend):
            self._backend = self._backend(self._shared.stack)
        return self._backend

    def without_backend(self) -> Toolbox:
        """The same toolbox, data and judge included, without a language model."""
        found = copy.copy(self)
        found._backend = None
        return found

    @property
    def data(self) -> Data:
        """The goal's data, of which every training sees the same."""
        with self._shared.lock:
            if self._shared.data is None:
                from genlab.agent.evaluator.datasets import load_data

                params = self.params
                self._shared.data = load_data(
                    self.goal.dataset,
                    self.data_folder,
                    subset=params.subset,
                    validation=params.validation,
                )
            return self._shared.data

    @property
    def budget(self) -> Budget:
        """The budget of every training, by the parameters and the constraints of the goal."""
        from genlab.agent.evaluator.judge import Budget

        params, goal = self.params, self.goal
        return Budget(
            examples=params.examples,
            max_parameters=min(params.max_parameters, goal.max_parameters or params.max_parameters),
            seconds=min(params.time_limit, goal.max_seconds or params.time_limit),
        )

    @property
    def judge(self) -> Judge:
        """A judge of the goal's data; for parallel evaluations see `borrow_judge`."""
        with self.borrow_judge() as judge:
            return judge

    @contextmanager
    def borrow_judge(self) -> Iterator[Judge]:
        """Hold a judge that no other thread uses; their number is that of parallel evaluations."""
        free = self._shared.free
        try:
            judge = free.pop()
        except IndexError:
            from genlab.agent.evaluator.judge import Judge

            params = self.params
            judge = Judge(
                self.data,
                self.goal.task,
                self.budget,
                mode=params.sandbox,
                device=params.device,
                threads=self.threads,
            )
            self._shared.stack.enter_context(judge)
        try:
            yield judge
        finally:
            free.append(judge)

    def inspect(
        self, source: str, class_name: str, input_size: tuple[int, int, int] | None = None
    ) -> Summary:
        """Build a model in the sandbox and measure it; a failure is in the summary.

        input_size: channels, height and width other than those of the data; the model is then
        only described, and not checked for the goal's task. Summaries are kept: an attempt is
        inspected by three tools.
        """
        key = (source, class_name, input_size)
        found = self._shared.summaries.get(key)
        if found is None:
            with self.borrow_judge() as judge:
                found = judge.inspect(source, class_name, input_size, check=input_size is None)
            if not found.failure:  # which may be the fault of a busy machine
                self._shared.summaries[key] = found
        return found

    def close(self) -> None:
        """End the sandboxes and the language model."""
        self._shared.free.clear()
        self._shared.stack.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class _Shared:
    """What a toolbox and its copy without a language model have in common."""

    def __init__(self) -> None:
        self.lock, self.stack = Lock(), ExitStack()
        self.data: Data | None = None
        self.free: list[Judge] = []
        self.summaries: dict[tuple[str, str, tuple[int, int, int] | None], Summary] = {}


_bound: ContextVar[Toolbox | None] = ContextVar("toolbox", default=None)


@contextmanager
def using(toolbox: Toolbox) -> Iterator[Toolbox]:
    """Let the tools act on `toolbox` within the block."""
    token = _bound.set(toolbox)
    try:
        yield toolbox
    finally:
        _bound.reset(token)


def bound() -> Toolbox | None:
    """The toolbox of the block around, if there is one."""
    return _bound.get()


def current() -> Toolbox:
    """The toolbox that is bound, or one of the nearest workspace upwards.

    Raises a GenlabError where there is neither.
    """
    found = _bound.get()
    return _nearest(nearest_workspace()) if found is None else found


def nearest_workspace() -> Path:
    """The nearest folder upwards that is a workspace. Raises a GenlabError where there is none."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / PROJECT).is_file():
            return folder
    raise GenlabError(f"{here} lies in no workspace; {NO_WORKSPACE}")


@cache
def _nearest(root: Path) -> Toolbox:
    """One toolbox per workspace and process, so that torch is imported once."""
    found = Toolbox.of_workspace(Workspace(root))
    atexit.register(found.close)
    return found
