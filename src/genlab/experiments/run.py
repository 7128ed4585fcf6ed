"""Documented experiments: each a line of `dvc exp run`, its results a row of one CSV file."""

import copy
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genlab.core import engine, git
from genlab.core.code import digest_code
from genlab.core.errors import GenlabError, did_you_mean, to_genlab_error
from genlab.core.io import read_yaml
from genlab.core.params import PARAMS_FILE, digest_values, parse_params
from genlab.core.progress import progress
from genlab.experiments.results import (
    PRODUCER,
    RESULTS_FILE,
    flatten_results,
    format_assignment,
    join_cells,
    read_table,
    write_rows,
)

LAST_STAGE = "failure_gallery"  # the last one of a dataset
LOGS = Path("runs") / "experiments"
MISFIT = ""  # in place of a digest: an experiment that does not fit the params, and is not run
CODE = {
    "code": ("generate", "split", "train"),
    "evaluation": ("judges", "evaluate"),
}
"""Stages by the part of the fingerprint that covers their code."""


class ExperimentEntry(BaseModel):
    """An entry of experiments.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    why: str = Field(min_length=1, description="What it shows, one sentence.")
    params: dict[str, Any] = Field(description="Params that differ, dotted keys.")
    sweep: list[str] = Field(default=[], description="Sweeps whose runs are compared.")
    base: str | None = Field(default=None, description="Experiment that they are added to.")
    dataset: str | None = Field(default=None, description="Dataset; else the base's, arc_grids.")
    seeds: list[int] = Field(default=[], description="Run once with each of these seeds.")
    manual: bool = Field(default=False, description="Run only where it is named.")


class Experiment(ExperimentEntry):
    """One run of an entry, its params complete."""

    name: str
    entry: str
    dataset: str
    seed: int
    changes: dict[str, Any]  # `params`, and `datasets` where its dataset is not among them
    fingerprint: dict[str, str]  # digests: `code`, `evaluation`, `params` that its stages read

    @property
    def arguments(self) -> list[str]:
        """Arguments of `dvc`: run the experiment's dataset alone, up to the failure gallery.

        The other datasets stay in the params: `dvc exp apply` removes the data of those that leave.
        """
        flags = [
            part
            for key, value in self.changes.items()
            for part in ("-S", format_assignment(key, value))
        ]
        return ["exp", "run", "--temp", "--name", self.name, *flags, f"{LAST_STAGE}@{self.dataset}"]

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of its row that say what it is; `command` is the line a person types."""
        return {
            "entry": self.entry,
            "sweep": join_cells(self.sweep),
            "dataset": self.dataset,
            "seed": self.seed,
            "why": self.why,
            "params": join_cells(
                format_assignment(key, value) for key, value in self.params.items()
            ),
            "command": shlex.join(["dvc", *self.arguments]),
            **{f"fingerprint.{part}": value for part, value in self.fingerprint.items()},
            "commit": git.describe_commit(Path(), "src", "stages", PARAMS_FILE),
            "machine": join_cells(
                f"{key}={value}" for key, value in engine.describe_machine().items()
            ),
        }

    def is_current(self, row: Mapping[str, Any]) -> bool:
        """Whether `row` was made with these params and this code; evaluation code may differ."""
        return all(row.get(f"fingerprint.{p}") == self.fingerprint[p] for p in ("code", "params"))


