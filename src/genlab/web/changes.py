"""What changed since the last commit: the numbers of the results, compared with git's."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from genlab.core import git
from genlab.core.errors import GenlabError
from genlab.web.files import Missing, json_at

FILES = ("metrics", "training", "verdict", "data")
LEFT_OUT = {"intervals", "series"}
"""Keys under which every number moves with the headline number: they would bury it."""

Leaf = float | bool | str | None


@dataclass(frozen=True)
class Change:
    """A number of a dataset's results that differs from the one in the last commit."""

    dataset: str
    file: str
    name: str
    before: Leaf
    after: Leaf

    @property
    def relative(self) -> float | None:
        """Change over the old value; None where that says nothing."""
        old, new = self.before, self.after
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (old, new))
        if not numbers or not old:
            return None
        return (float(new or 0) - float(old)) / abs(float(old))

    @property
    def size(self) -> float:
        """How much it matters in a list: other words first, then by relative change."""
        return math.inf if self.relative is None else abs(self.relative)


def changes(root: Path, datasets: Sequence[str]) -> list[Change]:
    """Every difference, the largest first. Raises Missing outside a git repository."""
    commit = head(root)
    found = []
    for dataset in datasets:
        for file in FILES:
            path = f"results/{dataset}/{file}.json"
            before = dict(leaves(_committed(root, commit, path)))
            after = dict(leaves(_now(root / path)))
            names = dict.fromkeys([*before, *after])
            found += [
                Change(dataset, file, name, before.get(name), after.get(name))
                for name in names
                if before.get(name) != after.get(name)
            ]
    return sorted(found, key=lambda change: -change.size)


def head(root: Path) -> str:
    """The commit that is checked out. Raises Missing where there is none."""
    said = git.ask(root, "rev-parse", "HEAD")
    if said is None:
        raise Missing("there is no commit to compare the results with", "git commit")
    return said.decode().strip()


def about(root: Path) -> str:
    """The last commit in words: its short name, its subject and how long ago it was."""
    said = git.ask(root, "log", "-1", "--format=%h %s, %cr")
    return said.decode(errors="replace").strip() if said else "no commit yet"


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Leaf]]:
    """Dotted names and values of everything in JSON that is no list of numbers and not LEFT_OUT.

    Members of a list that have a `name`, such as criteria, are known by it.
    """
    if isinstance(value, Mapping):
        for key, entry in value.items():
            if key not in LEFT_OUT:
                yield from leaves(entry, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for entry in value:
            if isinstance(entry, Mapping) and "name" in entry:
                rest = {key: v for key, v in entry.items() if key in ("value", "passed")}
                yield from leaves(rest, f"{name}.{entry['name']}")
    else:
        yield name, value


def _now(path: Path) -> Any:
    try:
        return json_at(path, producer_command="make repro")
    except GenlabError:
        return {}  # gone or broken: all of its numbers are listed as gone


@lru_cache(maxsize=64)
def _committed(root: Path, commit: str, path: str) -> Any:
    """The file's content in `commit`; nothing where it holds no such file, or no JSON."""
    try:
        return json.loads(git.ask(root, "show", f"{commit}:{path}") or "{}")
    except ValueError:
        return {}
