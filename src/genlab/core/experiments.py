"""Documented experiments: each a line of `dvc exp run`, its results a row of one CSV file."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML

from genlab.core import git
from genlab.core.engine import machine
from genlab.core.errors import GenlabError, did_you_mean, invalid
from genlab.core.io import atomic_write, read_yaml, sha256, write_bytes
from genlab.core.params import PARAMS_FILE, change, digest, parse_params
from genlab.core.progress import progress

RESULTS_FILE = Path("results") / "experiments.csv"
PRODUCER = "make experiments"
LAST_STAGE = "failure_gallery"  # agent_iterate and benchmark do not depend on a VAE
LOGS = Path("runs") / "experiments"
# Histograms are reported of the default run alone, and so are most intervals of nested metrics.
OMITTED = re.compile(
    r"metrics\.(arc_agi\.)?colour_histogram\."
    r"|metrics\..+\.intervals\.(?!exact_grid_accuracy|relative_frechet)"
)


class Description(BaseModel):
    """An entry of experiments.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    why: str = Field(min_length=1, description="What it shows, one sentence.")
    params: dict[str, Any] = Field(description="Params that differ, dotted keys.")
    base: str | None = Field(default=None, description="Experiment that they are added to.")
    dataset: str | None = Field(default=None, description="Dataset; else the base's, arc_grids.")
    seeds: list[int] = Field(default=[], description="Run once with each of these seeds.")
    keep: list[str] = Field(default=[], description="Figures of stage evaluate to keep.")


class Experiment(Description):
    """One run of an entry, its params complete."""

    name: str
    entry: str
    dataset: str
    seed: int
    fingerprint: str  # of the code and of all params that its stages read

    @property
    def arguments(self) -> list[str]:
        """Arguments of `dvc`: run the experiment's dataset alone, up to the failure gallery."""
        changes = {"datasets": [self.dataset], **self.params}
        flags = [part for key, value in changes.items() for part in ("-S", assign(key, value))]
        return ["exp", "run", "--temp", "--name", self.name, *flags, LAST_STAGE]

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of its row that say what it is; `command` is the line a person types."""
        return {
            "dataset": self.dataset,
            "seed": self.seed,
            "why": self.why,
            "params": _join(assign(key, value) for key, value in self.params.items()),
            "command": shlex.join(["dvc", *self.arguments]),
            "fingerprint": self.fingerprint,
            "machine": _join(f"{key}={value}" for key, value in machine().items()),
        }


def load_experiments(path: str | Path, params_path: str | Path = PARAMS_FILE) -> list[Experiment]:
    """Read experiments.yaml, one experiment per seed where it lists seeds, and check its params.

    Raises a `GenlabError` for an error in the file, before anything is run.
    """
    defaults, code = read_yaml(params_path), _code_digest()
    described: dict[str, Description] = {}
    for name, entry in read_yaml(path).items():
        try:
            described[name] = Description.model_validate(entry)
        except ValidationError as error:
            raise invalid(error, f"{path}: {name}", Description.model_fields) from error
    found = []
    for name, one in described.items():
        place = f"{path}: {name}"
        if one.base is not None and one.base not in described:
            near = did_you_mean(one.base, described)
            raise GenlabError(f"{place}: no experiment is called {one.base!r}{near}", key=one.base)
        base = described[one.base] if one.base else Description(why="defaults", params={})
        dataset = one.dataset or base.dataset or "arc_grids"
        runs = {f"{name}-seed{seed}": {"seed": seed} for seed in one.seeds} or {name: {}}
        for run, seed in runs.items():
            params = {**base.params, **one.params, **seed}
            checked = parse_params(
                change(defaults, {"datasets": [dataset], **params}, place), place
            )
            resolved: dict[str, Any] = {
                "name": run,
                "entry": name,
                "dataset": dataset,
                "params": params,
                "seed": checked.seed,
                "fingerprint": digest({"code": code, "params": checked.resolve(dataset)}),
            }
            found.append(Experiment(**{**one.model_dump(), **resolved}))
    return found


def choose(experiments: list[Experiment], names: list[str]) -> list[Experiment]:
    """Select by name, all where none is given; an entry's name selects all its seeds."""
    known = {name for experiment in experiments for name in (experiment.name, experiment.entry)}
    for name in names:
        if name not in known:
            near = did_you_mean(name, known)
            raise GenlabError(f"no experiment is called {name!r}{near}; see experiments.yaml")
    return [one for one in experiments if not names or {one.name, one.entry} & set(names)]


