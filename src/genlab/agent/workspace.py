"""A workspace, the project folder of the agent: its layout, its goal, and the lock of its run.

    workspaces/<project_name>/
        src/models/current_model.py, configs/models/current_model_config.yaml, requirements.txt
        experiments/registry.json
        experiments/<run_id>/{model_config.yaml, model_code.py, summary.json, results.json}
        project.json                     goal and key

A workspace is never an out of the pipeline: DVC deletes outs before a stage starts.
"""

import re
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock
from pydantic import TypeAdapter, ValidationError

from genlab.agent.goals.goal import Goal
from genlab.core.errors import GenlabError, acquire
from genlab.core.io import read_json, write_json, write_text

PROJECT = "project.json"
KIND = "agent project"  # as project.json names itself
MODEL = Path("src/models/current_model.py")
CONFIG = Path("configs/models/current_model_config.yaml")
EXPERIMENTS = "experiments"
REGISTRY = "registry.json"
LOCK = "run.lock"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
JOURNAL = "transcript.jsonl"  # of a run, in its workspace
SEARCH = "search"  # folder of the workspace that holds the search which a run is compared with
SAMPLES = "samples.npy"  # of a generative model, in the folder of the attempts
SLUG_LENGTH = 40  # characters of the goal in a workspace's name


@dataclass(frozen=True)
class Workspace:
    """The workspace in the folder `root`."""

    root: Path

    @property
    def experiments(self) -> Path:
        """Folder of all attempts."""
        return self.root / EXPERIMENTS

    def resolve(self, path: str | Path) -> Path:
        """Resolve a path, relative to the workspace or absolute, following every link.

        Raises a GenlabError for a path that leads out of the workspace.
        """
        root = self.root.resolve()
        try:
            resolved = (root / path).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a zero byte
            raise GenlabError(f"{str(path)[:100]!r} is no path; choose another one") from error
        if not resolved.is_relative_to(root):
            raise GenlabError(f"{path}: leads out of the workspace {self.root}; stay inside it")
        return resolved

    def relative(self, path: Path) -> str:
        """Write a path relative to the workspace, with slashes, for users and prompts."""
        return path.resolve().relative_to(self.root.resolve()).as_posix()

    def create_run_folder(self) -> Path:
        """Create the folder of an attempt; its name, qe_<date>_<time>[_n], is the run_id."""
        stem = f"qe_{datetime.now(timezone.utc):%Y%m%d_%H%M%S}"
        return _make_folder(self.experiments / stem, "_")

    def lock(self) -> AbstractContextManager[BaseFileLock]:
        """Lock the workspace for a run. Raises a GenlabError while another run holds the lock."""
        fault = f"{self.root} is in use by another run; wait for it or stop it"
        return acquire(FileLock(self.experiments / LOCK, timeout=0), fault)


def scaffold(project_name: str, base_dir: str | Path = ".") -> Workspace:
    """Create the workspace `base_dir`/`project_name`, without a goal.

    Raises a GenlabError for a name with other characters than letters, digits, - and _, and for a
    folder that isn't empty.
    """
    if not NAME.fullmatch(project_name):
        rule = "letters, digits, - and _, at most 64"
        raise GenlabError(f"project name must be {rule}, got {project_name!r}")
    return create_project(Path(base_dir) / project_name)


def create_project(root: Path, goal: Goal | None = None, key: str = "") -> Workspace:
    """Create a workspace in the folder `root`. Raises a GenlabError if the folder isn't empty."""
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise GenlabError(f"{root} isn't empty; choose another name, or remove it yourself")
    write_text(root / MODEL, "")
    write_text(root / CONFIG, "")
    write_text(root / "requirements.txt", "torch\ntorchinfo\n")
    write_json(root / EXPERIMENTS / REGISTRY, [])
    # Last, since a folder with project.json counts as a complete workspace.
    write_json(root / PROJECT, {"kind": KIND, "goal": goal and asdict(goal), "key": key})
    return Workspace(root)


def open_workspace(folder: Path, goal: Goal, key: str, *, fresh: bool = False) -> Workspace:
    """Open the latest workspace in `folder` that has this key, or else create one.

    key: identifies runs whose attempts can be compared. fresh: always create one.
    """
    if not fresh:
        for root in reversed(list_workspaces(folder)):
            if read_key(root) == key:
                return Workspace(root)
    slug = re.sub(r"[^a-z0-9]+", "-", goal.text.lower()).strip("-")[:SLUG_LENGTH].rstrip("-")
    return create_project(_make_folder(folder / (slug or "project"), "-"), goal, key)


def _make_folder(stem: Path, separator: str) -> Path:
    """Create the first of the folders stem, stem<separator>2, ... that does not exist."""
    folder = stem
    for number in count(2):
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            folder = stem.with_name(f"{stem.name}{separator}{number}")
    return folder


def list_workspaces(folder: Path) -> list[Path]:
    """List the workspaces in `folder` by the time of their latest attempt, the latest one last."""

    def order(root: Path) -> tuple[float, str]:
        return (root / EXPERIMENTS).stat().st_mtime, root.name

    return sorted((path.parent for path in folder.glob(f"*/{PROJECT}")), key=order)


def find_workspace(folder: Path, name: Path | None) -> Workspace:
    """Find a workspace by its path, or by its name in `folder`; None stands for the latest one.

    Raises a GenlabError where there is none.
    """
    if name is None:
        roots = list_workspaces(folder)
        if roots:
            return Workspace(roots[-1])
        raise GenlabError(f"{folder} holds no workspace; name one, or state a goal")
    for root in (name, folder / name):
        if (root / PROJECT).is_file():
            return Workspace(root)
    raise GenlabError(f"{name} is no workspace; `genlab agent list` lists them")


def read_project_goal(root: Path) -> Goal | None:
    """Read the goal that a workspace was created for; None where it has none.

    Fields that this version does not have are left out. Raises a GenlabError for a damaged goal.
    """
    try:
        return TypeAdapter(Goal | None).validate_python(_read_project(root).get("goal"))
    except ValidationError as error:
        fault = "is damaged or of another version of genlab; start a new workspace"
        raise GenlabError(f"{root / PROJECT} {fault}") from error


def read_key(root: Path) -> str:
    """Read the key that a workspace was created with; empty where it has none."""
    return str(_read_project(root).get("key", ""))


def _read_project(root: Path) -> dict[str, Any]:
    fix = "genlab agent --fresh"
    return dict(read_json(root / PROJECT, producer_command=fix, kind=KIND))
