"""What was tried: `experiments/registry.json`, a plain list with one record per attempt.

The list is replaced as a whole under a lock, so processes that write at once lose nothing. Each
attempt's folder holds its record too (`results.json`), from which the registry can be rebuilt.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genlab.agent.workspace import Workspace
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json

FILE, RESULTS = "registry.json", "results.json"
KIND, VERSION = "agent attempt", 2
LOCK_TIMEOUT = 30.0  # seconds

Verdict = Literal["", "iterate", "achieved", "stop", "failed"]


class Attempt(BaseModel):
    """One attempt. Fields that this version does not know are kept, missing ones have defaults."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    run_id: str = Field(min_length=1)
    timestamp: str
    model_name: str
    dataset: str
    metrics_summary: dict[str, Any]  # means over seeds, parameters and multiply-adds
    experiment_dir: str
    decision: str = ""  # a sentence
    verdict: Verdict = ""
    version: int = VERSION
    number: int = 0  # from 1 in a run; 0: evaluated outside of one
    parent: str = ""  # run_id of the attempt that it changes
    kind: str = ""  # draft, improve, debug
    origin: str = ""  # who proposed it: llm, search, tool
    code_origin: str = ""  # who wrote the code: llm, llm+repaired(n), template, file
    config: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    change: str = ""  # what changes and why, in the planner's words
    difference: list[str] = Field(default_factory=list)  # what differs from the parent in fact
    built: list[str] = Field(default_factory=list)  # what differs between config and module
    seeds: list[dict[str, Any]] = Field(default_factory=list)  # the evaluator's SeedResult each
    failure: str = ""  # why there is no number, one line
    digest: str = ""  # of code, class, training, budget, dataset and seeds
    notes: list[str] = Field(default_factory=list)
    review: dict[str, Any] = Field(default_factory=dict)
    spend: dict[str, float] = Field(default_factory=dict)  # of the run, up to here
    test: dict[str, Any] = Field(default_factory=dict)  # of the best attempt alone

    def values(self, metric: str) -> list[float]:
        """The value of `metric` for every seed that has one; none where the attempt failed."""
        if self.failure:
            return []
        found = [seed.get("metrics", {}).get(metric, seed.get(metric)) for seed in self.seeds]
        return [float(value) for value in found if _is_number(value)]

    def mean(self, metric: str) -> float | None:
        """The mean of `metric` over seeds; None where no seed has it: a failure is not zero."""
        values = self.values(metric)
        return sum(values) / len(values) if values else None

    @property
    def parameters(self) -> int | None:
        """Number of parameters; None where the model could not be built."""
        found = self.metrics_summary.get("parameters")
        return int(found) if _is_number(found) else None


class Registry:
    """The attempts of a workspace, oldest first."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.path = workspace.experiments / FILE
        self.rebuild_command = f"genlab agent rebuild {workspace.root}"

    def attempts(self) -> list[Attempt]:
        """All attempts. Raises a GenlabError where the file is missing or damaged."""
        stored = read_json(self.path, producer_command=self.rebuild_command)
        if not isinstance(stored, list):
            raise GenlabError(
                f"{self.path} holds no list of attempts; rebuild it with: {self.rebuild_command}"
            )
        places = (f"{self.path}: attempt {index}" for index in range(len(stored)))
        return [
            _parse(each, place, self.rebuild_command)
            for each, place in zip(stored, places, strict=True)
        ]

    def put(self, attempt: Attempt) -> None:
        """Add `attempt`, or replace the one with its run_id; its folder gets results.json too."""
        with self.locked():
            attempts = self.attempts()
            stored = json.loads(attempt.model_dump_json())  # NaN and infinity become null
            path = self.workspace.root / attempt.experiment_dir / RESULTS
            write_json(path, {"kind": KIND, **stored})
            attempt = Attempt.model_validate(stored)
            index = {each.run_id: place for place, each in enumerate(attempts)}
            place = index.get(attempt.run_id, len(attempts))
            self._write([*attempts[:place], attempt, *attempts[place + 1 :]])

    def rebuild(self) -> int:
        """Write the registry again from the attempts' folders; returns the number of attempts.

        Raises a GenlabError that names the file where an attempt's record is damaged.
        """
        with self.locked():
            paths = sorted(self.workspace.experiments.glob(f"*/{RESULTS}"))
            found = [_read_results(path) for path in paths]
            self._write(sorted(found, key=lambda each: (each.timestamp, each.run_id)))
        return len(found)

    def recover(self) -> None:
        """Undo what a killed process left half done; for a run, once it holds the workspace.

        An attempt with a results.json that is missing in the registry is entered; a folder without
        one is removed. Whoever evaluates holds the registry's lock while it writes a folder.
        """
        if not self.workspace.is_locked:
            raise RuntimeError("recover() needs workspace.lock() to be held")
        with self.locked():
            attempts = self.attempts()
            known = {each.run_id for each in attempts}
            for folder in sorted(self.workspace.experiments.glob("qe_*")):
                if not (folder / RESULTS).exists():
                    shutil.rmtree(folder, ignore_errors=True)
                elif folder.name not in known:
                    attempts.append(_read_results(folder / RESULTS))
            self._write(attempts)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the registry; reentrant within a thread through the same object."""
        try:
            with self._lock:
                yield
        except Timeout as error:
            raise GenlabError(
                f"{self.path} has been locked for {LOCK_TIMEOUT:g} s by another process of this"
                " workspace; wait for it, or stop it"
            ) from error

    @property
    def _lock(self) -> FileLock:
        return FileLock(self.path.with_suffix(".lock"), timeout=LOCK_TIMEOUT, is_singleton=True)

    def _write(self, attempts: list[Attempt]) -> None:
        write_json(self.path, [each.model_dump(mode="json") for each in attempts])


def _read_results(path: Path) -> Attempt:
    remove = f"rm -r {path.parent}"
    stored = dict(read_json(path, producer_command=remove, kind=KIND))
    del stored["kind"]
    return _parse(stored, str(path), remove)


def _parse(stored: Any, place: str, fix: str) -> Attempt:
    version = stored.get("version", VERSION) if isinstance(stored, dict) else VERSION
    if version != VERSION:
        raise GenlabError(
            f"{place} has format version {version}, this genlab reads {VERSION}; start a new"
            " workspace"
        )
    try:
        return Attempt.model_validate(stored)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise GenlabError(f"{place}: {field}: {first['msg']}; correct it with: {fix}") from error


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
