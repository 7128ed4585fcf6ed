"""What was tried: one record per attempt, `results.json` in the folder of the attempt.

`experiments/registry.json`, a plain list, repeats them for other programs. It is written as a whole
under a lock at every decision, and never read.
"""

import json
import math
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from typing import Any, Literal

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from genlab.agent.architecture.schema import ModelConfig
from genlab.agent.architecture.training import Training
from genlab.agent.workspace import REGISTRY, Workspace, hold
from genlab.core.errors import GenlabError, list_violations
from genlab.core.io import read_json, write_json

Verdict = Literal["", "met", "missed", "undecided", "failed"]
OLD_VERDICTS = {"achieved": "met", "iterate": "missed", "stop": "missed"}  # of runs before
RESULTS, CONFIG_FILE, CODE = "results.json", "model_config.yaml", "model_code.py"
SUMMARY, WEIGHTS = "summary.json", "weights.safetensors"
LOCK_TIMEOUT = 30.0  # seconds

Design = tuple[ModelConfig, Training]


class Review(BaseModel):
    """What the planner makes of an attempt once it is measured."""

    model_config = ConfigDict(extra="ignore")

    lesson: str = Field("", max_length=400, description="what the last attempt's result teaches")
    strengths: str = Field("", max_length=400)
    weaknesses: str = Field("", max_length=400)


class Draft(BaseModel):
    """A proposal on its way to an attempt."""

    model_config = ConfigDict(protected_namespaces=())

    number: int = 0  # from 1 in a run; 0: evaluated outside of one
    model_name: str
    parent: str = ""  # run_id of the attempt that it changes
    kind: str = ""  # draft, improve, debug
    origin: str = ""  # who proposed it: llm, search, tool
    config: dict[str, Any] = Field(default_factory=dict)
    training: dict[str, Any] = Field(default_factory=dict)
    change: str = ""  # what changes and why, in the planner's words
    difference: list[str] = Field(default_factory=list)  # what differs from the parent in fact
    analysis: str = ""  # of its code, by the tools' language model
    failure: str = ""  # why there is no number, one line
    notes: list[str] = Field(default_factory=list)
    # In files of its folder:
    code: str = Field("", exclude=True)  # that came with the proposal
    summary: dict[str, Any] = Field(default_factory=dict, exclude=True)

    @property
    def design(self) -> Design:
        """Its architecture and its training recipe."""
        return ModelConfig.model_validate(self.config), Training.model_validate(self.training)