def run_pending(
    described: list[Experiment], chosen: list[Experiment], *, jobs: int, force: bool
) -> tuple[int, list[str]]:
    """Run those of `chosen` whose row is missing or of another fingerprint; return count, failures.

    The file is written after each run, so that an interrupted call resumes where it stopped. An
    experiment that fails does not stop the others. Rows of experiments that are no longer
    described are dropped.
    """
    rows: dict[str, dict[str, Any]] = {}
    if RESULTS_FILE.exists():
        rows = _read_table(RESULTS_FILE, dtype=str, keep_default_na=False).to_dict("index")
    pending = [
        experiment
        for experiment in chosen
        if force or rows.get(experiment.name, {}).get("fingerprint") != experiment.fingerprint
    ]
    failures: list[str] = []
    with ThreadPoolExecutor(jobs) as pool, progress(total=len(pending), unit="run") as bar:
        running = {pool.submit(run_experiment, experiment): experiment for experiment in pending}
        try:
            for done in as_completed(running):
                try:
                    rows[running[done].name] = done.result()
                except GenlabError as error:
                    failures.append(str(error))
                else:
                    names = [one.name for one in described if one.name in rows]
                    write_rows(RESULTS_FILE, {name: rows[name] for name in names})
                bar.update()
        finally:  # after Ctrl-C nothing more is started
            pool.shutdown(wait=False, cancel_futures=True)
    return len(pending) - len(failures), failures


def run_experiment(experiment: Experiment) -> dict[str, Any]:
    """Run it in a temporary folder, keep its figures, and return its row.

    Raises a `GenlabError` that names the log where `dvc exp run` fails.
    """
    name, dataset = experiment.name, experiment.dataset
    log = LOGS / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    # An earlier run of this name on this commit would be in the way.
    _dvc(["exp", "remove", "--quiet", name], subprocess.DEVNULL)
    with log.open("wb") as output:
        status = _dvc(experiment.arguments, output)
    if status:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        said = [line for line in lines if line.startswith(("genlab: error: ", "ERROR: "))]
        reason = (said or lines or ["no output"])[0].rpartition("rror: ")[2]
        raise GenlabError(f"{name} failed: {reason} (whole log: {log})", path=log)
    # The newest of this name; somebody may have committed since it was started.
    newest = ["--sort=-committerdate", "--count=1", "--format=%(refname)"]
    found = git.ask(Path(), "for-each-ref", *newest, f"refs/exps/*/*/{name}") or b""
    reference = found.decode().strip()
    for figure in experiment.keep:
        content = _show(reference, f"plots/{dataset}/evaluation/{figure}")
        write_bytes(Path("plots") / dataset / "experiments" / name / figure, content)
    results = {
        part: json.loads(_show(reference, f"results/{dataset}/{part}.json"))
        for part in ("metrics", "training", "verdict", "diagnosis")
    }
    seconds = round(time.monotonic() - start, 1)
    return {**experiment.columns, "seconds": seconds, **flatten_results(**results)}


def flatten_results(
    metrics: Mapping[str, Any],
    training: Mapping[str, Any],
    verdict: Mapping[str, Any],
    diagnosis: Mapping[str, Any],
) -> dict[str, Any]:
    """Flatten the result files of a run into dotted columns.

    Scalars keep their path (`metrics.samplers.prior.frechet_distance`), but for those in OMITTED;
    of the training curves the reconstruction loss is kept.
    """
    found = [rule for rule in diagnosis["diagnoses"] if rule["found"]]
    fix = {key: value for rule in found for key, value in rule["fix"].items()}
    curve = training.get("series", {}).get("reconstruction_loss", ())
    evidence = {rule["name"]: rule["evidence"] for rule in diagnosis["diagnoses"]}
    nested = {"metrics": metrics, "training": training, "diagnosis": evidence}
    flat = pd.json_normalize(nested).to_dict("records")[0]
    return {
        "verdict.passed": verdict["passed"],
        "verdict.missed": _join(r["name"] for r in verdict["criteria"] if not r["passed"]),
        "diagnosis.found": _join(rule["name"] for rule in found),
        "diagnosis.fix": _join(assign(key, value) for key, value in fix.items()),
        "metrics.sigma": _join(metrics.get("sigma") or ()),
        "training.reconstruction_loss": _join("nan" if v is None else f"{v:.7g}" for v in curve),
        **{k: v for k, v in flat.items() if not isinstance(v, list) and not OMITTED.match(k)},
    }


