"""A project of the agent: its folders, and the wall around them.

    workspaces/<project_name>/
        src/models/current_model.py
        configs/models/current_model_config.yaml
        experiments/registry.json
        experiments/<run_id>/{model_config.yaml, model_code.py, summary.json, results.json}
        requirements.txt
        project.json                     the goal that it was opened for

A workspace is work, never an out of the pipeline: DVC deletes outs before a stage starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from filelock import FileLock, Timeout

from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json, write_text

PROJECT = "project.json"
PROJECT_KIND = "agent project"
MODEL = Path("src/models/current_model.py")
CONFIG = Path("configs/models/current_model_config.yaml")
EXPERIMENTS = Path("experiments")
LOCK = "run.lock"
REBUILD = "python -m genlab.agent rebuild"
REQUIREMENTS = "torch\ntorchinfo\n"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
LONGEST_SLUG = 40
CLOCK = "%Y%m%d_%H%M%S"


@dataclass(frozen=True)
class Workspace:
    """The project in the folder `root`."""

    root: Path

    @property
    def experiments(self) -> Path:
        """Folder of all attempts."""
        return self.root / EXPERIMENTS

    def inside(self, path: str | Path) -> Path:
        """`path`, relative to the workspace or absolute, with every link followed.

        Raises GenlabError where that leads out of the workspace.
        """
        root = self.root.resolve()
        if "\0" in str(path):
            raise GenlabError(f"{str(path)!r}: no path holds a zero byte; choose another path")
        found = (root / path).resolve()
        if not found.is_relative_to(root):
            raise GenlabError(
                f"{path}: leads out of the workspace {self.root}; choose a path inside it"
            )
        return found

    def relative(self, path: Path) -> str:
        """`path` as it is told to people and to an LLM."""
        return str(path.resolve().relative_to(self.root.resolve()))

    def new_run(self, now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)) -> Path:
        """A fresh folder of an attempt; its name is the run_id, told apart within a second too."""
        stem = f"qe_{now().strftime(CLOCK)}"
        self.experiments.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            folder = self.experiments / (stem if number == 1 else f"{stem}_{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                number += 1
            else:
                return folder


def scaffold(name: str, base: str | Path = ".", goal: str = "") -> Workspace:
    """Open the project `workspaces/<name>/` under `base`.

    Raises GenlabError where `name` is no plain name, or where that folder holds something.
    """
    if not NAME.fullmatch(name):
        raise GenlabError(
            f"project name must be letters, digits, - and _, at most 64, got {name!r}; choose"
            " another name"
        )
    return lay_out(Path(base) / "workspaces" / name, goal)


def lay_out(root: Path, goal: str = "", key: str = "") -> Workspace:
    """Make the folders of a project in `root`. Raises GenlabError where it holds something."""
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise GenlabError(f"{root} isn't empty; choose another name, or remove it yourself")
    for folder in (MODEL.parent, CONFIG.parent, EXPERIMENTS):
        (root / folder).mkdir(parents=True, exist_ok=True)
    write_text(root / MODEL, "")
    write_text(root / CONFIG, "")
    write_text(root / "requirements.txt", REQUIREMENTS)
    write_json(root / EXPERIMENTS / "registry.json", [])
    # Last: a folder without it was not opened whole, and is nobody's project.
    sign(root, goal, key)
    return Workspace(root)


def sign(root: Path, goal: str, key: str) -> None:
    """Write down what the project in `root` is for."""
    write_json(root / PROJECT, {"kind": PROJECT_KIND, "version": 1, "goal": goal, "key": key})


def open_for(goal: str, base: str | Path = ".") -> Workspace:
    """The workspace of `goal`: the one that was opened for it, or else a new one."""
    return open_in(Path(base) / "workspaces", goal)


def open_in(folder: Path, goal: str, key: str = "") -> Workspace:
    """The workspace in `folder` that was opened for `goal` under `key`, or else a new one.

    key: what besides the goal has to be the same, so that attempts can be compared.
    """
    stem, number = slug(goal), 1
    while True:
        root = folder / (stem if number == 1 else f"{stem}-{number}")
        if not root.exists() or (root.is_dir() and not any(root.iterdir())):
            return lay_out(root, goal, key)
        if goal_of(root) == goal and key_of(root) == key:
            return Workspace(root)
        number += 1


@contextmanager
def alone(workspace: Workspace) -> Iterator[None]:
    """Hold the workspace. Raises GenlabError where another run works in it."""
    lock = FileLock(workspace.experiments / LOCK, timeout=0)
    try:
        with lock:
            yield
    except Timeout as error:
        raise GenlabError(
            f"{workspace.root} is being worked in by another run; wait for it or end it"
        ) from error


def goal_of(root: Path) -> str | None:
    """The goal that a project was opened for; None where the folder holds no project."""
    return _project(root).get("goal")


def key_of(root: Path) -> str | None:
    """The key beside its goal; None where the folder holds no project."""
    return _project(root).get("key")


def _project(root: Path) -> dict[str, str]:
    if not (root / PROJECT).is_file():
        return {}
    found = read_json(root / PROJECT, producer_command=f"{REBUILD} {root}", kind=PROJECT_KIND)
    return {name: str(found.get(name, "")) for name in ("goal", "key")}


def slug(goal: str) -> str:
    """A project's name from its goal."""
    words = re.sub(r"[^a-z0-9]+", "-", goal.lower()).strip("-")
    return words[:LONGEST_SLUG].rstrip("-") or "project"
