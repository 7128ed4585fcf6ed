"""Commands in the sandbox, on a copy of the workspace.

A command works on a copy, and what it changed comes back file by file when it has ended. So the
judge's files (`toolbox.KEPT`: experiments with registry and results, the transcript) are out of its
reach whatever it does, in every mode of the sandbox, and a process that is killed in between leaves
the workspace as it was. `experiments` is shown for reading, and packages that were installed.

Links, fifos and the like don't come back: what is outside a workspace isn't to be had by a name in
it.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from genlab.agent.toolbox import KEPT, PACKAGES, Toolbox
from genlab.agent.workspace import EXPERIMENTS, Workspace
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes
from genlab.sandbox.limits import GIB, Finished, Limits
from genlab.sandbox.readback import read_back
from genlab.sandbox.runner import Sandbox

LIMITS = Limits(wall_seconds=300.0, output_bytes=20_000, disk_bytes=1 * GIB, files=5000)
BASH = ("bash", "--noprofile", "--norc", "-c")
MOST_NOTES = 5


def bash(box: Toolbox, command: str) -> str:
    """What a line of bash said, and how it ended."""
    shell = shutil.which(BASH[0]) or "/bin/bash"
    return _ran(box, [shell, *BASH[1:], command])


def python(box: Toolbox, script: str, args: Sequence[str]) -> str:
    """What a script of the workspace said, and how it ended; its folder is on the search path."""
    return _ran(box, ["python", script, *args])


def _ran(box: Toolbox, argv: list[str]) -> str:
    workspace = box.workspace
    shown = [
        path
        for name in (str(EXPERIMENTS), PACKAGES)
        if (path := workspace.root.resolve() / name).is_dir()
    ]
    with tempfile.TemporaryDirectory(prefix="genlab-shell-") as folder:
        room = Path(folder).resolve()
        _copied(workspace, room)
        for path in shown:
            (room / path.name).symlink_to(path)
        sandbox = Sandbox(room, LIMITS, mode=box.mode, readable=shown)
        search = [str(room), *(str(path) for path in shown if path.name == PACKAGES)]
        # Every command has a process of its own that ends with it: a module that it leaves beside
        # its script is nobody else's, so scripts may import their neighbours.
        env = {"PYTHONSAFEPATH": "", "PYTHONPATH": os.pathsep.join(search)}
        done = sandbox.run(argv, env=env)
        notes = taken_back(room, workspace)
        return _told(done, room, notes)


def _copied(workspace: Workspace, room: Path) -> None:
    """Copy what a command may see and change; links stay links, and lead nowhere in there."""
    root = str(workspace.root.resolve())
    shutil.copytree(
        root,
        room,
        symlinks=True,
        dirs_exist_ok=True,
        ignore=lambda folder, names: set(KEPT) & set(names) if folder == root else set(),
    )


def _told(done: Finished, room: Path, notes: list[str]) -> str:
    text = done.output.replace(f"{room}/", "").replace(str(room), ".")
    text += "" if not text or text.endswith("\n") else "\n"
    if done.stopped_by is not None:
        notes = [f"stopped by the sandbox: {done.stopped_by}, after {done.seconds:.0f} s", *notes]
    return text + "".join(f"[{note}]\n" for note in notes) + f"[exit code {done.exit_code}]"


def taken_back(room: Path, workspace: Workspace) -> list[str]:
    """Make the workspace what the room is now, but for the judge's files; a line for what can't be.

    Nothing of the command runs any more; what it left is trusted in nothing.
    """
    notes: list[str] = []
    root = workspace.root.resolve()
    left = dict(_entries(room))
    for path, mode in sorted(_entries(root), reverse=True):  # what is in a folder before itself
        same = path in left and stat.S_IFMT(left[path]) == stat.S_IFMT(mode)
        if not same:
            _removed(root / path)
    for path, mode in sorted(left.items()):
        fault = _brought(room, root, path, mode)
        if fault:
            notes.append(fault)
    more = len(notes) - MOST_NOTES
    return [*notes[:MOST_NOTES], *([f"and {more} more"] if more > 0 else [])]


def _entries(root: Path) -> Iterator[tuple[Path, int]]:
    """Path below `root` and mode of all that is there, links not followed, the judge's left out."""
    for folder, folders, names in os.walk(root):
        place = Path(folder)
        if place == root:
            folders[:] = [name for name in folders if name not in KEPT]
            names = [name for name in names if name not in KEPT]
        for name in (*folders, *names):
            yield (place / name).relative_to(root), os.lstat(place / name).st_mode


def _removed(path: Path) -> None:
    with suppress(OSError):  # a folder that still holds a person's link
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()


def _brought(room: Path, root: Path, path: Path, mode: int) -> str:
    """Bring one entry back; why not, where it can't be."""
    target = root / path
    if stat.S_ISLNK(mode):
        known = target.is_symlink() and os.readlink(target) == os.readlink(room / path)
        return "" if known else f"{path} is a link, and was left out"
    if target.parent.resolve() != target.parent:
        return f"{path} lies behind a link, and was left out"
    if stat.S_ISDIR(mode):
        target.mkdir(exist_ok=True)
        return ""
    try:
        data = read_back(room, path)
    except GenlabError as error:
        return f"left out: {error}"
    if not target.is_file() or target.read_bytes() != data:
        write_bytes(target, data)
    executable = bool(mode & stat.S_IXUSR)
    if executable != bool(target.stat().st_mode & stat.S_IXUSR):
        target.chmod(0o755 if executable else 0o644)
    return ""
