"""Run documented experiments by `dvc exp run`; each result is a row of one CSV file."""

import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

from filelock import FileLock

from genlab.core import engine, git
from genlab.core.errors import GenlabError, acquire
from genlab.core.io import read_json, write_json
from genlab.core.progress import progress
from genlab.experiments.definitions import CODE, Experiment, fingerprint_code
from genlab.experiments.results import (
    PRODUCER,
    RESULTS_FILE,
    flatten_results,
    read_table,
    write_rows,
)

LOGS = Path("runs") / "experiments"


def run_pending(
    described: list[Experiment], selected: list[Experiment], *, jobs: int, force: bool
) -> tuple[int, list[str]]:
    """Run selected experiments whose row is missing or not current.

    A finished run's row is kept in runs/experiments, and moved to the results file when none is in
    progress: `dvc exp run` stashes what is not committed for a moment, and then resets the files
    that git tracks. An interrupted call resumes where it stopped. An experiment that fails does
    not stop the others. Rows of experiments that are not in `described` are dropped. Returns the
    number of finished runs, and the failures' messages. Raises a `GenlabError` if another call is
    running experiments here.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    fault = f"another {PRODUCER!r} is at work here; wait for it, or stop it"
    with acquire(FileLock(LOGS / "lock", timeout=0), fault):
        pending = list_pending(selected, force=force)
        try:
            failures = _run_all(pending, jobs)
        finally:
            _gather_rows(described)
    return len(pending) - len(failures), failures


def _run_all(pending: list[Experiment], jobs: int) -> list[str]:
    """Run experiments, `jobs` at a time, and keep their rows; return the failures' messages."""
    failures: list[str] = []
    with ThreadPoolExecutor(jobs) as pool, progress(total=len(pending), unit="run") as bar:
        experiments = {
            pool.submit(run_experiment, experiment): experiment for experiment in pending
        }
        try:
            for future in as_completed(experiments):
                try:
                    write_json(LOGS / f"{experiments[future].name}.json", future.result())
                except GenlabError as error:
                    failures.append(str(error))
                bar.update()
        finally:  # after Ctrl-C, start no further run
            pool.shutdown(wait=False, cancel_futures=True)
    return failures


def list_pending(selected: list[Experiment], *, force: bool) -> list[Experiment]:
    """List the selected experiments whose row is missing or not current; with `force`, all."""
    rows = _read_rows()
    return [
        experiment
        for experiment in selected
        if force or not experiment.is_current(rows.get(experiment.name, {}))
    ]


def estimate_minutes(experiment: Experiment) -> float | None:
    """Estimate the minutes of a run on its threads: from other seeds on such a machine, if any.

    The median of the measured runs of its entry, else `minutes` of experiments.yaml.
    """
    machine = experiment.machine
    measured = [
        float(row["seconds"]) / 60
        for row in _read_rows().values()
        if row["entry"] == experiment.entry and row["machine"] == machine
    ]
    return median(measured) if measured else experiment.minutes


def describe_pending(pending: list[Experiment], *, jobs: int) -> str:
    """Describe what is left to run: a line per entry, then the hours of all of them.

    A run takes its share of `jobs`, or of the cores where its threads take more of them.
    """
    cores = os.cpu_count() or 1
    lines = []
    total = 0.0
    for entry, group in groupby(pending, key=attrgetter("entry")):
        runs = list(group)
        minutes = [estimate_minutes(run) for run in runs]
        estimate = sum(value or 0.0 for value in minutes)
        total += estimate * max(1 / jobs, min(1.0, runs[0].threads / cores))
        text = "time unknown" if None in minutes else f"{estimate:.0f} minutes"
        lines.append(f"  {entry}: {len(runs)} of its runs, {text}")
    lines.append(f"{len(pending)} runs left, about {total / 60:.1f} hours, {jobs} at a time")
    return "\n".join(lines)


