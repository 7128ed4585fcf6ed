"""What changed since the last commit: the numbers of `dvc metrics diff`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genlab.core import git

Leaf = float | bool | str | None


@dataclass(frozen=True)
class Change:
    """A number of metrics/NAME.json that differs from the one in the last commit."""

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


def changes(diff: Mapping[str, Any]) -> list[Change]:
    """Every difference, the largest first; other words, and what is new or gone, before numbers.

    diff: the JSON of `dvc metrics diff`, {path: {name: {old, new}}}.
    """
    found = [
        Change(Path(path).stem, name, values.get("old"), values.get("new"))
        for path, numbers in diff.items()
        for name, values in numbers.items()
    ]
    return sorted(found, key=lambda c: -math.inf if c.relative is None else -abs(c.relative))


def last_commit(root: Path) -> str:
    """Its short name, its subject and how long ago it was."""
    said = git.ask(root, "log", "-1", "--format=%h %s, %cr")
    return said.decode(errors="replace").strip() if said else "no commit yet"
