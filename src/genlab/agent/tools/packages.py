"""pip for a workspace, where the parameter agent.allow_pip allows it.

It runs outside of the sandbox, which has no network, with names and versions of packages only,
wheels only, so that no package's code runs, and no key in its environment. What is installed is
imported in the sandbox alone. Not protected, so off by default: a language model chooses the name,
which may be a squatted one; the index sees it; and nothing bounds the size of a wheel.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from subprocess import DEVNULL, PIPE, STDOUT

from packaging.requirements import InvalidRequirement, Requirement

from genlab.agent.tools.files import PACKAGES
from genlab.agent.tools.toolbox import Toolbox
from genlab.core.errors import GenlabError
from genlab.core.text import printable

INSTALL = re.compile(r"(?:(?:\S*/)?python[\d.]*\s+-m\s+)?(?:\S*/)?pip[\d.]*\s(?:-\S+\s+)*install\b")
IGNORED = ("-q", "--quiet", "-U", "--upgrade", "--user", "--no-cache-dir", "--no-input")
TIMEOUT = 600.0  # seconds
MAX_OUTPUT = 4000  # characters
FIX = "run pip install by itself, with names and versions alone: pip install 'einops>=0.8'"


def find_pip_install(command: str) -> list[str] | None:
    """What `command` asks pip to install; None where it does not begin with pip install."""
    hit = INSTALL.match(command.strip())
    if hit is None:
        return None
    try:
        return shlex.split(command.strip()[hit.end() :])
    except ValueError as error:
        raise GenlabError(f"pip install: {error}; {FIX}") from error


def install(toolbox: Toolbox, words: Sequence[str]) -> str:
    """Install into the workspace; returns pip's output and exit code.

    Raises a GenlabError where that is not allowed, or where `words` are more than packages.
    """
    if not toolbox.params.allow_pip:
        fix = "agent.allow_pip: true in params.yaml lets it install into the workspace"
        raise GenlabError(f"pip install is refused, code has no network here; {fix}")
    wanted = [_check(word) for word in words if word not in IGNORED]
    if not wanted:
        raise GenlabError(f"pip install: no package is named; {FIX}")
    index = ["--index-url", toolbox.pip_index] if toolbox.pip_index else []
    target = toolbox.workspace.root.resolve() / PACKAGES
    argv = [
        sys.executable, "-I", "-m", "pip", "install", "--isolated", "--no-input",
        "--disable-pip-version-check", "--only-binary=:all:", "--upgrade", "--target", str(target),
        *index, "--", *wanted,
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.defpath, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}
        try:
            done = subprocess.run(argv, env=env, cwd=home, stdin=DEVNULL, stdout=PIPE,
                                  stderr=STDOUT, errors="replace", timeout=TIMEOUT)  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"[stopped: pip took longer than {TIMEOUT:g} s]\n[exit code 1]"
    return f"{printable(done.stdout)[-MAX_OUTPUT:]}[exit code {done.returncode}]"


def _check(word: str) -> str:
    """The package that a word names. Raises a GenlabError for whatever else pip would take."""
    try:
        found = Requirement(word)
    except InvalidRequirement as error:
        raise GenlabError(f"pip install: {word[:60]!r} is no package; {FIX}") from error
    if found.url is not None:
        raise GenlabError(f"pip install: {word[:60]!r} names an address; {FIX}")
    return str(found)