def load_experiments(
    path: str | Path, params_path: str | Path = PARAMS_FILE, only: Collection[str] = ()
) -> list[Experiment]:
    """Read experiments.yaml, one experiment per seed where it lists seeds, and check its params.

    only: runs, entries or sweeps that will be run; others may not fit the params. Raises a
    `GenlabError` for an error in the file, before anything is run.
    """
    defaults = read_yaml(params_path)
    code = fingerprint_code(Path())
    described: dict[str, ExperimentEntry] = {}
    found = []
    for name, entry in read_yaml(path).items():
        place = f"{path}: {name}"
        try:
            one = ExperimentEntry.model_validate(entry)
        except ValidationError as error:
            raise to_genlab_error(error, place, ExperimentEntry.model_fields) from error
        if one.base is not None and one.base not in described:
            near = did_you_mean(one.base, described)
            raise GenlabError(f"{place}: no experiment {one.base!r} above{near}", key=one.base)
        base = described[one.base] if one.base else ExperimentEntry(why="defaults", params={})
        dataset = one.dataset or base.dataset or "arc_grids"
        inherited = {"params": {**base.params, **one.params}, "dataset": dataset}
        described[name] = one = one.model_copy(update=inherited)
        runs = {f"{name}-seed{seed}": {"seed": seed} for seed in one.seeds} or {name: {}}
        for run, seed in runs.items():
            params = {**one.params, **seed}
            datasets = defaults["datasets"]
            added = {} if dataset in datasets else {"datasets": [*datasets, dataset]}
            changes = {**added, **params}
            resolved: dict[str, Any] = {
                "name": run,
                "entry": name,
                "params": params,
                "seed": params.get("seed", defaults["seed"]),
                "changes": changes,
                "fingerprint": {**code, "params": MISFIT},
            }
            try:
                checked = parse_params(apply_changes(defaults, changes, place), place)
                resolved["fingerprint"]["params"] = digest_values(checked.resolve(dataset))
            except GenlabError:
                if not only or {run, name, *one.sweep} & {*only}:
                    raise
            found.append(Experiment(**{**one.model_dump(), **resolved}))
    return found


def select_experiments(experiments: list[Experiment], names: list[str]) -> list[Experiment]:
    """Select by name of run, entry (all its seeds) or sweep; all but manual ones without names."""
    labels = [{one.name, one.entry, *one.sweep} for one in experiments]
    known = set().union(*labels)
    for name in names:
        if name not in known:
            near = did_you_mean(name, known)
            raise GenlabError(f"no experiment is called {name!r}{near}; see experiments.yaml")
    chosen = zip(experiments, labels, strict=True)
    return [one for one, own in chosen if (own & set(names) if names else not one.manual)]


def run_pending(
    described: list[Experiment], chosen: list[Experiment], *, jobs: int, force: bool
) -> tuple[int, list[str]]:
    """Run those of `chosen` whose row is missing or not current; return count, failures.

    The file is written after each run, so that an interrupted call resumes where it stopped. An
    experiment that fails does not stop the others. Rows of experiments that are no longer
    described are dropped.
    """
    rows = _read_rows()
    pending = [
        experiment
        for experiment in chosen
        if force or not experiment.is_current(rows.get(experiment.name, {}))
    ]
    failures: list[str] = []
    with ThreadPoolExecutor(jobs) as pool, progress(total=len(pending), unit="run") as bar:
        running = {pool.submit(run_experiment, experiment): experiment for experiment in pending}
        try:
            for done in as_completed(running):
                try:
                    _keep_row(running[done].name, done.result(), described)
                except GenlabError as error:
                    failures.append(str(error))
                bar.update()
        finally:  # after Ctrl-C nothing more is started
            pool.shutdown(wait=False, cancel_futures=True)
    return len(pending) - len(failures), failures


