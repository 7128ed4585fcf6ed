"""Tools that run commands and scripts in the sandbox, on a copy of the workspace.

The copy has none of the evaluator's files (`files.is_protected`). When a command has ended, the
files that it changed are copied back where `files.resolve_writable` allows it. Links, fifos,
programs and importable files are left out. If this process is killed before that, the workspace
stays as it was.

pip runs outside of the sandbox, which has no network, and only where the parameter agent.allow_pip
allows it. It takes names and versions of packages only, and wheels only, so that no package's code
runs; its environment holds no key. Only code in the sandbox imports what it installs. It is off by
default since some things are not protected: the language model chooses the name, which may be a
squatted one; the index sees the name; and nothing limits the size of a wheel.
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
from genlab.sandbox.isolation import SITE
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
    pip_install = PIP_INSTALL.match(command)
    if pip_install:
        return _install(current_toolbox(), command[pip_install.end() :])
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
    """Run a command on a copy of the workspace; returns its output, notes and exit code.

    folders: of the workspace, from which Python can import besides src.
    """
    root = toolbox.workspace.root.resolve()
    readable = [root / PACKAGES] if (root / PACKAGES).is_dir() else []
    copy = Path(tempfile.mkdtemp(prefix="genlab-command-")).resolve()
    try:
        _copy(root, copy)
        paths_before = _list_paths(copy)
        sandbox = Sandbox(copy, LIMITS, mode=toolbox.params.sandbox, readable=readable)
        python_path = [SITE, *readable, copy / "src", *(copy / folder for folder in folders)]
        done = sandbox.run(argv, env={"PYTHONPATH": os.pathsep.join(map(str, python_path))})
        try:
            notes = _copy_back(copy, root, paths_before)
        except (OSError, RecursionError):
            notes = ["nothing is kept: folders are nested too deeply"]
    finally:
        remove_tree(copy)
    if done.stopped_by is not None:
        notes = [f"stopped by the sandbox: {done.stopped_by}, after {done.seconds:.0f} s", *notes]
    output = done.output.replace(f"{copy}/", "").replace(str(copy), ".").removesuffix("\n")
    lines = [output] if output else []
    lines += [f"[{note}]" for note in notes]
    lines.append(f"[exit code {done.exit_code}]")
    return make_printable("\n".join(lines))


def _copy(root: Path, copy: Path) -> None:
    """Copy what a command may see: no links, no special files, none of the evaluator's files."""

    def find_hidden(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if _is_hidden(Path(folder, name), root)]

    shutil.copytree(root, copy, ignore=find_hidden, dirs_exist_ok=True)


def _is_hidden(path: Path, root: Path) -> bool:
    """Whether a command may not see a file or folder of the workspace."""
    if path.is_symlink() or not (path.is_dir() or path.is_file()):
        return True
    return is_protected(path.relative_to(root))


def _list_paths(folder: Path) -> set[Path]:
    """List what lies below a folder, relative to it, but for the evaluator's; follows no links."""
    paths = {path.relative_to(folder) for path in folder.rglob("*")}
    return {path for path in paths if not is_protected(path)}


def _copy_back(copy: Path, root: Path, paths_before: set[Path]) -> list[str]:
    """Copy a command's changes to the workspace; returns a note for each file that is left out.

    The command has ended, and the files that it left are not trusted: see `read_back`.
    """
    paths_after = _list_paths(copy)
    for path in sorted(paths_before - paths_after, reverse=True):  # a folder after its contents
        with suppress(OSError):  # a folder that is not empty
            if (root / path).is_dir():
                (root / path).rmdir()
            elif not find_fault(path):
                (root / path).unlink()
    notes = list[str]()
    for path in sorted(paths_after):
        if os.path.isdir(copy / path) and not os.path.islink(copy / path):
            continue
        try:
            data = read_back(copy, path)
            if path not in paths_before or (root / path).read_bytes() != data:
                write_bytes(resolve_writable(str(path)), data)
        except (GenlabError, OSError) as error:
            notes.append(f"not kept: {error}")
    omitted = len(notes) - MAX_NOTES
    if omitted > 0:
        notes = [*notes[:MAX_NOTES], f"and {omitted} more are not kept"]
    return notes


def _install(toolbox: Toolbox, packages: str) -> str:
    """Install packages into the workspace; returns pip's output and exit code.

    packages: the words after `pip install`. Raises a GenlabError where agent.allow_pip is off, and
    for anything but names and versions.
    """
    if not toolbox.params.allow_pip:
        fix = "agent.allow_pip: true in params.yaml lets it install into the workspace"
        raise GenlabError(f"pip install is refused, code has no network here; {fix}")
    try:
        requirements = [Requirement(word) for word in shlex.split(packages)]
    except (InvalidRequirement, ValueError) as error:  # an option, a path, a second command
        raise GenlabError(f"pip install: {' '.join(str(error).split())}; {PIP_FIX}") from error
    if not requirements or any(requirement.url for requirement in requirements):
        raise GenlabError(f"pip install: no package is named, or an address; {PIP_FIX}")
    target = toolbox.workspace.root.resolve() / PACKAGES
    argv = [
        sys.executable, "-I", "-m", "pip", "install", "--no-input", "--disable-pip-version-check",
        "--only-binary=:all:", "--upgrade", "--target", str(target), "--",
        *map(str, requirements),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.defpath, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}
        if mirror := os.environ.get("PIP_INDEX_URL"):
            env["PIP_INDEX_URL"] = mirror
        try:
            done = subprocess.run(
                argv,
                env=env,
                cwd=home,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                errors="replace",
                timeout=PIP_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise GenlabError(f"pip install took longer than {PIP_SECONDS:g} s") from error
    return f"{make_printable(done.stdout)}[exit code {done.returncode}]"
