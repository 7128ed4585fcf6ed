"""Documented experiments: each a line of `dvc exp run`, its results kept in one small file."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from genlab.core.errors import GenlabError
from genlab.core.faults import did_you_mean, first_fault
from genlab.core.io import write_bytes
from genlab.core.params import PARAMS_FILE, digest, parse_params

RESULTS = ("metrics", "verdict", "diagnosis", "training")
LEFT_OUT = {"kl_per_latent"}  # long lists that no table shows: results are kept in git
LOGS = Path("runs") / "experiments"
PLOTS = "plots/{dataset}/experiments/{name}"


class Description(BaseModel):
    """An entry of experiments.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    why: str = Field(min_length=1, description="What it is to show, one sentence.")
    params: dict[str, Any] = Field(description="Params that differ, dotted keys.")
    dataset: str = Field(default="arc_grids", description="Dataset whose results are kept.")
    seeds: list[int] = Field(default=[], description="Run once for each of these seeds.")
    keep: list[str] = Field(default=[], description="Names of figures to keep.")
    fixes: list[str] = Field(default=[], description="Failures on purpose that this fixes.")


LAST_STAGE = "failure_gallery"  # agent and benchmark tell nothing of a VAE


@dataclass(frozen=True)
class Experiment:
    """One run: a name, the params that differ, and what they make of the pipeline's input."""

    name: str
    why: str
    params: Mapping[str, Any]
    dataset: str
    keep: tuple[str, ...]
    fixes: tuple[str, ...]
    fingerprint: str

    @property
    def arguments(self) -> list[str]:
        """What stands after `dvc`: the experiment's own dataset alone, up to its failures."""
        wanted = _alone(self.dataset, self.params)
        changes = [f"{key}={_hydra(value)}" for key, value in wanted.items()]
        flags = [part for change in changes for part in ("-S", change)]
        return ["exp", "run", "--temp", "--name", self.name, *flags, LAST_STAGE]

    @property
    def command(self) -> str:
        """The line a person types for the same run."""
        return shlex.join(["dvc", *self.arguments])


def load_experiments(path: str | Path, params_path: str | Path = PARAMS_FILE) -> list[Experiment]:
    """Read experiments.yaml, one experiment a seed where it lists seeds, and check its params.

    Raises a `GenlabError` for a fault in the file, before anything is run.
    """
    described = _read_yaml(path)
    base = _read_yaml(params_path)
    code = _code_digest()
    found = []
    for name, entry in described.items():
        try:
            description = Description.model_validate(entry)
        except ValidationError as error:
            raise GenlabError(f"{path}: {name}: {first_fault(error, Description)}") from error
        for suffix, changes in _runs(description):
            wanted = _alone(description.dataset, changes)
            values = _with_changes(base, wanted, f"{path}: {name}")
            params = parse_params(values, f"{path}: {name}")
            found.append(
                Experiment(
                    name=name + suffix,
                    why=description.why,
                    params=changes,
                    dataset=description.dataset,
                    keep=tuple(description.keep),
                    fixes=tuple(description.fixes),
                    fingerprint=digest({"code": code, "params": params.model_dump()}),
                )
            )
    return found


def _alone(dataset: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes, with nothing run but `dataset` unless they say otherwise."""
    return {"datasets": [dataset], **changes}


def _runs(description: Description) -> list[tuple[str, dict[str, Any]]]:
    """Suffix of the name, and params that differ: one run, or one for each seed."""
    if not description.seeds:
        return [("", description.params)]
    return [(f"-seed{seed}", {**description.params, "seed": seed}) for seed in description.seeds]


def choose(experiments: list[Experiment], names: list[str]) -> list[Experiment]:
    """Those called `names`, all where none is given; a name without its `-seed` takes all seeds."""
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


def run_experiment(experiment: Experiment) -> dict[str, Any]:
    """Run it in a temporary folder, keep its figures, and return its record.

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
        raise GenlabError(f"{experiment.name} failed: {_last_line(log)} (whole log: {log})")
    reference = _reference(experiment.name)
    keep_figures(experiment, reference)
    return {
        "why": experiment.why,
        "dataset": experiment.dataset,
        "fixes": list(experiment.fixes),
        "params": dict(experiment.params),
        "command": experiment.command,
        **{name: _result(reference, experiment.dataset, name) for name in RESULTS},
        "seconds": round(time.monotonic() - start, 1),
        "fingerprint": experiment.fingerprint,
    }


def keep_figures(experiment: Experiment, reference: str) -> None:
    """Copy the figures that are to be kept out of a finished experiment."""
    folder = f"plots/{experiment.dataset}"
    listed = _git("ls-tree", "-r", "--name-only", reference, folder).decode().splitlines()
    target = Path(PLOTS.format(dataset=experiment.dataset, name=experiment.name))
    for name in experiment.keep:
        made = [path for path in listed if PurePosixPath(path).name == name]
        made = [path for path in made if not path.startswith(f"{folder}/experiments/")]
        if not made:
            raise GenlabError(f"{experiment.name} made no figure {name}; mend `keep` of its entry")
        write_bytes(target / name, _git("show", f"{reference}:{made[0]}"))


def _result(reference: str, dataset: str, name: str) -> dict[str, Any]:
    found = json.loads(_git("show", f"{reference}:results/{dataset}/{name}.json"))
    return {key: value for key, value in found.items() if key not in LEFT_OUT}


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
    stages = _read_yaml("dvc.yaml").get("stages", {})
    deps = {dep for stage in stages.values() for dep in stage.get("deps", []) if "$" not in dep}
    files = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", *sorted(deps))
    names = ["dvc.yaml", *sorted(filter(None, files.decode().split("\0")))]
    content = {name: Path(name).read_bytes().hex() for name in names if Path(name).is_file()}
    return digest(content)


def _with_changes(base: Any, changes: Mapping[str, Any], source: str) -> dict[str, Any]:
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


def _hydra(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool | list) else str(value)


def _read_yaml(path: str | Path) -> dict[str, Any]:
    try:
        values = YAML(typ="safe", pure=True).load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise GenlabError(f"{path} is missing; run from the repository's root") from error
    except YAMLError as error:
        fault = " ".join(str(error).split())
        raise GenlabError(f"{path} is not valid YAML: {fault}") from error
    if not isinstance(values, dict):
        raise GenlabError(f"{path} must hold keys and values, got {type(values).__name__}")
    return values
