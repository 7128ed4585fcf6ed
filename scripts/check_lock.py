"""Fail when dvc.lock is stale against the code, params and small results that git holds.

    python scripts/check_lock.py

On a clean checkout the large outs (data/) are absent: their hashes are compared from stage to stage
inside dvc.lock instead. Stages params and shared_params depend on all source files, and a reworded
comment changes nothing that they write: they are stale where they would write something else. Exit
status 1 names what is stale and why.
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
ALWAYS = "always changed"  # of stage source, which looks for changes whenever it runs
FIX = "run `make repro`, then commit dvc.lock with metrics/, plots/ and results/"


def find_stale() -> list[str]:
    """One line for each thing of the project here that dvc.lock does not fit."""
    with Repo() as repo:
        return [*find_unresolved(repo), *find_changes(repo), *find_broken_chains(repo)]


def find_unresolved(repo: Repo) -> Iterator[str]:
    """Files of stages params and shared_params that are not what these would write now."""
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
        if files := written.get("generate", {}).get("files"):  # which may not be on this machine
            values["generate"]["files"] = files
        if written != values:
            yield f"{stage.addressing}: would write another {path}"


def find_changes(repo: Repo) -> Iterator[str]:
    """What dvc's status finds changed, except absent outs that git does not hold."""
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
    """Stages that were run on another version of an out than the lock holds."""
    made = {str(out): (out.stage.addressing, out.hash_info) for out in repo.index.outs}
    for dep in repo.index.deps:
        if isinstance(dep, ParamsDependency):  # of values in a file: dvc's status compares them
            continue
        maker, made_hash = made.get(str(dep), ("", dep.hash_info))
        if made_hash != dep.hash_info:
            yield f"{dep.stage.addressing}: was run on another {dep} than {maker} made"


def main() -> int:
    """Print what is stale; 0 where nothing is."""
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
