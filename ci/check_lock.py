"""Fail when dvc.lock is stale against the code, params and small results that git holds.

    python ci/check_lock.py

On a clean checkout the large outs (data/) are absent, and that is no fault: their hashes are
compared from stage to stage inside dvc.lock instead. Exit status 1 names what is stale and why.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ABSENT = ("deleted", "not in cache")
FIX = "run `make repro`, then commit dvc.lock with metrics/ and plots/"


def stale(root: Path) -> list[str]:
    """One line for each thing in `root` that dvc.lock does not fit."""
    lock = root / "dvc.lock"
    if not lock.is_file():
        return ["dvc.lock is missing"]
    stages: dict[str, Any] = YAML(typ="safe").load(lock.read_text(encoding="utf-8"))["stages"]
    return _changed(root) + _torn_chains(stages)


def _changed(root: Path) -> list[str]:
    """What dvc itself finds changed, but for outs that git does not hold and that are absent."""
    status = subprocess.run(
        [sys.executable, "-m", "dvc", "status", "--json"], cwd=root, capture_output=True, text=True
    )
    if status.returncode:
        return [f"dvc status failed: {status.stderr.strip()}"]
    lines = []
    for stage, changes in json.loads(status.stdout or "{}").items():
        for change in changes:
            if isinstance(change, str):
                lines.append(f"{stage}: {change}")
                continue
            for kind, places in change.items():
                for place, state in _flat(places):
                    if state not in ABSENT or not _is_ignored(root, place):
                        lines.append(f"{stage}: {kind}: {place}: {state}")
    return lines


def _flat(places: dict[str, Any]) -> list[tuple[str, str]]:
    pairs = []
    for place, state in places.items():
        if isinstance(state, dict):  # params.yaml: {key: state}
            pairs += [(f"{place}:{key}", str(value)) for key, value in state.items()]
        else:
            pairs.append((place, str(state)))
    return pairs


def _is_ignored(root: Path, place: str) -> bool:
    done = subprocess.run(["git", "check-ignore", "-q", place], cwd=root)
    return done.returncode == 0


def _torn_chains(stages: dict[str, Any]) -> list[str]:
    """Stages that were run on another version of an out than the lock holds."""
    made = {
        out["path"]: (name, out["md5"])
        for name, stage in stages.items()
        for out in stage.get("outs", [])
    }
    lines = []
    for name, stage in stages.items():
        for dep in stage.get("deps", []):
            maker, md5 = made.get(dep["path"], (None, None))
            if maker and md5 != dep["md5"]:
                lines.append(f"{name}: was run on another {dep['path']} than {maker} made")
    return lines


def main() -> int:
    """Print what is stale; 0 where nothing is."""
    lines = stale(Path.cwd())
    if not lines:
        print("dvc.lock fits the code, the params and the results")
        return 0
    for line in lines:
        print(f"stale: {line}", file=sys.stderr)
    print(f"{len(lines)} stale: {FIX}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
