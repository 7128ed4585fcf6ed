"""Test cases, the pipeline as DVC reports it, key numbers of each dataset, changes, next step."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import streamlit as st

from genlab.benchmark.service.jobs import jobs
from genlab.core import git
from genlab.core.errors import GenlabError
from genlab.evaluation.reports.formats import format_value, to_words
from genlab.web.components import frame, grid
from genlab.web.components.escape import label
from genlab.web.files import UNFIT, stamp
from genlab.web.pages.evaluation import show_verdict

Row = dict[str, str]

ROOT = Path()
DVC = (sys.executable, "-m", "dvc")
WATCHED = (
    "dvc.yaml", "dvc.lock", "params.yaml", "src", "stages", "data", "metrics", "plots",
    ".git/logs/HEAD",
)  # fmt: skip
ALWAYS = "always changed"
POOL = ThreadPoolExecutor(1)  # one thread: DVC is never asked twice at once


class Status(NamedTuple):
    """DVC's answers as tables, or why there is none.

    stages: states of stages by dataset. stale: stages that would run again, and why. changes:
    metrics that differ from the last commit.
    """

    stages: Sequence[Row] = ()
    stale: Sequence[Row] = ()
    changes: Sequence[Row] = ()
    fault: str | None = None


@st.cache_resource(max_entries=1, show_spinner=False)
def ask(root: Path, state: int) -> Future[Status]:
    """DVC's answer about the files whose `fingerprint` is `state`, asked in the background."""
    return POOL.submit(_ask_dvc, root, state)


def fingerprint(root: Path) -> int:
    """Hash of the stamps of all files that the status depends on.

    Hidden folders, such as those of runs under way, are left out: they change all the time.
    """
    files = [root / name for name in WATCHED if (root / name).is_file()]
    for name in WATCHED:
        for folder, folders, names in os.walk(root / name):
            folders[:] = sorted(d for d in folders if not d.startswith((".", "__pycache__")))
            files += [Path(folder, each) for each in sorted(names)]
    return hash(tuple(map(stamp, files)))


def _ask_dvc(root: Path, state: int) -> Status:
    if fingerprint(root) != state:  # the question has waited, and nobody needs the answer
        return Status()
    if not (root / ".dvc").is_dir():
        return Status(fault=f"{root} is no project of dvc; run: git clone, then dvc pull")
    try:
        addresses = _run_dvc(root, "stage", "list", "--name-only").splitlines()
        changes = json.loads(_run_dvc(root, "status", "--json") or "{}")
        # Stage source looks for changes whenever it runs: that is no change.
        changes = {name: [each for each in why if each != ALWAYS] for name, why in changes.items()}
        stale = {name: why for name, why in changes.items() if why}
        metrics = json.loads(_run_dvc(root, "metrics", "diff", "--json") or "{}")
        stages: dict[str, Row] = {}
        for address in addresses:  # `stage@dataset`; one without a dataset is run once
            stage, _, dataset = address.partition("@")
            row = stages.setdefault(stage, {"stage": to_words(stage)})
            row[dataset or "all_datasets"] = "stale" if address in stale else "up to date"
        columns = dict.fromkeys(column for row in stages.values() for column in row)
        return Status(
            [{column: row.get(column, "–") for column in columns} for row in stages.values()],
            [{"stage": name, "reasons": format_value(found)} for name, found in stale.items()],
            [
                {"metrics": Path(path).stem, "name": to_words(name)}
                | {"committed": format_value(both.get("old")), "now": format_value(both.get("new"))}
                for path, numbers in metrics.items()  # {path: {name: {old, new}}}
                for name, both in numbers.items()
            ],
        )
    except (GenlabError, OSError, subprocess.TimeoutExpired) as error:
        return Status(fault=str(error))
    except UNFIT as error:
        return Status(fault=f"dvc printed no JSON of a known form ({error})")


def _run_dvc(root: Path, *command: str) -> str:
    # A second dvc must not touch what a run writes: status only reads, but it compiles modules.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "DVC_NO_ANALYTICS": "1"}
    done = subprocess.run(
        [*DVC, *command], cwd=root, env=environment, capture_output=True, text=True,
        timeout=120,  # hashing gigabytes for the first time takes long
    )  # fmt: skip
    if done.returncode:
        reason = " ".join(done.stderr.split())
        if "Unable to acquire lock" in reason or "is busy" in reason:
            raise GenlabError("A run is under way: dvc reports the state when it has ended.")
        raise GenlabError(f"dvc {command[0]} failed: {reason[:200] or 'no message'}")
    return done.stdout


@st.fragment(run_every=1)
def wait_for(answer: Future[Status]) -> None:
    """Shown until DVC has answered; then the page runs once more, without the clock."""
    st.caption("Asking dvc for the state of the pipeline …")
    if answer.done():
        st.rerun()


def main() -> None:
    with frame.sentences():
        st.html(grid.gallery(jobs().cases()))
    root = ROOT.absolute()
    answer = ask(root, fingerprint(root))
    status = answer.result() if answer.done() else None
    if status is None:
        wait_for(answer)
    elif status.fault:
        st.warning(label(status.fault))
    else:
        frame.table(status.stages, "Stages of the pipeline")
        if status.stale:
            frame.table(status.stale, "Why stages would run again")
        st.write(f"Next: `{'make repro' if status.stale else 'make report'}`")
    for name in frame.params().datasets:
        st.subheader(frame.params().dataset(name).title, anchor=False)
        with frame.sentences():
            show_verdict(ROOT, name)
    if status is None:
        return
    st.subheader("Since the last commit", anchor=False)
    commit = git.run_git(ROOT, "log", "-1", "--format=%h %s, %cr") or b"no commit yet"
    st.caption(f"Compared with {label(commit.decode(errors='replace'))}.")
    if status.changes:
        frame.table(status.changes, "Metrics that differ")
    elif not status.fault:
        st.write("No metric differs.")