def read_results(path: str | Path = RESULTS_FILE) -> pd.DataFrame:
    """Read results/experiments.csv: one row per run, indexed by name, dotted columns.

    `verdict.missed` and `diagnosis.found` hold lists of names, `metrics.sigma` and
    `training.reconstruction_loss` lists of numbers, `params` and `diagnosis.fix` dicts. Other cells
    are numbers, booleans or text, NaN where a run has no such value.
    """
    return _read_table(path, converters=CONVERTERS)


def _read_table(path: str | Path, **options: Any) -> pd.DataFrame:
    try:
        text = Path(path).read_text(encoding="utf-8")
        # pandas fills up a row that is cut short.
        if len({len(row) for row in csv.reader(io.StringIO(text), strict=True)}) != 1:
            raise ValueError("a row has other columns than the first line")
        return pd.read_csv(io.StringIO(text), **options).set_index("name")
    except FileNotFoundError as error:
        raise GenlabError(
            f"{path} is missing; make it with: {PRODUCER}", path=path, fix=PRODUCER
        ) from error
    except (csv.Error, ValueError, KeyError) as error:
        raise GenlabError(
            f"{path} is truncated or not a table of experiments ({error});"
            f" make it again with: {PRODUCER}",
            path=path,
            fix=PRODUCER,
        ) from error


def write_rows(path: str | Path, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the rows of results/experiments.csv; columns in the order of first appearance."""
    table = pd.DataFrame(list(rows.values()), index=list(rows), dtype=object)
    with atomic_write(path) as temporary:
        table.to_csv(temporary, index_label="name", lineterminator="\n")


def _join(values: Iterable[Any]) -> str:
    return ";".join(str(value) for value in values)


def _split(cell: str) -> list[str]:
    return cell.split(";") if cell else []


def _parse_numbers(cell: str) -> list[float]:
    return [float(part) for part in _split(cell)]


def _parse_changes(cell: str) -> dict[str, Any]:
    yaml = YAML(typ="safe", pure=True)
    pairs = (part.partition("=") for part in _split(cell))
    return {key: yaml.load(value) for key, _, value in pairs}


CONVERTERS = {
    **dict.fromkeys(("verdict.missed", "diagnosis.found"), _split),
    **dict.fromkeys(("metrics.sigma", "training.reconstruction_loss"), _parse_numbers),
    **dict.fromkeys(("params", "diagnosis.fix"), _parse_changes),
}


def assign(key: str, value: Any) -> str:
    """`key=value` as `dvc exp run -S` reads it."""
    return f"{key}={json.dumps(value) if isinstance(value, bool | list) else value}"


def _show(reference: str, path: str) -> bytes:
    found = git.ask(Path(), "show", f"{reference}:{path}")
    if found is None:
        raise GenlabError(f"{reference} holds no {path}", path=path)
    return found


def _dvc(arguments: list[str], output: Any) -> int:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # PYTHONPATH is relative: a stage that runs in the temporary folder imports the code there.
    environment = {**os.environ, "PATH": path, "PYTHONPATH": "src"}
    command = [sys.executable, "-m", "dvc", *arguments]
    return subprocess.run(command, stdout=output, stderr=output, env=environment).returncode


def _code_digest() -> str:
    """SHA-256 of the pipeline's declaration and of the code that its stages depend on."""
    stages = read_yaml("dvc.yaml").get("stages", {})
    deps = {dep for stage in stages.values() for dep in stage.get("deps", []) if "$" not in dep}
    names = ["dvc.yaml", *git.list_files(Path(), *sorted(deps))]
    return digest({name: sha256(name) for name in names})
