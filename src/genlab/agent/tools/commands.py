"""Tools that run commands and scripts: in the sandbox, on a copy of the workspace.

The copy holds nothing of the judge's (`files.is_judges`). What a command changed comes back file by
file when it has ended, if `files.find_fault` allows it: data of plain types, and source under
`src`. Links, fifos, programs and importable files elsewhere stay behind, so nothing that a command
leaves runs by itself later. A process that is killed in between leaves the workspace as it was.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from genlab.agent.tools import packages
from genlab.agent.tools.files import PACKAGES, SOURCE, find_fault, is_judges
from genlab.agent.tools.toolbox import Toolbox, current
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes
from genlab.core.text import printable
from genlab.sandbox.limits import GIB, Finished, Limits
from genlab.sandbox.readback import read_back
from genlab.sandbox.runner import Sandbox

LIMITS = Limits(wall_seconds=300.0, output_bytes=20_000, disk_bytes=1 * GIB, files=5000)
MAX_NOTES = 5
# Python's safe path keeps the script's folder off sys.path. Source of the workspace is searched
# after everything that is installed, so that it can be in the way of nothing.
LAUNCH = (
    "import os, runpy, sys; del sys.argv[0]; script = sys.argv[0]; "
    f"sys.path += [os.path.abspath({SOURCE!r}), os.path.abspath(os.path.dirname(script))]; "
    "runpy.run_path(script, run_name='__main__')"
)


def bash_run(command: str) -> str:
    """Run a line of bash in the sandbox, without a network; returns its output and exit code.

    `pip install` works where the parameter agent.allow_pip lets it install into the workspace.
    Data files and source under src are kept in the workspace, other files are not.
    """
    toolbox = current()
    words = packages.find_pip_install(command)
    if words is not None:
        return packages.install(toolbox, words)
    shell = shutil.which("bash") or "/bin/bash"
    return _run(toolbox, [shell, "--noprofile", "--norc", "-c", command])


def python_run(script_path: str, *args: str) -> str:
    """Run a script of the workspace in the sandbox; returns its output and exit code.

    It can import modules of src and of its own folder. See bash_run for the files it leaves.
    """
    toolbox = current()
    path = toolbox.workspace.inside(script_path)
    if not path.is_file():
        raise GenlabError(f"{script_path}: no such script; list_directory shows what is there")
    script = toolbox.workspace.relative(path)
    if is_judges(PurePath(script)):
        raise GenlabError(f"{script_path}: that is the judge's, and no script; choose another path")
    return _run(toolbox, ["python", "-P", "-c", LAUNCH, script, *map(str, args)])


def _run(toolbox: Toolbox, argv: list[str]) -> str:
    workspace = toolbox.workspace.root.resolve()
    installed = workspace / PACKAGES
    readable = [installed] if installed.is_dir() else []
    with tempfile.TemporaryDirectory(prefix="genlab-command-") as folder:
        room = Path(folder).resolve()
        before = copy_out(workspace, room)
        sandbox = Sandbox(room, LIMITS, mode=toolbox.params.sandbox, readable=readable)
        env = {"PYTHONPATH": str(installed)} if readable else {}
        done = sandbox.run(argv, env=env)
        notes = bring_back(room, workspace, before)
        return _describe(done, room, notes)


def copy_out(workspace: Path, room: Path) -> set[PurePath]:
    """Copy what a command may see, links and special files left out; returns the files' paths."""
    paths = {path for path, mode in _entries(workspace) if stat.S_ISREG(mode)}
    for path, mode in _entries(workspace):
        if stat.S_ISDIR(mode):
            (room / path).mkdir(parents=True, exist_ok=True)
    for path in paths:
        shutil.copyfile(workspace / path, room / path)
    return paths


def bring_back(room: Path, workspace: Path, before: set[PurePath]) -> list[str]:
    """Bring the files that a command wrote or removed into the workspace; a note for each fault.

    Nothing of the command runs any more, and what it left is not trusted: see `read_back`.
    """
    notes: list[str] = []
    left = dict(_entries(room))
    for path in sorted(before - left.keys()):
        if not find_fault(path) and (workspace / path).is_file():
            (workspace / path).unlink()
    for path, mode in sorted(left.items()):
        if stat.S_ISDIR(mode):
            continue
        fault = find_fault(path)
        target = workspace / path
        try:
            if not fault and path not in before and _is_in_the_way(workspace, path):
                fault = "something else is in its place"
            data = b"" if fault and path not in before else read_back(room, path)
            if path in before and target.is_file() and data == target.read_bytes():
                continue
            if not fault:
                write_bytes(target, data)
        except GenlabError as error:
            fault = str(error).removeprefix(f"{path}: ")
        if fault:
            notes.append(f"not kept: {path}: {fault}")
    more = len(notes) - MAX_NOTES
    return [*notes[:MAX_NOTES], *([f"and {more} more are not kept"] if more > 0 else [])]


def _is_in_the_way(workspace: Path, path: PurePath) -> bool:
    """Whether the way to a new file leads over a link or a file, or ends at something else."""
    above = [workspace / parent for parent in path.parents if parent.parts]
    target = workspace / path
    return any(each.is_symlink() or each.is_file() for each in above) or (
        os.path.lexists(target) and not (target.is_file() and not target.is_symlink())
    )


def _entries(root: Path) -> Iterator[tuple[PurePath, int]]:
    """Path below `root` and mode of everything but the judge's; links are not followed."""
    for folder, folders, names in os.walk(root):
        place = Path(folder).relative_to(root)
        folders[:] = [name for name in folders if not is_judges(place / name)]
        for name in (*folders, *names):
            path = place / name
            if not is_judges(path):
                yield PurePath(path), os.lstat(root / path).st_mode


def _describe(done: Finished, room: Path, notes: Sequence[str]) -> str:
    text = printable(done.output.replace(f"{room}/", "").replace(str(room), "."))
    text += "" if not text or text.endswith("\n") else "\n"
    if done.stopped_by is not None:
        notes = [f"stopped by the sandbox: {done.stopped_by}, after {done.seconds:.0f} s", *notes]
    return (
        text + "".join(f"[{printable(note)}]\n" for note in notes) + f"[exit code {done.exit_code}]"
    )
