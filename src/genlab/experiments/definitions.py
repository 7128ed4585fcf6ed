"""The documented experiments: entries of experiments.yaml, checked and resolved into runs.

The section `rules` of the file is no experiment; `genlab.experiments.rules` reads it.
"""

import copy
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genlab.core import engine, git
from genlab.core.code import digest_code
from genlab.core.errors import GenlabError, did_you_mean, to_genlab_error
from genlab.core.io import read_yaml
from genlab.core.params import PARAMS_FILE, digest_values, parse_params
from genlab.experiments.results import format_assignment, join_cells
from genlab.experiments.rules import RULES

LAST_STAGE = "failure_gallery"  # of a dataset
DEFAULT_DATASET = "arc_grids"
DIGITS = 12  # of the digests of a fingerprint
NO_DIGEST = ""  # of the params of an experiment that does not fit the params file
CODE = {
    "code": ("generate", "split", "train"),
    "evaluation": ("judges", "evaluate"),
}
"""Stages whose code each part of a fingerprint covers."""


class ExperimentEntry(BaseModel):
    """An entry of experiments.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    why: str = Field(min_length=1, description="What it shows, in one sentence.")
    params: dict[str, Any] = Field(description="Params that differ, by dotted key.")
    sweep: list[str] = Field(default=[], description="Sweeps that it belongs to.")
    base: str | None = Field(default=None, description="Entry whose params these are added to.")
    dataset: str | None = Field(default=None, description="Dataset; else the base's, arc_grids.")
    seeds: list[int] = Field(default=[], description="Seeds; there is one run per seed.")
    minutes: float | None = Field(
        default=None, gt=0, description="Minutes that a run takes, before any was measured."
    )
    prepare: str = Field(default="", description="Command that makes the data of one's own.")
    manual: bool = Field(default=False, description="Whether to run it only if it is named.")


class Experiment(ExperimentEntry):
    """One run of an entry, with all params resolved."""

    name: str
    entry: str
    dataset: str
    seed: int
    threads: int
    changes: dict[str, Any]  # `params`, and `datasets` if the params file lacks its dataset
    added: list[str]  # keys of `changes` that the params file lacks
    fingerprint: dict[str, str]  # digests of `code`, `evaluation` and the `params` that stages read

    @property
    def arguments(self) -> list[str]:
        """Arguments of `dvc` that run the stages of the experiment's dataset only.

        The other datasets stay in the params: `dvc exp apply` removes data of datasets that do not.
        """
        flags = []
        for key, value in self.changes.items():
            sign = "+" if key in self.added else ""
            flags += ["-S", sign + format_assignment(key, value)]
        return ["exp", "run", "--temp", "--name", self.name, *flags, f"{LAST_STAGE}@{self.dataset}"]

    @property
    def machine(self) -> str:
        """Kind of the machine: a processor's or a GPU's name, and the threads of a run.

        Both change the order of sums, and so a training.
        """
        machine = engine.describe_machine()
        on_gpu = machine["gpu"] and self.params.get("device") != "cpu"
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{machine['gpu'] if on_gpu else machine['cpu']}, {threads}"

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of its row that describe it."""
        params = [format_assignment(key, value) for key, value in self.params.items()]
        return {
            "entry": self.entry,
            "sweep": join_cells(self.sweep),
            "dataset": self.dataset,
            "seed": self.seed,
            "params": join_cells(params),
            **{f"fingerprint.{name}": digest for name, digest in self.fingerprint.items()},
            "commit": git.describe_commit(Path(), "src", "stages", PARAMS_FILE),
            "machine": self.machine,
        }

    def is_current(self, row: Mapping[str, Any]) -> bool:
        """Whether `row` is of these params and this code; the evaluation's code may differ."""
        return all(
            row.get(f"fingerprint.{name}") == self.fingerprint[name] for name in ("code", "params")
        )


def load_experiments(
    path: str | Path, params_path: str | Path = PARAMS_FILE, only: Collection[str] = ()
) -> list[Experiment]:
    """Read experiments.yaml and check its params; an entry with seeds is one experiment per seed.

    only: runs, entries or sweeps that will be run, by default all that are not manual; others may
    not fit the params file. Raises a `GenlabError` for an error in the file, before anything is
    run.
    """
    defaults = read_yaml(params_path)
    code = fingerprint_code(Path())
    entries: dict[str, ExperimentEntry] = {}
    experiments = []
    for name, content in read_yaml(path).items():
        if name == RULES:
            continue
        location = f"{path}: {name}"
        entry = _parse_entry(content, entries, location)
        entries[name] = entry
        dataset = entry.dataset or DEFAULT_DATASET
        runs = {f"{name}-seed{seed}": {"seed": seed} for seed in entry.seeds} or {name: {}}
        for run, seed in runs.items():
            params = {**entry.params, **seed}
            changes = _list_changes(params, dataset, defaults)
            try:
                digest = _digest_params(changes, dataset, defaults, location)
            except GenlabError:
                named = {run, name, *entry.sweep} & {*only}
                if named or not (only or entry.manual):
                    raise
                digest = NO_DIGEST
            values = entry.model_dump() | {
                "name": run,
                "entry": name,
                "dataset": dataset,
                "params": params,
                "seed": params.get("seed", defaults["seed"]),
                "threads": params.get("threads", defaults["threads"]),
                "changes": changes,
                "added": [key for key in changes if key.split(".")[0] not in defaults],
                "fingerprint": {**code, "params": digest},
            }
            experiments.append(Experiment(**values))
    return experiments


