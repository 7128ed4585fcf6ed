"""Documented experiments: each a line of `dvc exp run`, its results a row of one CSV file."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML

from genlab.core.engine import machine_line
from genlab.core.errors import GenlabError, did_you_mean, invalid
from genlab.core.io import atomic_write, read_yaml, write_bytes
from genlab.core.params import PARAMS_FILE, digest, parse_params
from genlab.core.progress import progress

RESULTS_FILE = Path("results") / "experiments.csv"
PRODUCER = "make experiments"
LAST_STAGE = "failure_gallery"  # agent_iterate and benchmark do not depend on a VAE
LOGS = Path("runs") / "experiments"
PLOTS = "plots/{dataset}/experiments/{name}"


class Description(BaseModel):
    """An entry of experiments.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    why: str = Field(min_length=1, description="What it shows, one sentence.")
    params: dict[str, Any] = Field(description="Params that differ, dotted keys.")
    base: str | None = Field(default=None, description="Experiment that they are added to.")
    dataset: str | None = Field(default=None, description="Dataset; else the base's, arc_grids.")
    seeds: list[int] = Field(default=[], description="Run once with each of these seeds.")
    keep: list[str] = Field(default=[], description="Names of figures to keep.")
    fixes: list[str] = Field(default=[], description="Provoked failures that this run fixes.")


