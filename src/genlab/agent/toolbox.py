"""What the tools act on: a workspace, and the rooms and models that they share.

The tools' signatures name no workspace, so one is bound around their calls:

    with Toolbox(Workspace(root)) as box, using(box):
        tools.write_file("src/models/current_model.py", code)

Without one they take the nearest workspace upwards of the current folder.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from genlab.agent.llm import Backend
from genlab.agent.quick_evaluator import Evaluator
from genlab.agent.summary import Inspector
from genlab.agent.workspace import EXPERIMENTS, PROJECT, Workspace
from genlab.core.errors import GenlabError
from genlab.core.params import PARAMS_FILE, AgentParams, load_params

PACKAGES = ".packages"  # what pip may put there
KEPT = (str(EXPERIMENTS), PROJECT, "search", "transcript.jsonl", "run.lock", PACKAGES)
"""Names at a workspace's top that are the judge's: no tool writes them, no command reaches them."""


class Toolbox(AbstractContextManager["Toolbox"]):
    """A workspace with what its tools need; the sandbox's worker starts at its first use.

    data: the folder that holds the folders of the datasets; None: `data` beside `workspaces`.
    pip_index: where pip looks, for those who have a mirror; the tools' own callers can't set it.
    """

    def __init__(
        self,
        workspace: Workspace,
        data: Path | None = None,
        backend: Backend | None = None,
        *,
        allow_pip: bool = False,
        max_repairs: int = 2,
        max_parameters: int = 500_000,
        mode: str = "auto",
        devices: tuple[Path, ...] = (),
        pip_index: str = "",
    ) -> None:
        self.workspace = workspace
        self.data = data or workspace.root.resolve().parent.parent / "data"
        self.backend = backend
        self.allow_pip, self.pip_index = allow_pip, pip_index
        self.max_repairs, self.max_parameters = max_repairs, max_parameters
        self.mode, self.devices = mode, devices
        self._evaluator: Evaluator | None = None

    @classmethod
    def of(cls, workspace: Workspace, params: AgentParams, data: Path | None = None) -> Toolbox:
        """A toolbox as the section agent of params.yaml says."""
        return cls(
            workspace,
            data,
            allow_pip=params.allow_pip,
            max_repairs=params.max_repairs,
            max_parameters=params.max_parameters,
            mode=params.sandbox,
        )

    @property
    def evaluator(self) -> Evaluator:
        """Trains and marks."""
        if self._evaluator is None:
            self._evaluator = Evaluator(self.data, mode=self.mode, devices=self.devices)
        return self._evaluator

    @property
    def inspector(self) -> Inspector:
        """Builds and describes, in the evaluator's worker."""
        return Inspector(worker=self.evaluator.worker)

    def writable(self, path: str | Path) -> Path:
        """`path` in the workspace, where a tool may write. Raises GenlabError elsewhere."""
        found = self.workspace.inside(path)
        parts = found.relative_to(self.workspace.root.resolve()).parts
        if not parts:
            raise GenlabError(f"{path}: that is the workspace itself; name a file in it")
        if parts[0] in KEPT:
            raise GenlabError(
                f"{path}: {parts[0]} is the judge's, tools do not write there; choose another path,"
                " such as one in src"
            )
        return found

    def close(self) -> None:
        if self._evaluator is not None:
            self._evaluator.close()
            self._evaluator = None

    def __exit__(self, *_: object) -> None:
        self.close()


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

    Raises GenlabError where there is neither.
    """
    found = _bound.get()
    if found is not None:
        return found
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / PROJECT).is_file():
            return _nearest(folder)
    raise GenlabError(
        f"{here} lies in no workspace; go to workspaces/<project>, or make one with"
        " create_pytorch_project_scaffold"
    )


@cache
def _nearest(root: Path) -> Toolbox:
    """One toolbox a workspace and process, so that torch is imported once.

    Its params stand beside the folder of workspaces, where its data do; the usual ones, where that
    is no repository.
    """
    path = root.resolve().parent.parent / PARAMS_FILE
    workspace = Workspace(root)
    found = Toolbox.of(workspace, load_params(path).agent) if path.exists() else Toolbox(workspace)
    atexit.register(found.close)
    return found