def run_experiment(experiment: Experiment) -> dict[str, Any]:
    """Run it in a temporary folder and return its row.

    Raises a `GenlabError` that names the log where `dvc exp run` fails, where the code has changed
    since the fingerprint was taken, and where this machine has not got the device.
    """
    name, dataset = experiment.name, experiment.dataset
    try:
        engine.select_device(experiment.params.get("device", "auto"))
    except GenlabError as error:
        raise GenlabError(f"{name}: {error}", key=error.key) from error
    code = fingerprint_code(Path())
    if changed := [part for part in CODE if code[part] != experiment.fingerprint[part]]:
        raise GenlabError(
            f"{name}: the files of {' and '.join(changed)} changed while experiments were running;"
            f" run again: {PRODUCER}",
            fix=PRODUCER,
        )
    log = LOGS / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    # An earlier run of this name on this commit would be in the way.
    _dvc(["exp", "remove", "--quiet", name], subprocess.DEVNULL)
    before = _newest(name)
    with log.open("wb") as output:
        _dvc(experiment.arguments, output)
    # Not by dvc's status: of runs beside each other, one may run what another has queued, too.
    if (commit := _newest(name)) in ("", before):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        said = [line for line in lines if line.startswith(("genlab: error: ", "ERROR: "))]
        reason = (said or lines or ["no output"])[0].rpartition("rror: ")[2]
        raise GenlabError(f"{name} failed: {reason} (whole log: {log})", path=log)
    results = {
        part: json.loads(_show(commit, f"results/{dataset}/{part}.json"))
        for part in ("metrics", "training", "verdict", "diagnosis")
    }
    seconds = round(time.monotonic() - start, 1)
    return {**experiment.columns, "seconds": seconds, **flatten_results(**results)}


def _read_rows() -> dict[str, dict[str, Any]]:
    if not RESULTS_FILE.exists():
        return {}
    table = read_table(RESULTS_FILE, dtype=str, keep_default_na=False)
    return {str(name): row for name, row in table.to_dict("index").items()}


def _keep_row(name: str, row: dict[str, Any], described: list[Experiment]) -> None:
    """Write the row among the present ones: another call may have added some meanwhile."""
    LOGS.mkdir(parents=True, exist_ok=True)
    with FileLock(LOGS / "rows.lock"):
        rows = {**_read_rows(), name: row}
        names = [one.name for one in described if one.name in rows]
        write_rows(RESULTS_FILE, {name: rows[name] for name in names})


def apply_changes(
    values: Mapping[str, Any], changes: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Return a copy of a params file's content with other values for dotted keys.

    Raises a `GenlabError` for a key that is not there.
    """
    changed = copy.deepcopy(dict(values))
    for place, value in changes.items():
        *sections, key = place.split(".")
        target: Any = changed
        for section in sections:
            target = target.get(section) if isinstance(target, dict) else None
        if not isinstance(target, dict) or key not in target:
            near = did_you_mean(key, target or ())
            raise GenlabError(f"{source}: {place} is not a known key{near}", key=place)
        target[key] = value
    return changed


def _newest(name: str) -> str:
    """The newest commit of an experiment, of any commit that it began from; empty without one."""
    newest = ["--sort=-committerdate", "--count=1", "--format=%(objectname)"]
    found = git.run_git(Path(), "for-each-ref", *newest, f"refs/exps/*/*/{name}") or b""
    return found.decode().strip()


def _show(commit: str, path: str) -> bytes:
    found = git.run_git(Path(), "show", f"{commit}:{path}")
    if found is None:
        raise GenlabError(f"{commit} holds no {path}", path=path)
    return found


def _dvc(arguments: list[str], output: Any) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # PYTHONPATH is relative: a stage that runs in the temporary folder imports the code there.
    environment = {**os.environ, "PATH": path, "PYTHONPATH": "src"}
    # Runs beside each other take turns at the lock of the repository.
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", *arguments]
    subprocess.run(command, stdout=output, stderr=output, env=environment)


def compare_code(table: pd.DataFrame) -> str:
    """How many versions of the code the rows of `table` are of, and whether it is this one."""
    if table.empty:
        return "No experiment on it has been run."
    versions = table[[f"fingerprint.{part}" for part in CODE]].drop_duplicates()
    if (versions == list(fingerprint_code().values())).all(axis=None):
        return "Experiments are of one version of the code, the current one."
    commits = ", ".join(sorted(set(table["commit"])))
    count = "one version" if len(versions) == 1 else f"{len(versions)} versions"
    return f"Experiments are of {count} of the code, as of {commits}."


def fingerprint_code(root: Path | None = None) -> dict[str, str]:
    """Digests of the code of a repository, or of that which runs, by part of the fingerprint."""
    return {
        part: digest_values({stage: digest_code(stage, root) for stage in stages})
        for part, stages in CODE.items()
    }
