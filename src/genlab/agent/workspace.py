"""A project of the agent: its folders, the goal it was opened for, and the lock of its run.

    workspaces/<project_name>/
        src/models/current_model.py
        configs/models/current_model_config.yaml
        experiments/registry.json
        experiments/<run_id>/{model_config.yaml, model_code.py, summary.json, results.json}
        requirements.txt
        project.json                     goal and key

A workspace is never an out of the pipeline: DVC deletes outs before a stage starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from genlab.agent.goals import Goal
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json, write_text

PROJECT, KIND, VERSION = "project.json", "agent project", 2
MODEL = Path("src/models/current_model.py")
CONFIG = Path("configs/models/current_model_config.yaml")
EXPERIMENTS, LOCK = "experiments", "run.lock"
REQUIREMENTS = "torch\ntorchinfo\n"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
SLUG_LENGTH = 40

_locked: set[Path] = set()  # workspaces whose run lock this process holds


@dataclass(frozen=True)
class Workspace:
    """The project in the folder `root`."""

    root: Path

    @property
    def experiments(self) -> Path:
        """Folder of all attempts."""
        return self.root / EXPERIMENTS

    def inside(self, path: str | Path) -> Path:
        """Resolve `path`, relative to the workspace or absolute, following every link.

        Raises a GenlabError where it leads out of the workspace.
        """
        root = self.root.resolve()
        if "\0" in str(path):
            raise GenlabError(f"{str(path)!r}: no path holds a zero byte; choose another path")
        try:
            found = (root / path).resolve()
        except (OSError, RuntimeError) as error:  # a loop of links, a name that is too long
            raise GenlabError(
                f"{str(path)[:100]}: cannot be resolved; choose another path"
            ) from error
        if not found.is_relative_to(root):
            raise GenlabError(
                f"{path}: leads out of the workspace {self.root}; choose a path inside it"
            )
        return found

    def relative(self, path: Path) -> str:
        """`path` relative to the workspace, for people and prompts."""
        return path.resolve().relative_to(self.root.resolve()).as_posix()

    def new_run(self, now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)) -> Path:
        """Make the folder of an attempt; its name, qe_<date>_<time>[_n], is the run_id."""
        stem = f"qe_{now():%Y%m%d_%H%M%S}"
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

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the workspace for a run. Raises a GenlabError where another run holds it."""
        lock, root = FileLock(self.experiments / LOCK, timeout=0), self.root.resolve()
        try:
            lock.acquire()
        except Timeout as error:
            raise GenlabError(
                f"{self.root} is in use by another run; wait for it or stop it"
            ) from error
        _locked.add(root)
        try:
            yield
        finally:
            _locked.discard(root)
            lock.release()

    @property
    def is_locked(self) -> bool:
        """Whether this process holds the workspace, or the one that it lies in."""
        return any(self.root.resolve().is_relative_to(held) for held in _locked)


def scaffold(
    project_name: str, base_dir: str | Path = ".", goal: Goal | None = None, key: str = ""
) -> Workspace:
    """Make the project `workspaces/<project_name>/` under `base_dir`.

    Raises a GenlabError where the name is no plain name, or where that folder holds something.
    """
    if not NAME.fullmatch(project_name):
        raise GenlabError(
            f"project name must be letters, digits, - and _, at most 64, got {project_name!r};"
            " choose another name"
        )
    return lay_out(Path(base_dir) / "workspaces" / project_name, goal, key)


def lay_out(root: Path, goal: Goal | None = None, key: str = "") -> Workspace:
    """Make the folders of a project in `root`. Raises a GenlabError where it holds something."""
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise GenlabError(f"{root} isn't empty; choose another name, or remove it yourself")
    for path in (MODEL, CONFIG):
        write_text(root / path, "")
    write_text(root / "requirements.txt", REQUIREMENTS)
    write_json(root / EXPERIMENTS / "registry.json", [])
    # Last: a folder without it was not laid out completely.
    stored = None if goal is None else asdict(goal)
    write_json(root / PROJECT, {"kind": KIND, "version": VERSION, "goal": stored, "key": key})
    return Workspace(root)


def open_workspace(folder: Path, goal: Goal, key: str = "", *, fresh: bool = False) -> Workspace:
    """The newest workspace in `folder` that was opened for `goal` and `key`, or else a new one.

    key: what besides the goal has to be the same for attempts to be comparable. fresh: always a
    new one, which later calls find as the newest. Workspaces of other versions are passed over.
    """
    stem = slug(goal.text)
    pattern = re.compile(rf"{re.escape(stem)}(?:-(\d+))?")
    hits = [pattern.fullmatch(path.name) for path in folder.glob(f"{stem}*")]
    numbers = sorted((int(hit[1] or 1) for hit in hits if hit), reverse=True)
    for number in () if fresh else numbers:
        root = _numbered(folder, stem, number)
        stored = _read_project(root)
        if stored.get("version") != VERSION or stored.get("key") != key:
            continue
        if _without_text(goal_of(root)) == _without_text(goal):
            return Workspace(root)
    return lay_out(_numbered(folder, stem, max(numbers, default=0) + 1), goal, key)


def goal_of(root: Path) -> Goal | None:
    """The goal that a project was opened for; None where it has none.

    Raises a GenlabError for a project of another format version.
    """
    stored = _read_project(root)
    if stored and stored.get("version") != VERSION:
        raise GenlabError(
            f"{root} has format version {stored.get('version')}, this genlab reads {VERSION};"
            " start a new workspace"
        )
    goal = stored.get("goal")
    if not isinstance(goal, dict):
        return None
    known = {each.name for each in fields(Goal)}
    try:
        return Goal(**{name: value for name, value in goal.items() if name in known})
    except (TypeError, ValueError) as error:
        raise GenlabError(f"{root / PROJECT} is damaged; start a new workspace") from error


def key_of(root: Path) -> str | None:
    """The key beside its goal; None where the folder holds no project."""
    key = _read_project(root).get("key")
    return None if key is None else str(key)


def all_workspaces(folder: Path) -> list[Path]:
    """The projects in `folder`, the one that was worked in last at the end."""
    found = [path.parent for path in folder.glob(f"*/{PROJECT}")]
    return sorted(found, key=lambda root: ((root / EXPERIMENTS).stat().st_mtime, root.name))


def slug(text: str) -> str:
    """A project's name from the text of its goal."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words[:SLUG_LENGTH].rstrip("-") or "project"


def _read_project(root: Path) -> dict[str, Any]:
    if not (root / PROJECT).is_file():
        return {}
    return dict(read_json(root / PROJECT, producer_command="genlab agent --fresh", kind=KIND))


def _numbered(folder: Path, stem: str, number: int) -> Path:
    return folder / (stem if number == 1 else f"{stem}-{number}")


def _without_text(goal: Goal | None) -> dict[str, Any]:
    return {} if goal is None else asdict(goal) | {"text": ""}
