"""Fail if dvc.lock does not fit the code, params and small results in git.

    python scripts/check_lock.py

On a clean checkout the large outs (data/) are absent: their hashes are compared from stage to stage
inside dvc.lock instead. Stages params and shared_params depend on all source files, but a reworded
comment does not change what they write: they are stale if they would write something else. Exits
with status 1 after printing what is stale and why.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from dvc.dependency import ParamsDependency
from dvc.repo import Repo

from genlab.core.code import add_code
from genlab.core.params import load_params

RESOLVING = ("params", "shared_params")
ABSENT = ("deleted", "not in cache")
ALWAYS = "always changed"  # dvc's status of stage source, which runs every time
FIX = "run `make repro`, then commit dvc.lock with metrics/, plots/ and results/"


def find_stale() -> list[str]:
    """Return a line for each thing in the current project that dvc.lock does not fit."""
    with Repo() as repo:
        return [*find_unresolved(repo), *find_changes(repo), *find_broken_chains(repo)]


def find_unresolved(repo: Repo) -> Iterator[str]:
    """Find files of stages params and shared_params that these would now write differently."""
    for stage in repo.index.stages:
        name, _, dataset = stage.addressing.partition("@")
        if name not in RESOLVING:
            continue
        path = Path("results", dataset, "params.json")
        written = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        params = load_params()
        idle = "idle" in written.get("agent_iterate", {})
        resolved = params.resolve(dataset) if dataset else params.resolve_shared(idle=idle)
        values = add_code(resolved)
        listing = written.get("generate", {}).get("files")
        if listing:  # of files that may not be on this machine
            values["generate"]["files"] = listing
        if written != values:
            yield f"{stage.addressing}: would write another {path}"


def find_changes(repo: Repo) -> Iterator[str]:
    """Find what dvc's status reports as changed, except absent outs that git ignores."""
    for stage, changes in repo.status().items():
        for change in changes:
            if change == ALWAYS:
                continue
            if isinstance(change, str):
                yield f"{stage}: {change}"
                continue
            for kind, paths in change.items():
                if kind == "changed deps" and stage.partition("@")[0] in RESOLVING:
                    continue  # see find_unresolved
                for path, state in paths.items():
                    if isinstance(state, dict):  # a params file: {key: state}
                        yield from (f"{stage}: {kind}: {path}:{k}: {s}" for k, s in state.items())
                    elif state not in ABSENT or not repo.scm.is_ignored(f"{repo.root_dir}/{path}"):
                        yield f"{stage}: {kind}: {path}: {state}"


def find_broken_chains(repo: Repo) -> Iterator[str]:
    """Find stages that ran on another version of an out than the one in the lock."""
    producers = {str(out): (out.stage.addressing, out.hash_info) for out in repo.index.outs}
    for dep in repo.index.deps:
        if isinstance(dep, ParamsDependency):  # dvc's status compares values of params
            continue
        producer, out_hash = producers.get(str(dep), ("", dep.hash_info))
        if out_hash != dep.hash_info:
            yield f"{dep.stage.addressing}: was run on another {dep} than {producer} wrote"


def main() -> int:
    """Print what is stale; return 0 if nothing is."""
    lines = find_stale()
    for line in lines:
        print(f"stale: {line}", file=sys.stderr)
    if lines:
        print(f"{len(lines)} stale: {FIX}", file=sys.stderr)
        return 1
    print("dvc.lock fits the code, the params and the results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