def _parse_entry(
    content: Any, entries: Mapping[str, ExperimentEntry], location: str
) -> ExperimentEntry:
    """Check an entry; what its base has and it lacks is added: params, dataset and minutes."""
    try:
        entry = ExperimentEntry.model_validate(content)
    except ValidationError as error:
        raise to_genlab_error(error, location, ExperimentEntry.model_fields) from error
    if entry.base is not None and entry.base not in entries:
        suggestion = did_you_mean(entry.base, entries)
        message = f"{location}: no experiment {entry.base!r} above{suggestion}"
        raise GenlabError(message, key=entry.base)
    base = entries[entry.base] if entry.base else ExperimentEntry(why="defaults", params={})
    params = {**base.params, **entry.params}
    inherited = {
        "params": params,
        "dataset": entry.dataset or base.dataset,
        "minutes": entry.minutes or base.minutes,
    }
    return entry.model_copy(update=inherited)


def _list_changes(
    params: Mapping[str, Any], dataset: str, defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the changes of the params file: `params`, and `datasets` if it lacks the dataset."""
    if dataset in defaults["datasets"]:
        return dict(params)
    return {"datasets": [*defaults["datasets"], dataset], **params}


def _digest_params(
    changes: Mapping[str, Any], dataset: str, defaults: Mapping[str, Any], location: str
) -> str:
    """Digest the params that the dataset's stages read. Raises a GenlabError if they do not fit."""
    values = copy.deepcopy(dict(defaults))
    for key in changes:
        if key.startswith(f"{dataset}.source.") and dataset not in defaults:
            section = values.setdefault(dataset, {"source": {}})
            section["source"][key.rpartition(".")[2]] = None  # for `apply_changes`
    params = parse_params(apply_changes(values, changes, location), location)
    return digest_values(params.resolve(dataset))[:DIGITS]


def select_experiments(experiments: list[Experiment], names: list[str]) -> list[Experiment]:
    """Select by names of runs, entries or sweeps; without names, all that are not manual."""
    if not names:
        return [experiment for experiment in experiments if not experiment.manual]
    selected = []
    labels: set[str] = set()
    for experiment in experiments:
        own_labels = {experiment.name, experiment.entry, *experiment.sweep}
        labels |= own_labels
        if own_labels & set(names):
            selected.append(experiment)
    for name in names:
        if name not in labels:
            suggestion = did_you_mean(name, labels)
            raise GenlabError(f"no experiment is called {name!r}{suggestion}; see experiments.yaml")
    return selected


def apply_changes(
    values: Mapping[str, Any], changes: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Return a copy of a params file's content with other values for dotted keys.

    Raises a `GenlabError` for a key that the content lacks; the error names `source`.
    """
    changed = copy.deepcopy(dict(values))
    for dotted_key, value in changes.items():
        *sections, key = dotted_key.split(".")
        target: Any = changed
        for section in sections:
            target = target.get(section) if isinstance(target, dict) else None
        if not isinstance(target, dict) or key not in target:
            suggestion = did_you_mean(key, target or ())
            message = f"{source}: {dotted_key} is not a known key{suggestion}"
            raise GenlabError(message, key=dotted_key)
        target[key] = value
    return changed


def compare_code(table: pd.DataFrame) -> str:
    """Say how many versions of the code the rows of `table` are of, and whether it is this one."""
    if table.empty:
        return "No experiment on it has been run."
    columns = [f"fingerprint.{name}" for name in CODE]
    versions = table[columns].drop_duplicates()
    if (versions == list(fingerprint_code().values())).all(axis=None):
        return "Experiments are of one version of the code, the current one."
    count = "one earlier version" if len(versions) == 1 else f"{len(versions)} versions"
    return f"Experiments are of {count} of the code (columns `fingerprint`)."


def fingerprint_code(root: Path | None = None) -> dict[str, str]:
    """Digest the code of a repository, by default the running code, for fingerprints."""
    return {
        name: digest_values({stage: digest_code(stage, root) for stage in stages})[:DIGITS]
        for name, stages in CODE.items()
    }
