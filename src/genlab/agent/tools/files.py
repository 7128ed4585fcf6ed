"""Tools that read and write files of the workspace, and the rules for what may be written.

No file that a tool or a command leaves in a workspace may run by itself later, neither in the next
command nor on the host: Python imports what lies in the folder it is started in, and other programs
execute files with certain names. So only data of plain types are written, and source code in `src`
under names that no installed package has.
"""

from __future__ import annotations  # signatures show annotations as they are written

import re
import site
import sys
from importlib.machinery import PathFinder
from pathlib import Path, PurePath

from genlab.agent.library.toolbox import bound_toolbox, current_toolbox
from genlab.agent.workspace import EXPERIMENTS, scaffold
from genlab.core.errors import GenlabError
from genlab.core.io import write_text

PACKAGES = ".packages"  # where pip installs
JUDGES = rf"(?:{EXPERIMENTS}|search|\{PACKAGES})(?:/.*)?|[^/]+\.(?:jsonl?|lock|ya?ml)"
OBEYED = (  # files that genlab or another program obeys when it is started in their folder
    r"project\.json|params\.yaml|dvc\.yaml|cmakelists\.txt|package\.json|(?:docker-)?compose\.ya?ml"
)
DATA = "csv|gif|jpeg|jpg|json|jsonl|log|md|npy|npz|png|rst|safetensors|tsv|txt|yaml|yml"
RULES = {  # patterns of paths that no tool writes, and why; the first one that matches counts
    JUDGES: "that is the judge's, and no tool writes it; choose another path, such as one in src",
    r"(?:.*/)?(?:\.|__pycache__/).*": "hidden files and caches are not kept; choose another name",
    r"(?!src/).*\.(?:py|sh)": "source code belongs in src; choose a path there",
    rf"(?:.*/)?(?:{OBEYED})": "other programs obey that file; choose another name",
    rf"(?!.*\.(?:{DATA}|py|sh)$).*": f"only data may be written ({DATA}), and source code in src",
}
WITH_TEST_NUMBERS = r"(?:.*/)?(?:results\.json|registry\.json|report\.(?:md|html))"
ALWAYS_IMPORTED = ("genlab", "sitecustomize", "usercustomize")  # beside installed packages
MAX_CHARACTERS = 200_000  # read from a file


def read_file(file_path: str) -> str:
    """Read a text file of the workspace; a long one is cut, with a mark.

    The judge's records are not read: those of an ended run hold numbers of the test set.
    """
    workspace = current_toolbox().workspace
    path = workspace.resolve(file_path)
    if not path.is_file():
        raise GenlabError(f"{file_path}: no such file; list_directory shows what is there")
    relative = PurePath(workspace.relative(path))
    tested = re.fullmatch(WITH_TEST_NUMBERS, relative.as_posix(), re.IGNORECASE)
    if tested and is_protected(relative):
        fault = "it may hold numbers of the test set; pytorch_quick_evaluator gives the others"
        raise GenlabError(f"{file_path}: {fault}")
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        text = file.read(MAX_CHARACTERS)
        if file.read(1):
            text += f"\n[... cut at {MAX_CHARACTERS} characters]"
    return text


def write_file(file_path: str, content: str) -> None:
    """Write a text file in the workspace; missing folders are made. Python files belong in src."""
    path = resolve_writable(file_path)
    text = content.encode("utf-8", "replace").decode("utf-8")
    write_text(path, text)
    current_toolbox().written_files[path] = text


def list_directory(path: str = ".", recursive: bool = False) -> list[str]:
    """List a folder of the workspace: sorted paths relative to it; folders end in a slash."""
    workspace = current_toolbox().workspace
    folder = workspace.resolve(path)
    if not folder.is_dir():
        raise GenlabError(f"{path}: no such folder; list_directory('.') shows what is there")
    listing = []
    for entry in sorted(folder.rglob("*") if recursive else folder.iterdir()):
        relative = entry.relative_to(workspace.root.resolve())
        if relative.parts[0] == PACKAGES:  # thousands of files of installed packages
            continue
        is_folder = entry.is_dir() and not entry.is_symlink()
        listing.append(f"{relative.as_posix()}/" if is_folder else relative.as_posix())
    return listing


def create_pytorch_project_scaffold(project_name: str, base_dir: str = ".") -> None:
    """Make the project base_dir/project_name; an existing one is left alone.

    Within a run it stands beside the run's own workspace, and base_dir is left out.
    """
    base = Path(base_dir)
    toolbox = bound_toolbox()
    if toolbox is not None:
        base = toolbox.workspace.root.resolve().parent
        if (base / base_dir).resolve() != base:
            raise GenlabError(f"base_dir {base_dir!r} is not the run's; leave it out")
    scaffold(project_name, base)


def resolve_writable(file_path: str) -> Path:
    """Resolve a path that a tool wants to write. Raises a GenlabError where it may not."""
    workspace = current_toolbox().workspace
    path = workspace.resolve(file_path)
    fault = find_fault(path.relative_to(workspace.root.resolve()))
    if path.is_dir() or any(parent.is_file() for parent in path.parents):
        fault = "a folder or a file is in the way; choose another path"
    if fault:
        raise GenlabError(f"{file_path}: {fault}")
    return path


def is_protected(path: PurePath) -> bool:
    """Whether a path, relative to the workspace, is the evaluator's.

    No tool may write it and no command may see it.
    """
    return re.fullmatch(JUDGES, path.as_posix(), re.IGNORECASE | re.DOTALL) is not None


def find_fault(path: PurePath) -> str:
    """Say why no file may be written at a path relative to the workspace; empty where one may."""
    name = path.as_posix()
    if not name.isprintable():
        return "unprintable names are not written; choose another name"
    for rule, fault in RULES.items():
        if re.fullmatch(rule, name, re.IGNORECASE):
            return fault
    modules = [component.partition(".")[0] for component in path.parts[1:]]
    packages = [module for module in modules if is_package(module)]
    if path.suffix.lower() == ".py" and packages:
        return f"{packages[0]} is the name of a package; choose another name"
    return ""


def is_package(name: str) -> bool:
    """Whether `import name` finds a module of Python's library or an installed package."""
    if name in ALWAYS_IMPORTED or name in sys.stdlib_module_names:
        return True
    spec = PathFinder.find_spec(name, site.getsitepackages())
    return spec is not None and spec.origin is not None