def run_experiment(experiment: Experiment) -> dict[str, Any]:
    """Run an experiment in a temporary folder and return its row.

    Raises a `GenlabError` if `dvc exp run` fails (the error names the log), if the code has changed
    since the fingerprint was taken, or if this machine lacks the device.
    """
    name = experiment.name
    try:
        engine.select_device(experiment.params.get("device", "auto"))
    except GenlabError as error:
        raise GenlabError(f"{name}: {error}", key=error.key) from error
    code = fingerprint_code(Path())
    changed = [name for name in CODE if code[name] != experiment.fingerprint[name]]
    if changed:
        raise GenlabError(
            f"{name}: the files of {' and '.join(changed)} changed while experiments were running;"
            f" run again: {PRODUCER}",
            fix=PRODUCER,
        )
    log = LOGS / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    if experiment.prepare:
        with log.open("wb") as output:
            _run(shlex.split(experiment.prepare), output)
    start = time.monotonic()
    # dvc refuses a name that an earlier run on this commit has.
    _run_dvc(["exp", "remove", "--quiet", name], subprocess.DEVNULL)
    previous = _find_newest_commit(name)
    with log.open("ab" if experiment.prepare else "wb") as output:
        _run_dvc(experiment.arguments, output)
    # dvc's exit status does not tell: one of several parallel runs may run what another has queued.
    commit = _find_newest_commit(name)
    if commit in ("", previous):
        raise GenlabError(f"{name} failed: {_find_reason(log)} (whole log: {log})", path=log)
    results = {
        file: json.loads(_read_committed(commit, f"results/{experiment.dataset}/{file}.json"))
        for file in ("metrics", "training", "verdict", "diagnosis")
    }
    seconds = round(time.monotonic() - start, 1)
    return {**experiment.columns, "seconds": seconds, **flatten_results(**results)}


def _find_reason(log: Path) -> str:
    """Return the first error in the log of a failed run; else its first line."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [line for line in lines if line.startswith(("genlab: error: ", "ERROR: "))]
    return (errors or lines or ["no output"])[0].rpartition("rror: ")[2]


def _read_rows() -> dict[str, dict[str, Any]]:
    """Read the rows of the results file, and those that are not yet in it."""
    rows: dict[str, dict[str, Any]] = {}
    if RESULTS_FILE.exists():
        table = read_table(RESULTS_FILE, dtype=str, keep_default_na=False)
        rows = {str(name): row for name, row in table.to_dict("index").items()}
    for file in LOGS.glob("*.json"):
        rows[file.stem] = read_json(file, producer_command=PRODUCER)
    return rows


def _gather_rows(described: list[Experiment]) -> None:
    """Move the rows of finished runs to the results file."""
    files = list(LOGS.glob("*.json"))
    if not files:
        return
    rows = _read_rows()
    names = [experiment.name for experiment in described]
    write_rows(RESULTS_FILE, {name: rows[name] for name in names if name in rows})
    for file in files:
        file.unlink()


def _find_newest_commit(name: str) -> str:
    """Return the newest commit of an experiment, on any base commit; empty if there is none."""
    options = ["--sort=-committerdate", "--count=1", "--format=%(objectname)"]
    commit = git.run_git(Path(), "for-each-ref", *options, f"refs/exps/*/*/{name}") or b""
    return commit.decode().strip()


def _read_committed(commit: str, path: str) -> bytes:
    content = git.run_git(Path(), "show", f"{commit}:{path}")
    if content is None:
        raise GenlabError(f"{commit} has no {path}", path=path)
    return content


def _run_dvc(arguments: list[str], output: Any) -> None:
    # Parallel runs wait for the lock of the repository.
    _run([sys.executable, "-m", "dvc", "--wait-for-lock", *arguments], output)


def _run(command: list[str], output: Any) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # PYTHONPATH is relative: a stage that runs in a temporary folder imports that folder's code.
    environment = {**os.environ, "PATH": path, "PYTHONPATH": "src"}
    subprocess.run(command, stdout=output, stderr=output, env=environment)
