"""Tools that run commands and scripts: in the sandbox, on a copy of the workspace.

The copy holds nothing of the judge's (`files.is_protected`). What a command changed comes back file
by file when it has ended, where `files.resolve_writable` allows it. Links, fifos, programs and
importable files stay behind. A process that is killed in between leaves the workspace as it was.

pip runs outside of the sandbox, which has no network, where the parameter agent.allow_pip allows
it: with names and versions of packages only, wheels only, so that no package's code runs, and no
key in its environment. What is installed is imported in the sandbox alone. Not protected, so off by
default: a language model chooses the name, which may be a squatted one; the index sees it; and
nothing bounds the size of a wheel.
"""

from __future__ import annotations  # signatures show annotations as they are written

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT

from packaging.requirements import InvalidRequirement, Requirement

from genlab.agent.library.toolbox import Toolbox, current_toolbox
from genlab.agent.tools.files import PACKAGES, find_fault, is_protected, resolve_writable
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes
from genlab.core.text import make_printable
from genlab.sandbox.config import SITE
from genlab.sandbox.limits import GIB, Limits
from genlab.sandbox.readback import read_back, remove_tree
from genlab.sandbox.runner import Sandbox

LIMITS = Limits(wall_seconds=300.0, output_bytes=20_000, disk_bytes=1 * GIB, files=5000)
MAX_NOTES = 5
PIP_INSTALL = re.compile(r"\s*(?:python3?\s+-m\s+)?pip3?\s+install\b")
PIP_SECONDS = 600.0
PIP_FIX = "run pip install by itself, with names and versions alone: pip install 'einops>=0.8'"


def bash_run(command: str) -> str:
    """Run a line of bash in the sandbox, without a network; returns its output and exit code.

    `pip install` by itself works where the parameter agent.allow_pip allows it. The workspace keeps
    data files that it writes and source code in src, nothing else.
    """
    if hit := PIP_INSTALL.match(command):
        return _install(current_toolbox(), command[hit.end() :])
    return _run(current_toolbox(), ["bash", "-c", command])


def python_run(script_path: str, *args: str) -> str:
    """Run a script of the workspace in the sandbox; returns its output and exit code.

    It can import modules of src and of the script's folder. bash_run says which files are kept.
    """
    toolbox = current_toolbox()
    path = toolbox.workspace.resolve(script_path)
    script = toolbox.workspace.relative(path)
    if not path.is_file() or is_protected(Path(script)):
        raise GenlabError(f"{script_path}: no such script; list_directory shows what is there")
    # The sandbox sets PYTHONSAFEPATH, so that the folder of a script has to be named.
    return _run(toolbox, ["python", script, *map(str, args)], os.path.dirname(script))


def _run(toolbox: Toolbox, argv: list[str], *folders: str) -> str:
    root = toolbox.workspace.root.resolve()
    readable = [root / PACKAGES] if (root / PACKAGES).is_dir() else []
    place = Path(tempfile.mkdtemp(prefix="genlab-command-")).resolve()
    try:
        _copy(root, place)
        before = _list(place)
        sandbox = Sandbox(place, LIMITS, mode=toolbox.params.sandbox, readable=readable)
        path = [SITE, *readable, place / "src", *(place / folder for folder in folders)]
        done = sandbox.run(argv, env={"PYTHONPATH": os.pathsep.join(map(str, path))})
        try:
            notes = _bring_back(place, root, before)
        except (OSError, RecursionError):
            notes = ["nothing is kept: folders are nested too deeply"]
    finally:
        remove_tree(place)
    if done.stopped_by is not None:
        notes = [f"stopped by the sandbox: {done.stopped_by}, after {done.seconds:.0f} s", *notes]
    output = done.output.replace(f"{place}/", "").replace(str(place), ".").removesuffix("\n")
    lines = [*([output] if output else []), *(f"[{note}]" for note in notes)]
    return make_printable("\n".join([*lines, f"[exit code {done.exit_code}]"]))


def _copy(root: Path, place: Path) -> None:
    """Copy what a command sees: no links, no special files, nothing of the judge's."""

    def find_hidden(folder: str, names: list[str]) -> list[str]:
        paths = [Path(folder, name) for name in names]
        return [
            path.name
            for path in paths
            if path.is_symlink()
            or not (path.is_dir() or path.is_file())
            or is_protected(path.relative_to(root))
        ]

    shutil.copytree(root, place, ignore=find_hidden, dirs_exist_ok=True)


def _list(place: Path) -> set[Path]:
    """Relative paths of everything but the judge's; links are not followed."""
    found = {path.relative_to(place) for path in place.rglob("*")}
    return {path for path in found if not is_protected(path)}


def _bring_back(place: Path, root: Path, before: set[Path]) -> list[str]:
    """Write and remove in the workspace what a command did; a note for each file that is not kept.

    Nothing of the command runs any more, and what it left is not trusted: see `read_back`.
    """
    left, notes = _list(place), list[str]()
    for path in sorted(before - left, reverse=True):  # what is in a folder before the folder
        with suppress(OSError):  # a folder that still holds something
            if (root / path).is_dir():
                (root / path).rmdir()
            elif not find_fault(path):
                (root / path).unlink()
    for path in sorted(left):
        if os.path.isdir(place / path) and not os.path.islink(place / path):
            continue
        try:
            data = read_back(place, path)
            if path not in before or (root / path).read_bytes() != data:
                write_bytes(resolve_writable(str(path)), data)
        except (GenlabError, OSError) as error:
            notes.append(f"not kept: {error}")
    more = len(notes) - MAX_NOTES
    return [*notes[:MAX_NOTES], *([f"and {more} more are not kept"] if more > 0 else [])]


def _install(toolbox: Toolbox, packages: str) -> str:
    """Install packages into the workspace; returns pip's output and exit code.

    Raises a GenlabError where that is not allowed, or where `packages` are anything else.
    """
    if not toolbox.params.allow_pip:
        fix = "agent.allow_pip: true in params.yaml lets it install into the workspace"
        raise GenlabError(f"pip install is refused, code has no network here; {fix}")
    try:
        wanted = [Requirement(word) for word in shlex.split(packages)]
    except (InvalidRequirement, ValueError) as error:  # an option, a path, a second command
        raise GenlabError(f"pip install: {' '.join(str(error).split())}; {PIP_FIX}") from error
    if not wanted or any(each.url for each in wanted):
        raise GenlabError(f"pip install: no package is named, or an address; {PIP_FIX}")
    target = toolbox.workspace.root.resolve() / PACKAGES
    argv = [
        sys.executable, "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check",
        "--only-binary=:all:", "--upgrade", "--target", str(target), "--", *map(str, wanted),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.defpath, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}
        if mirror := os.environ.get("PIP_INDEX_URL"):
            env["PIP_INDEX_URL"] = mirror
        try:
            done = subprocess.run(argv, env=env, cwd=home, stdin=DEVNULL, stdout=PIPE,
                                  stderr=STDOUT, errors="replace", timeout=PIP_SECONDS)  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise GenlabError(f"pip install took longer than {PIP_SECONDS:g} s") from error
    return f"{make_printable(done.stdout)}[exit code {done.returncode}]"