class Attempt(Draft):
    """One attempt. Fields that this version does not know are kept, missing ones have defaults."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    version: Literal[2] = 2
    run_id: str = Field(min_length=1)
    timestamp: str
    dataset: str
    metrics_summary: dict[str, Any]  # means over seeds, parameters and multiply-adds
    experiment_dir: str
    decision: str = ""  # one line, such as "Iterate: more layers"
    verdict: Verdict = ""  # what the numbers say about the goal
    code_origin: str = ""  # who wrote the code: llm, llm+repaired(n), template, file
    built: list[str] = Field(default_factory=list)  # what differs between config and module
    seeds: list[dict[str, Any]] = Field(default_factory=list)  # the evaluator's SeedResult each
    confirmation: list[dict[str, Any]] = Field(default_factory=list)  # the same, of new seeds
    digest: str = ""  # of code, class, training, budget, data
    epochs: float | None = None  # passes over the training items, where fewer than the budget's
    review: dict[str, Any] = Field(default_factory=dict)
    wall_seconds: float = 0.0  # since the decision before it
    spend: dict[str, float] = Field(default_factory=dict)  # of the run, up to here
    test: dict[str, Any] = Field(default_factory=dict)  # of the best attempt alone

    @field_validator("verdict", mode="before")
    @classmethod
    def _read_old_verdict(cls, value: Any) -> Any:
        return OLD_VERDICTS.get(value, value)

    def values(self, metric: str) -> list[float]:
        """The value of `metric` for every seed that has one; none where the attempt failed."""
        found = [seed.get("metrics", {}).get(metric) for seed in self.seeds if not self.failure]
        return [value for value in found if value is not None and math.isfinite(value)]

    def mean(self, metric: str) -> float | None:
        """The mean of `metric` over seeds; None where no seed has it: a failure is not zero."""
        values = self.values(metric)
        return sum(values) / len(values) if values else None

    def format_metric(self, metric: str) -> str:
        """The values of `metric`, one per seed, for people."""
        return " / ".join(f"{value:.4f}" for value in self.values(metric)) or "–"

    def format_confirmation(self, metric: str) -> str:
        """The values of `metric` on new seeds, for people."""
        return " / ".join(f"{result['metrics'][metric]:.4f}" for result in self.confirmation)

    @property
    def cut_seeds(self) -> list[int]:
        """Seeds whose training ended before its examples, since its seconds were up."""
        return [seed["seed"] for seed in self.seeds if seed.get("cut")]

    @property
    def parameters(self) -> int | None:
        """Number of parameters; None where the model could not be built."""
        found = self.metrics_summary.get("parameters")
        return None if found is None else int(found)


def format_record(attempt: Attempt) -> dict[str, Any]:
    """A record as registry.json has it: seconds of UTC, and a folder that ends in a slash."""
    record = attempt.model_dump(mode="json")
    record["experiment_dir"] = f"{attempt.experiment_dir.rstrip('/')}/"
    if attempt.timestamp:
        moment = datetime.fromisoformat(attempt.timestamp).astimezone(timezone.utc)
        record["timestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return record


class Registry:
    """The attempts of a workspace, oldest first."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.path = workspace, workspace.experiments / REGISTRY

    def read_attempts(self) -> list[Attempt]:
        """All attempts. Raises a GenlabError that names the file where a record is damaged."""
        found = list[Attempt]()
        for path in self.workspace.experiments.glob(f"*/{RESULTS}"):
            fix = f'rm -r {path.parent} && genlab agent "GOAL"'
            try:
                found.append(Attempt.model_validate(read_json(path, producer_command=fix)))
            except ValidationError as error:
                fault = (
                    f"{list_violations(error)[0][1]}; start a new workspace, or make it with: {fix}"
                )
                raise GenlabError(f"{path}: {fault}") from error
        return sorted(found, key=lambda each: (each.timestamp, each.run_id))

    def read_numbered(self) -> list[Attempt]:
        """The run's attempts in order; what people evaluated with the tools is left out."""
        attempts = [attempt for attempt in self.read_attempts() if attempt.number]
        return sorted(attempts, key=lambda attempt: attempt.number)

    def put(self, attempt: Attempt) -> None:
        """Add `attempt`, or replace the one with its run_id."""
        with self.lock():
            stored = json.loads(attempt.model_dump_json())  # NaN and infinity become null
            write_json(self.workspace.root / attempt.experiment_dir / RESULTS, stored)

    def write(self) -> None:
        """Write registry.json again, as other programs read it."""
        with self.lock():
            write_json(self.path, [format_record(attempt) for attempt in self.read_attempts()])

    def unnumber_others(self, attempts: Sequence[Attempt]) -> None:
        """Take the numbers of all but these: an earlier start may have gone another way."""
        kept = {each.run_id for each in attempts}
        for each in self.read_attempts():
            if each.number and each.run_id not in kept:
                self.put(each.model_copy(update={"number": 0}))
        self.write()

    def recover(self) -> None:
        """Remove what a killed process left half written; for a run that holds the workspace.

        Whoever evaluates beside a run holds the registry while it writes a folder.
        """
        with self.lock():
            for folder in self.workspace.experiments.glob("qe_*"):
                if not (folder / RESULTS).exists():
                    shutil.rmtree(folder, ignore_errors=True)
            self.write()

    def lock(self) -> AbstractContextManager[None]:
        """Hold the registry; reentrant within a thread."""
        path = self.path.with_suffix(".lock")
        lock = FileLock(path, timeout=LOCK_TIMEOUT, is_singleton=True)  # which counts its holds
        fault = f"another process has held {path} for {LOCK_TIMEOUT:g} s; wait for it, or stop it"
        return hold(lock, fault)
