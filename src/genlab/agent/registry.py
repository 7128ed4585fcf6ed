"""What was tried: `experiments/registry.json`, a plain list with one record per attempt.

The list is replaced as a whole under a lock, so processes that write at once lose nothing. Each
attempt's folder holds its record too (`results.json`), from which the registry can be rebuilt.
"""

from __future__ import annotations

import json
import math
import shutil
from contextlib import AbstractContextManager
from typing import Any, Literal

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genlab.agent.workspace import Workspace, hold
from genlab.core.errors import GenlabError, violations
from genlab.core.io import read_json, write_json

FILE, RESULTS = "registry.json", "results.json"
CONFIG_FILE, CODE = "model_config.yaml", "model_code.py"
SUMMARY, WEIGHTS = "summary.json", "weights.safetensors"
LOCK_TIMEOUT = 30.0  # seconds


class Attempt(BaseModel):
    """One attempt. Fields that this version does not know are kept, missing ones have defaults."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    version: Literal[2] = 2
    run_id: str = Field(min_length=1)
    timestamp: str
    model_name: str
    dataset: str
    metrics_summary: dict[str, Any]  # means over seeds, parameters and multiply-adds
    experiment_dir: str
    decision: str = ""  # a sentence
    verdict: Literal["", "iterate", "achieved", "stop", "failed"] = ""
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
    digest: str = ""  # of code, class, training, budget, data
    notes: list[str] = Field(default_factory=list)
    analysis: str = ""  # of its code, by the tools' language model
    review: dict[str, Any] = Field(default_factory=dict)
    wall_seconds: float = 0.0  # from its proposal to its last number
    spend: dict[str, float] = Field(default_factory=dict)  # of the run, up to here
    test: dict[str, Any] = Field(default_factory=dict)  # of the best attempt alone

    def values(self, metric: str) -> list[float]:
        """The value of `metric` for every seed that has one; none where the attempt failed."""
        found = [seed.get("metrics", {}).get(metric) for seed in self.seeds if not self.failure]
        return [value for value in found if value is not None and math.isfinite(value)]

    def mean(self, metric: str) -> float | None:
        """The mean of `metric` over seeds; None where no seed has it: a failure is not zero."""
        values = self.values(metric)
        return sum(values) / len(values) if values else None

    @property
    def parameters(self) -> int | None:
        """Number of parameters; None where the model could not be built."""
        found = self.metrics_summary.get("parameters")
        return None if found is None else int(found)


class Registry:
    """The attempts of a workspace, oldest first."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.path = workspace, workspace.experiments / FILE

    def attempts(self) -> list[Attempt]:
        """All attempts. Raises a GenlabError where the file is missing or damaged."""
        fix = f"genlab agent rebuild {self.workspace.root}"
        stored = read_json(self.path, producer_command=fix)
        if not isinstance(stored, list):
            raise GenlabError(f"{self.path} holds no list of attempts; make it with: {fix}")
        return [_parse(each, f"{self.path}: {n}", fix) for n, each in enumerate(stored)]

    def put(self, attempt: Attempt) -> None:
        """Add `attempt`, or replace the one with its run_id; its folder gets results.json too."""
        with self.locked():
            attempts = {each.run_id: each for each in self.attempts()}
            stored = json.loads(attempt.model_dump_json())  # NaN and infinity become null
            write_json(self.workspace.root / attempt.experiment_dir / RESULTS, stored)
            self._write({**attempts, attempt.run_id: Attempt.model_validate(stored)})

    def rebuild(self) -> int:
        """Write the registry again from the attempts' folders; returns the number of attempts.

        Raises a GenlabError that names the file where an attempt's record is damaged.
        """
        with self.locked():
            found = []
            for path in self.workspace.experiments.glob(f"*/{RESULTS}"):
                fix = f"rm -r {path.parent}"
                found.append(_parse(read_json(path, producer_command=fix), f"{path}", fix))
            found.sort(key=lambda each: (each.timestamp, each.run_id))
            self._write({each.run_id: each for each in found})
        return len(found)

    def recover(self) -> None:
        """Undo what a killed process left half done; for a run that holds the workspace.

        A folder without results.json is removed, one that is missing in the registry is entered.
        Whoever evaluates beside a run holds the registry while it writes a folder.
        """
        with self.locked():
            for folder in self.workspace.experiments.glob("qe_*"):
                if not (folder / RESULTS).exists():
                    shutil.rmtree(folder, ignore_errors=True)
            self.rebuild()

    def locked(self) -> AbstractContextManager[None]:
        """Hold the registry; reentrant within a thread."""
        path = self.path.with_suffix(".lock")
        lock = FileLock(path, timeout=LOCK_TIMEOUT, is_singleton=True)  # which counts its holds
        fault = f"another process has held {path} for {LOCK_TIMEOUT:g} s; wait for it, or stop it"
        return hold(lock, fault)

    def _write(self, attempts: dict[str, Attempt]) -> None:
        write_json(self.path, [each.model_dump(mode="json") for each in attempts.values()])


def _parse(stored: Any, place: str, fix: str) -> Attempt:
    try:
        return Attempt.model_validate(stored)
    except ValidationError as error:
        fault = f"{violations(error)[0][1]}; start a new workspace, or make it again with: {fix}"
        raise GenlabError(f"{place}: {fault}") from error