@dataclass(frozen=True)
class Experiment:
    """One run: a name, the params that differ, and a fingerprint of the pipeline's whole input."""

    name: str
    why: str
    params: Mapping[str, Any]
    dataset: str
    keep: tuple[str, ...]
    fixes: tuple[str, ...]
    seed: int
    fingerprint: str

    @property
    def arguments(self) -> list[str]:
        """Arguments of `dvc`: run the experiment's dataset alone, up to the failure gallery."""
        changes = {"datasets": [self.dataset], **self.params}
        flags = [part for key, value in changes.items() for part in ("-S", assign(key, value))]
        return ["exp", "run", "--temp", "--name", self.name, *flags, LAST_STAGE]

    @property
    def command(self) -> str:
        """The line a person types for the same run."""
        return shlex.join(["dvc", *self.arguments])

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of its row that say what it is."""
        return {
            "dataset": self.dataset,
            "seed": self.seed,
            "why": self.why,
            "params": _join(assign(key, value) for key, value in self.params.items()),
            "command": self.command,
            "fingerprint": self.fingerprint,
            "fixes": _join(self.fixes),
        }


def load_experiments(path: str | Path, params_path: str | Path = PARAMS_FILE) -> list[Experiment]:
    """Read experiments.yaml, one experiment per seed where it lists seeds, and check its params.

    Raises a `GenlabError` for an error in the file, before anything is run.
    """
    defaults, code = read_yaml(params_path), _code_digest()
    described = _describe(path)
    found = []
    for name, description in described.items():
        place = f"{path}: {name}"
        if description.base is not None and description.base not in described:
            near = did_you_mean(description.base, described)
            raise GenlabError(f"{place}: no experiment is called {description.base!r}{near}")
        base = described[description.base] if description.base else None
        dataset = description.dataset or (base and base.dataset) or "arc_grids"
        params = {**(base.params if base else {}), **description.params}
        runs: list[tuple[str, dict[str, Any]]] = [(name, {})]
        if description.seeds:
            runs = [(f"{name}-seed{seed}", {"seed": seed}) for seed in description.seeds]
        for run, seed in runs:
            changes = {**params, **seed}
            checked = parse_params(
                _apply(defaults, {"datasets": [dataset], **changes}, place), place
            )
            found.append(
                Experiment(
                    name=run,
                    why=description.why,
                    params=changes,
                    dataset=dataset,
                    keep=tuple(description.keep),
                    fixes=tuple(description.fixes),
                    seed=checked.seed,
                    fingerprint=digest({"code": code, "params": checked.resolve(dataset)}),
                )
            )
    return found


def _describe(path: str | Path) -> dict[str, Description]:
    found = {}
    for name, entry in read_yaml(path).items():
        try:
            found[name] = Description.model_validate(entry)
        except ValidationError as error:
            raise invalid(error, f"{path}: {name}", Description.model_fields) from error
    return found


def choose(experiments: list[Experiment], names: list[str]) -> list[Experiment]:
    """Select by name, all where none is given; a name without its `-seed` selects all seeds."""
    known = {experiment.name for experiment in experiments}
    stems = {name.rpartition("-seed")[0] for name in known} - {""}
    for name in names:
        if name not in known | stems:
            near = did_you_mean(name, known | stems)
            raise GenlabError(f"no experiment is called {name!r}{near}; see experiments.yaml")
    return [
        experiment
        for experiment in experiments
        if not names or {experiment.name, experiment.name.rpartition("-seed")[0]} & set(names)
    ]


def run_pending(
    described: list[Experiment], chosen: list[Experiment], output: Path, *, jobs: int, force: bool
) -> tuple[int, list[str]]:
    """Run those of `chosen` whose row is missing or of another fingerprint; return count, failures.

    The file is written after each run, so that an interrupted call resumes where it stopped. An
    experiment that fails does not stop the others. Rows of experiments that are no longer
    described are dropped; descriptions are refreshed without a new run.
    """
    rows: dict[str, Mapping[str, Any]] = {**read_rows(output)} if output.exists() else {}
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
                name = running[done].name
                try:
                    rows[name] = {**done.result(), "machine": machine_line()}
                except GenlabError as error:
                    failures.append(str(error))
                else:
                    kept = [one for one in described if one.name in rows]
                    texts = {one.name: {"why": one.why, "fixes": _join(one.fixes)} for one in kept}
                    write_rows(output, {name: {**rows[name], **texts[name]} for name in texts})
                bar.update()
        finally:  # after Ctrl-C nothing more is started
            pool.shutdown(wait=False, cancel_futures=True)
    return len(pending) - len(failures), failures


def run_experiment(experiment: Experiment) -> dict[str, Any]:
    """Run it in a temporary folder, keep its figures, and return its row.

    Raises a `GenlabError` that names the log where `dvc exp run` fails.
    """
    log = LOGS / f"{experiment.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    # An earlier run of this name on this commit would be in the way.
    _dvc(["exp", "remove", "--quiet", experiment.name], subprocess.DEVNULL)
    with log.open("wb") as output:
        status = _dvc(experiment.arguments, output)
    if status:
        raise GenlabError(
            f"{experiment.name} failed: {_last_line(log)} (whole log: {log})", path=log
        )
    reference = _reference(experiment.name)
    keep_figures(experiment, reference)
    results = {
        name: json.loads(_git("show", f"{reference}:results/{experiment.dataset}/{name}.json"))
        for name in ("metrics", "training", "verdict", "diagnosis")
    }
    seconds = round(time.monotonic() - start, 1)
    return {**experiment.columns, "seconds": seconds, **flatten_results(**results)}


def keep_figures(experiment: Experiment, reference: str) -> None:
    """Copy the figures listed under `keep` out of a finished experiment."""
    folder = f"plots/{experiment.dataset}"
    listed = _git("ls-tree", "-r", "--name-only", reference, folder).decode().splitlines()
    target = Path(PLOTS.format(dataset=experiment.dataset, name=experiment.name))
    for name in experiment.keep:
        made = [path for path in listed if PurePosixPath(path).name == name]
        made = [path for path in made if not path.startswith(f"{folder}/experiments/")]
        if not made:
            raise GenlabError(f"{experiment.name} made no figure {name}; fix `keep` of its entry")
        write_bytes(target / name, _git("show", f"{reference}:{made[0]}"))


LONG = ("colour_histogram", "by_kind", "by_object_count")  # reported of the default run alone
NESTED_INTERVALS = ("exact_grid_accuracy", "relative_frechet")


def flatten_results(
    metrics: Mapping[str, Any],
    training: Mapping[str, Any],
    verdict: Mapping[str, Any],
    diagnosis: Mapping[str, Any],
) -> dict[str, Any]:
    """Flatten the result files of a run into dotted columns.

    Scalars keep their path (`metrics.samplers.prior.frechet_distance`). Of nested intervals only
    NESTED_INTERVALS stay, of the training curves the reconstruction loss.
    """
    found = [rule for rule in diagnosis["diagnoses"] if rule["found"]]
    fix = {key: value for rule in found for key, value in rule["fix"].items()}
    curve = training.get("series", {}).get("reconstruction_loss", ())
    row = {
        "verdict.passed": verdict["passed"],
        "verdict.missed": _join(r["name"] for r in verdict["criteria"] if not r["passed"]),
        "diagnosis.found": _join(rule["name"] for rule in found),
        "diagnosis.fix": _join(assign(key, value) for key, value in fix.items()),
        "metrics.sigma": _join(metrics.get("sigma") or ()),
        "training.reconstruction_loss": _join("nan" if v is None else f"{v:.7g}" for v in curve),
        **_scalars("metrics", metrics),
        **_scalars("training", training),
    }
    for rule in diagnosis["diagnoses"]:
        row.update(_scalars(f"diagnosis.{rule['name']}", rule["evidence"]))
    return row


def read_results(path: str | Path = RESULTS_FILE) -> pd.DataFrame:
    """Read results/experiments.csv: one row per run, indexed by name, dotted columns.

    `fixes`, `verdict.missed` and `diagnosis.found` hold lists of names, `metrics.sigma` and
    `training.reconstruction_loss` lists of numbers, `params` and `diagnosis.fix` dicts. Other cells
    are numbers, booleans or text, NaN where a run has no such value.
    """
    read_rows(path)
    return pd.read_csv(path, index_col="name", converters=CONVERTERS)


def read_rows(path: str | Path) -> dict[str, dict[str, str]]:
    """Read the rows of results/experiments.csv as text, by name."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            rows = list(reader)
        if "name" not in (reader.fieldnames or ()):
            raise ValueError("no column `name`")
        if any(not row.get("name") or None in row or None in row.values() for row in rows):
            raise ValueError("a row has other columns than the first line")
    except FileNotFoundError as error:
        raise GenlabError(
            f"{path} is missing; make it with: {PRODUCER}", path=path, fix=PRODUCER
        ) from error
    except (csv.Error, ValueError) as error:
        raise GenlabError(
            f"{path} is truncated or not a table of experiments ({error});"
            f" make it again with: {PRODUCER}",
            path=path,
            fix=PRODUCER,
        ) from error
    return {row.pop("name"): row for row in rows}


