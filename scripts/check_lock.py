"""Fail when dvc.lock is stale against the code, params and small results that git holds.

    python scripts/check_lock.py

On a clean checkout the large outs (data/) are absent: their hashes are compared from stage to stage
inside dvc.lock instead. Exit status 1 names what is stale and why.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ABSENT = ("deleted", "not in cache")
FIX = "run `make repro`, then commit dvc.lock with metrics/, plots/ and results/"


def find_stale(root: Path) -> list[str]:
    """One line for each thing in `root` that dvc.lock does not fit."""
    lock = root / "dvc.lock"
    if not lock.is_file():
        return ["dvc.lock is missing"]
    stages: dict[str, Any] = YAML(typ="safe").load(lock.read_text(encoding="utf-8"))["stages"]
    return find_changes(root) + find_broken_chains(stages)


def find_changes(root: Path) -> list[str]:
    """What `dvc status` finds changed, except absent outs that git does not hold."""
    command = [sys.executable, "-m", "dvc", "status", "--json"]
    status = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if status.returncode:
        return [f"dvc status failed: {status.stderr.strip()}"]
    lines = []
    for stage, changes in json.loads(status.stdout or "{}").items():
        for change in changes:
            if isinstance(change, str):
                lines.append(f"{stage}: {change}")
                continue
            for kind, paths in change.items():
                for path, state in paths.items():
                    if isinstance(state, dict):  # a params file: {key: state}
                        lines += [f"{stage}: {kind}: {path}:{key}: {s}" for key, s in state.items()]
                    elif state not in ABSENT or not is_ignored(root, path):
                        lines.append(f"{stage}: {kind}: {path}: {state}")
    return lines


def is_ignored(root: Path, path: str) -> bool:
    """Whether git ignores `path`."""
    return subprocess.run(["git", "check-ignore", "-q", path], cwd=root).returncode == 0


def find_broken_chains(stages: dict[str, Any]) -> list[str]:
    """Stages that were run on another version of an out than the lock holds."""
    made = {
        out["path"]: (name, out["md5"])
        for name, stage in stages.items()
        for out in stage.get("outs", [])
    }
    return [
        f"{name}: was run on another {dep['path']} than {made[dep['path']][0]} made"
        for name, stage in stages.items()
        for dep in stage.get("deps", [])
        if dep["path"] in made and made[dep["path"]][1] != dep["md5"]
    ]


def main() -> int:
    """Print what is stale; 0 where nothing is."""
    lines = find_stale(Path.cwd())
    for line in lines:
        print(f"stale: {line}", file=sys.stderr)
    if lines:
        print(f"{len(lines)} stale: {FIX}", file=sys.stderr)
        return 1
    print("dvc.lock fits the code, the params and the results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
