"""Overview: test cases, state of the pipeline, key numbers of each dataset, changes, next step."""

import json
import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from genlab.benchmark.service.jobs import jobs
from genlab.core import git
from genlab.core.errors import GenlabError
from genlab.evaluation.reports.formats import format_value, to_words
from genlab.web.components import figures, frame
from genlab.web.components.escape import label
from genlab.web.files import CONTENT_ERRORS, file_version
from genlab.web.pages.evaluation import show_verdict

Row = dict[str, str]

ROOT = Path()
DVC = (sys.executable, "-m", "dvc")
WATCHED = (
    "dvc.yaml", "dvc.lock", "params.yaml", "src", "stages", "data", "metrics", "plots",
    ".git/logs/HEAD",
)  # fmt: skip
ALWAYS = "always changed"
POOL = ThreadPoolExecutor(1)  # one thread: DVC is never asked twice at a time


class Status(NamedTuple):
    """DVC's answers as tables, or why there are none.

    stages: states of stages by dataset. stale: stages that would run again, and why. changes:
    metrics that differ from the last commit.
    """

    stages: Sequence[Row] = ()
    stale: Sequence[Row] = ()
    changes: Sequence[Row] = ()
    fault: str | None = None


@st.cache_resource(max_entries=1, show_spinner=False)
def ask(root: Path, state: int) -> Future[Status]:
    """Ask DVC in the background about the files whose `fingerprint` is `state`."""
    return POOL.submit(_ask_dvc, root, state)


def fingerprint(root: Path) -> int:
    """Hash the versions of all files that the status depends on.

    Hidden folders, such as those of runs under way, are left out: they change all the time.
    """
    files = [root / name for name in WATCHED if (root / name).is_file()]
    for name in WATCHED:
        for folder, folders, names in os.walk(root / name):
            folders[:] = sorted(d for d in folders if not d.startswith((".", "__pycache__")))
            files += [Path(folder, file) for file in sorted(names)]
    return hash(tuple(map(file_version, files)))


def _ask_dvc(root: Path, state: int) -> Status:
    if fingerprint(root) != state:  # the files have changed meanwhile: nobody needs the answer
        return Status()
    if not (root / ".dvc").is_dir():
        return Status(fault=f"{root} is no project of dvc; run: git clone, then dvc pull")
    try:
        addresses = _run_dvc(root, "stage", "list", "--name-only").splitlines()
        status = json.loads(_run_dvc(root, "status", "--json") or "{}")
        metrics = json.loads(_run_dvc(root, "metrics", "diff", "--json") or "{}")
        stale = _find_stale(status)
        return Status(
            _tabulate_stages(addresses, stale),
            [{"stage": name, "reasons": format_value(why)} for name, why in stale.items()],
            _tabulate_changes(metrics),
        )
    except (GenlabError, OSError, subprocess.TimeoutExpired) as error:
        return Status(fault=str(error))
    except CONTENT_ERRORS as error:
        return Status(fault=f"dvc printed no JSON of a known form ({error})")


def _find_stale(status: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the reasons of the stages that would run again. status: of `dvc status`."""
    stale = {}
    for name, reasons in status.items():
        # Stage source looks for changes whenever it runs: that is no change.
        changes = [reason for reason in reasons if reason != ALWAYS]
        if changes:
            stale[name] = changes
    return stale


def _tabulate_stages(addresses: Sequence[str], stale: Collection[str]) -> list[Row]:
    """Make the table of stages by dataset. addresses: `stage@dataset`, or `stage` if run once."""
    stages: dict[str, Row] = {}
    for address in addresses:
        stage, _, dataset = address.partition("@")
        row = stages.setdefault(stage, {"stage": to_words(stage)})
        row[dataset or "all_datasets"] = "stale" if address in stale else "up to date"
    columns = dict.fromkeys(column for row in stages.values() for column in row)
    return [{column: row.get(column, "–") for column in columns} for row in stages.values()]


def _tabulate_changes(metrics: dict[str, dict[str, dict[str, Any]]]) -> list[Row]:
    """Make the table of changed metrics. metrics: {path: {name: {old, new}}}."""
    return [
        {
            "metrics": Path(path).stem,
            "name": to_words(name),
            "committed": format_value(values.get("old")),
            "now": format_value(values.get("new")),
        }
        for path, numbers in metrics.items()
        for name, values in numbers.items()
    ]


def _run_dvc(root: Path, *command: str) -> str:
    # This dvc must not write into folders that a run uses: status only reads, but compiles modules.
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
    """Show a note until DVC has answered; then run the whole page again."""
    st.caption("Asking dvc for the state of the pipeline …")
    if answer.done():
        st.rerun()


def main() -> None:
    with frame.show_errors():
        st.html(figures.gallery(jobs().cases()))
    root = ROOT.absolute()
    answer = ask(root, fingerprint(root))
    status = answer.result() if answer.done() else None
    if status is None:
        wait_for(answer)
    elif status.fault:
        st.warning(label(status.fault))
    else:
        frame.show_table(status.stages, "Stages of the pipeline")
        if status.stale:
            frame.show_table(status.stale, "Why stages would run again")
        st.write(f"Next: `{'make repro' if status.stale else 'make report'}`")
    for name in frame.params().datasets:
        st.subheader(frame.params().dataset(name).title, anchor=False)
        with frame.show_errors():
            show_verdict(ROOT, name)
    if status is None:
        return
    st.subheader("Since the last commit", anchor=False)
    commit = git.run_git(ROOT, "log", "-1", "--format=%h %s, %cr") or b"no commit yet"
    st.caption(f"Compared with {label(commit.decode(errors='replace'))}.")
    if status.changes:
        frame.show_table(status.changes, "Metrics that differ")
    elif not status.fault:
        st.write("No metric differs.")
