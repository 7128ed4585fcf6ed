"""pip, for a workspace alone, where the param `agent.allow_pip` says so.

The sandbox has no network, so pip runs outside of it, and is narrow: names and versions of packages
only (no address, path, index or option of the LLM's choosing), wheels only, so that no package's
code runs when it is installed, into the workspace's own `.packages`, with an environment that holds
no key. What was installed is imported in the sandbox alone, by `bash_run` and `python_run`; models
are built and marked without it.

What that leaves open, and why it is off: a package's name is an LLM's word, so a name that is
squatted brings a stranger's wheel onto the disk; what is asked for tells an index (and whoever
reads its logs) a little; and nothing bounds how much disk a wheel takes.
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

from genlab.agent.toolbox import PACKAGES, Toolbox
from genlab.core.errors import GenlabError

PIP = re.compile(r"pip[\d.]*")
PYTHON = re.compile(r"python[\d.]*")
ASSIGNMENT = re.compile(r"\w+=")
IDLE = ("-q", "--quiet", "-U", "--upgrade", "--user", "--no-cache-dir", "--no-input")
FILES = ("-r", "--requirement")
SECONDS = 600.0
LONGEST = 4000  # characters of what pip says
FIX = "name packages and versions alone, such as: pip install 'einops>=0.8'"


def pip_words(command: str) -> list[str] | None:
    """What `command` asks pip to install; None where it is no such command.

    Raises GenlabError where pip stands among other commands.
    """
    commands = list(_commands(command))
    found = [words for each in commands if (words := _installs(each)) is not None]
    if not found:
        return None
    if len(commands) > 1:
        raise GenlabError("bash_run: pip install has to be a command of its own; run it by itself")
    return found[0]


def install(box: Toolbox, words: Sequence[str]) -> str:
    """Install into the workspace; what pip said, and how it ended.

    Raises GenlabError where that isn't allowed, or where `words` are more than packages.
    """
    if not box.allow_pip:
        raise GenlabError(
            "bash_run: pip install is refused, code has no network here; set agent.allow_pip: true"
            " in params.yaml to let it install into the workspace"
        )
    asked = list(_requirements(box, words))
    if not asked:
        raise GenlabError(f"pip install: no package is named; {FIX}")
    index = ["--index-url", box.pip_index] if box.pip_index else []
    target = box.workspace.root.resolve() / PACKAGES
    argv = [
        sys.executable, "-I", "-m", "pip", "install", "--isolated", "--no-input",
        "--disable-pip-version-check", "--only-binary=:all:", "--upgrade", "--target", str(target),
        *index, "--", *asked,
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.defpath, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}
        try:
            done = subprocess.run(
                argv, env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, errors="replace", timeout=SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"[stopped: pip took longer than {SECONDS:g} s]\n[exit code 1]"
    said = (
        done.stdout if len(done.stdout) <= LONGEST else "[... cut ...]\n" + done.stdout[-LONGEST:]
    )
    return f"{said}[exit code {done.returncode}]"


def _commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a line of bash; none where its quotes don't close."""
    lexer = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars=True)
    words: list[str] = []
    try:
        for word in lexer:
            if word and set(word) <= set("();<>|&"):
                if words:
                    yield words
                words = []
            else:
                words.append(word)
    except ValueError:
        return
    if words:
        yield words


def _installs(words: list[str]) -> list[str] | None:
    """The words behind `pip install`, if a simple command is one."""
    while words and (ASSIGNMENT.match(words[0]) or words[0] in ("env", "sudo", "exec", "command")):
        words = words[1:]
    if not words:
        return None
    head = Path(words[0]).name
    if PYTHON.fullmatch(head) and words[1:3] == ["-m", "pip"]:
        words = words[2:]
    elif not PIP.fullmatch(head):
        return None
    return words[words.index("install") + 1 :] if "install" in words else None


def _requirements(box: Toolbox, words: Sequence[str]) -> Iterator[str]:
    """The packages that are meant. Raises GenlabError for whatever else pip would take."""
    rest = iter(words)
    for word in rest:
        if word in FILES:
            yield from _of_file(box, next(rest, ""))
        elif word not in IDLE:
            yield _requirement(word)


def _of_file(box: Toolbox, name: str) -> Iterator[str]:
    path = box.workspace.inside(name)
    if not path.is_file():
        raise GenlabError(f"pip install -r {name}: no such file in the workspace; {FIX}")
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        words = line.partition("#")[0].strip()
        if words:
            yield _requirement(words)


def _requirement(word: str) -> str:
    try:
        found = Requirement(word)
    except InvalidRequirement as error:
        raise GenlabError(f"pip install: {word[:60]!r} is no package; {FIX}") from error
    if found.url is not None:
        raise GenlabError(f"pip install: {word[:60]!r} names an address; {FIX}")
    return str(found)