def write_rows(path: str | Path, rows: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the rows of results/experiments.csv; columns in the order of first appearance."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["name", *columns], lineterminator="\n")
        writer.writeheader()
        writer.writerows({"name": name, **row} for name, row in rows.items())


def _scalars(place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {} if isinstance(value, list) else {place: value}
    nested = place != "metrics.intervals" and place.endswith(".intervals")
    row: dict[str, Any] = {}
    for key, entry in value.items():
        if key not in LONG and not (nested and key not in NESTED_INTERVALS):
            row.update(_scalars(f"{place}.{key}", entry))
    return row


def _join(values: Iterable[Any]) -> str:
    return ";".join(str(value) for value in values)


def _split(cell: str) -> list[str]:
    return [part for part in cell.split(";") if part]


def _parse_numbers(cell: str) -> list[float]:
    return [float(part) for part in _split(cell)]


def _parse_changes(cell: str) -> dict[str, Any]:
    yaml = YAML(typ="safe", pure=True)
    pairs = (part.partition("=") for part in _split(cell))
    return {key: yaml.load(value) for key, _, value in pairs}


CONVERTERS = {
    **dict.fromkeys(("fixes", "verdict.missed", "diagnosis.found"), _split),
    **dict.fromkeys(("metrics.sigma", "training.reconstruction_loss"), _parse_numbers),
    **dict.fromkeys(("params", "diagnosis.fix"), _parse_changes),
}


def assign(key: str, value: Any) -> str:
    """`key=value` as `dvc exp run -S` reads it."""
    return f"{key}={json.dumps(value) if isinstance(value, bool | list) else value}"


def _reference(name: str) -> str:
    """The newest experiment called `name`; somebody may have committed since it was started."""
    newest = ["--sort=-committerdate", "--count=1", "--format=%(refname)"]
    found = _git("for-each-ref", *newest, f"refs/exps/*/*/{name}").decode().strip()
    if not found:
        raise GenlabError(f"dvc kept no experiment {name}; run: make experiments ARGS='--force'")
    return found


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], capture_output=True)
    if done.returncode:
        fault = " ".join(done.stderr.decode(errors="replace").split())
        raise GenlabError(f"git {' '.join(arguments)}: {fault}")
    return done.stdout


def _dvc(arguments: list[str], output: Any) -> int:
    environment = {**os.environ}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # Relative on purpose: a stage that runs in the temporary folder imports the code there.
    environment["PYTHONPATH"] = "src"
    command = [sys.executable, "-m", "dvc", *arguments]
    return subprocess.run(command, stdout=output, stderr=output, env=environment).returncode


def _last_line(log: Path) -> str:
    """The line of a log that says most: genlab's own error, else dvc's, else the last."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for mark in ("genlab: error: ", "ERROR: "):
        for line in lines:
            if line.startswith(mark):
                return line.removeprefix(mark)
    return lines[-1] if lines else "no output"


def _code_digest() -> str:
    """SHA-256 of the pipeline's declaration and of the code that its stages depend on."""
    stages = read_yaml("dvc.yaml").get("stages", {})
    deps = {dep for stage in stages.values() for dep in stage.get("deps", []) if "$" not in dep}
    files = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", *sorted(deps))
    names = ["dvc.yaml", *sorted(filter(None, files.decode().split("\0")))]
    content = {name: Path(name).read_bytes().hex() for name in names if Path(name).is_file()}
    return digest(content)


def _apply(base: Any, changes: Mapping[str, Any], source: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(json.dumps(base))
    for place, value in changes.items():
        *sections, key = place.split(".")
        target = values
        for section in sections:
            target = target.get(section, {})
            if not isinstance(target, dict):
                raise GenlabError(f"{source}: {place} is not a known key")
        if key not in target:
            raise GenlabError(f"{source}: {place} is not a known key{did_you_mean(key, target)}")
        target[key] = value
    return values
