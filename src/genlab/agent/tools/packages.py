"""pip for a workspace, where the parameter agent.allow_pip allows it.

The sandbox has no network, so pip runs outside of it, with narrow arguments: names and versions of
packages only (no address, path, index or option), wheels only, so that no package's code runs
while it is installed, into the workspace's `.packages`, with an environment that holds no key.
What is installed is imported in the sandbox alone, by `bash_run` and `python_run`.

What that leaves open, and why it is off by default: a language model chooses the name, so a
squatted name brings a stranger's wheel to the disk; the index's logs show what was asked for; and
nothing bounds the size of a wheel.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from genlab.agent.tools.files import PACKAGES
from genlab.agent.tools.toolbox import Toolbox
from genlab.core.errors import GenlabError
from genlab.core.text import printable

PIP, PYTHON = re.compile(r"pip[\d.]*"), re.compile(r"python[\d.]*")
PREFIX = re.compile(r"\w+=.*|env|sudo|exec|command", re.DOTALL)
IGNORED = ("-q", "--quiet", "-U", "--upgrade", "--user", "--no-cache-dir", "--no-input")
TIMEOUT = 600.0  # seconds
MAX_OUTPUT = 4000  # characters
FIX = "name packages and versions alone, such as: pip install 'einops>=0.8'"


def find_pip_install(command: str) -> list[str] | None:
    """What `command` asks pip to install; None where it is no such command.

    Raises a GenlabError where pip install stands among other commands.
    """
    commands = list(_split(command))
    found = [words for each in commands if (words := _installs(each)) is not None]
    if not found:
        return None
    if len(commands) > 1:
        raise GenlabError("bash_run: pip install must be the only command; run it by itself")
    return found[0]


def install(toolbox: Toolbox, words: Sequence[str]) -> str:
    """Install into the workspace; returns pip's output and exit code.

    Raises a GenlabError where that is not allowed, or where `words` are more than packages.
    """
    if not toolbox.params.allow_pip:
        raise GenlabError(
            "bash_run: pip install is refused, code has no network here; set agent.allow_pip: true"
            " in params.yaml to let it install into the workspace"
        )
    wanted = list(_requirements(toolbox, words))
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
            done = subprocess.run(
                argv, env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", timeout=TIMEOUT,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"[stopped: pip took longer than {TIMEOUT:g} s]\n[exit code 1]"
    return f"{printable(done.stdout)[-MAX_OUTPUT:]}[exit code {done.returncode}]"


def _split(line: str) -> Iterator[list[str]]:
    """The simple commands of a line of bash; none where its quotes do not close."""
    lexer = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars=True)
    words: list[str] = []
    try:
        for word in [*lexer, ";"]:
            if not set(word) <= set("();<>|&"):
                words.append(word)
            elif words:
                yield words
                words = []
    except ValueError:
        return


def _installs(words: list[str]) -> list[str] | None:
    """The words behind `pip install`, if a simple command is one."""
    while words and PREFIX.fullmatch(words[0]):
        words = words[1:]
    head = Path(words[0]).name if words else ""
    if PYTHON.fullmatch(head) and words[1:3] == ["-m", "pip"]:
        words = words[2:]
    elif not PIP.fullmatch(head):
        return None
    return words[words.index("install") + 1 :] if "install" in words else None


def _requirements(toolbox: Toolbox, words: Sequence[str]) -> Iterator[str]:
    """The packages that are named. Raises a GenlabError for whatever else pip would take."""
    rest = iter(words)
    for word in rest:
        if word in ("-r", "--requirement"):
            yield from _read_requirements(toolbox, next(rest, ""))
        elif word not in IGNORED:
            yield _check(word)


def _read_requirements(toolbox: Toolbox, name: str) -> Iterator[str]:
    path = toolbox.workspace.inside(name)
    if not path.is_file():
        raise GenlabError(f"pip install -r {name}: no such file in the workspace; {FIX}")
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if words := line.partition("#")[0].strip():
            yield _check(words)


def _check(word: str) -> str:
    try:
        found = Requirement(word)
    except InvalidRequirement as error:
        raise GenlabError(f"pip install: {word[:60]!r} is no package; {FIX}") from error
    if found.url is not None:
        raise GenlabError(f"pip install: {word[:60]!r} names an address; {FIX}")
    return str(found)
