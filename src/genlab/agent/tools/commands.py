"""Tools that run commands and scripts: in the sandbox, on a copy of the workspace.

The copy holds nothing of the judge's (`files.is_judges`). What a command changed comes back file by
file when it has ended, where `files.find_fault` allows it. Links, fifos, programs and importable
files stay behind. A process that is killed in between leaves the workspace as it was.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

from genlab.agent.tools import packages
from genlab.agent.tools.files import PACKAGES, find_fault, is_judges
from genlab.agent.tools.toolbox import Toolbox, current
from genlab.agent.workspace import Workspace
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes
from genlab.core.text import printable
from genlab.sandbox.limits import GIB, Limits
from genlab.sandbox.readback import read_back, remove_tree
from genlab.sandbox.runner import Sandbox

LIMITS = Limits(wall_seconds=300.0, output_bytes=20_000, disk_bytes=1 * GIB, files=5000)
MAX_NOTES = 5
# Source of the workspace is searched after everything that is installed, so that it can be in the
# way of nothing: the sandbox sets PYTHONSAFEPATH, which Python 3.10 does not know.
LAUNCH = (
    "import os, runpy, sys; del sys.argv[0]; folders = ('src', os.path.dirname(sys.argv[0])); "
    "sys.path[:] = [*filter(None, sys.path), *map(os.path.abspath, folders)]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def bash_run(command: str) -> str:
    """Run a line of bash in the sandbox, without a network; returns its output and exit code.

    `pip install` by itself works where the parameter agent.allow_pip allows it. The workspace keeps
    data files that it writes and source code in src, nothing else.
    """
    words = packages.find_pip_install(command)
    if words is not None:
        return packages.install(current(), words)
    shell = shutil.which("bash") or "/bin/bash"
    return _run(current(), [shell, "--noprofile", "--norc", "-c", command])


def python_run(script_path: str, *args: str) -> str:
    """Run a script of the workspace in the sandbox; returns its output and exit code.

    It can import modules of src and of its own folder. bash_run says which files are kept.
    """
    toolbox = current()
    path = toolbox.workspace.inside(script_path)
    script = toolbox.workspace.relative(path)
    if not path.is_file() or is_judges(Path(script)):
        raise GenlabError(f"{script_path}: no such script; list_directory shows what is there")
    return _run(toolbox, ["python", "-c", LAUNCH, script, *map(str, args)])


def _run(toolbox: Toolbox, argv: list[str]) -> str:
    workspace = toolbox.workspace
    installed = workspace.root.resolve() / PACKAGES
    readable = [installed] if installed.is_dir() else []
    room = Path(tempfile.mkdtemp(prefix="genlab-command-")).resolve()
    try:
        root = workspace.root.resolve()
        shutil.copytree(root, room, ignore=partial(_ignore, root), dirs_exist_ok=True)
        before = _list(room)
        sandbox = Sandbox(room, LIMITS, mode=toolbox.params.sandbox, readable=readable)
        done = sandbox.run(argv, env={"PYTHONPATH": str(installed)} if readable else {})
        try:
            notes = _bring_back(room, workspace, before)
        except (OSError, RecursionError):
            notes = ["nothing is kept: folders are nested too deeply"]
        output = done.output.replace(f"{room}/", "").replace(str(room), ".")
    finally:
        remove_tree(room)
    if done.stopped_by is not None:
        notes = [f"stopped by the sandbox: {done.stopped_by}, after {done.seconds:.0f} s", *notes]
    lines = [output.removesuffix("\n")] if output else []
    lines += [f"[{note}]" for note in (*notes, f"exit code {done.exit_code}")]
    return printable("\n".join(lines))


def _ignore(root: Path, folder: str, names: list[str]) -> set[str]:
    """What a command does not see: links, special files, and what is the judge's."""
    paths = {name: Path(folder, name) for name in names}
    seen = {name for name, path in paths.items() if path.is_dir() or path.is_file()}
    hidden = {name for name, path in paths.items() if path.is_symlink()}
    if Path(folder) == root:
        hidden |= {name for name in names if is_judges(Path(name))}
    return set(names) - seen | hidden


def _list(room: Path) -> dict[Path, bool]:
    """Relative paths of everything but the judge's, links not followed; True for folders."""
    found = {path.relative_to(room): path for path in room.rglob("*")}
    return {name: os.path.isdir(path) and not os.path.islink(path) for name, path in found.items()
            if not is_judges(name)}  # fmt: skip


def _bring_back(room: Path, workspace: Workspace, before: dict[Path, bool]) -> list[str]:
    """Write and remove in the workspace what a command did; a note for each file that is not kept.

    Nothing of the command runs any more, and what it left is not trusted: see `read_back`.
    """
    root, left = workspace.root.resolve(), _list(room)
    for path in sorted(before, reverse=True):  # what is in a folder before the folder
        with suppress(OSError):  # a folder that still holds something
            if left.get(path) == before[path]:
                continue
            if before[path]:
                (root / path).rmdir()
            elif not find_fault(path):
                (root / path).unlink()
    faults = {path: _keep(room, workspace, path) for path in sorted(left) if not left[path]}
    notes = [f"not kept: {path}: {fault}" for path, fault in faults.items() if fault]
    more = len(notes) - MAX_NOTES
    return [*notes[:MAX_NOTES], *([f"and {more} more are not kept"] if more > 0 else [])]


def _keep(room: Path, workspace: Workspace, path: Path) -> str:
    """Write a file of the room to the workspace; why not, where it is not kept."""
    root = workspace.root.resolve()
    try:
        target, data = workspace.inside(path), read_back(room, path)
        if target == root / path and target.is_file() and target.read_bytes() == data:
            return ""
        fault = find_fault(path) or ("a link is in its place" if target != root / path else "")
        if not fault:
            write_bytes(target, data)
    except (GenlabError, OSError) as error:
        return str(error).removeprefix(f"{path}: ")
    return fault
