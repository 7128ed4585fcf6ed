"""Records of attempts: `results.json` in the folder of each attempt.

`experiments/registry.json`, a plain list, repeats them for other programs. It is rewritten under a
lock at every decision, and this package never reads it.
"""

import json
import math
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from typing import Any, Literal

from filelock import BaseFileLock, FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from genlab.agent.architecture.schema import ModelConfig
from genlab.agent.architecture.training import Training
from genlab.agent.workspace import REGISTRY, Workspace
from genlab.core.errors import GenlabError, acquire, list_violations
from genlab.core.io import read_json, write_json

Verdict = Literal["", "met", "missed", "undecided", "failed"]
RENAMED_VERDICTS = {"achieved": "met", "iterate": "missed", "stop": "missed"}  # of version 0.2
RESULTS = "results.json"
CONFIG_FILE = "model_config.yaml"
CODE = "model_code.py"
SUMMARY = "summary.json"
WEIGHTS = "weights.safetensors"
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
        """The architecture and the training recipe."""
        return ModelConfig.model_validate(self.config), Training.model_validate(self.training)


class Attempt(Draft):
    """The record of an attempt.

    A field that this version does not have is kept; a missing one takes its default.
    """

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
        return RENAMED_VERDICTS.get(value, value) if isinstance(value, str) else value

    def values(self, metric: str) -> list[float]:
        """List the finite values of a metric, one per seed; none where the attempt failed."""
        if self.failure:
            return []
        values = [seed.get("metrics", {}).get(metric) for seed in self.seeds]
        return [value for value in values if value is not None and math.isfinite(value)]

    def mean(self, metric: str) -> float | None:
        """Average a metric over seeds; None where no seed has it, since a failure is not zero."""
        values = self.values(metric)
        return sum(values) / len(values) if values else None

    def format_metric(self, metric: str) -> str:
        """Write the values of a metric for the user, one per seed."""
        return " / ".join(f"{value:.4f}" for value in self.values(metric)) or "–"

    def format_confirmation(self, metric: str) -> str:
        """Write the values of a metric on the new seeds for the user."""
        return " / ".join(f"{result['metrics'][metric]:.4f}" for result in self.confirmation)

    @property
    def cut_seeds(self) -> list[int]:
        """Seeds whose training the time limit ended before it had seen all examples."""
        return [seed["seed"] for seed in self.seeds if seed.get("cut")]

    @property
    def parameters(self) -> int | None:
        """Number of parameters; None where the model could not be built."""
        count = self.metrics_summary.get("parameters")
        return None if count is None else int(count)


def format_record(attempt: Attempt) -> dict[str, Any]:
    """Format a record for registry.json: times in whole seconds of UTC, folders with a slash."""
    record = attempt.model_dump(mode="json")
    record["experiment_dir"] = f"{attempt.experiment_dir.rstrip('/')}/"
    if attempt.timestamp:
        moment = datetime.fromisoformat(attempt.timestamp).astimezone(timezone.utc)
        record["timestamp"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return record


class Registry:
    """The attempts of a workspace, oldest first."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.path = workspace.experiments / REGISTRY

    def read_attempts(self) -> list[Attempt]:
        """Read all attempts. Raises a GenlabError that names the file of a damaged record."""
        attempts = list[Attempt]()
        for path in self.workspace.experiments.glob(f"*/{RESULTS}"):
            fix = f'rm -r {path.parent} && genlab agent "GOAL"'
            try:
                attempts.append(Attempt.model_validate(read_json(path, producer_command=fix)))
            except ValidationError as error:
                fault = (
                    f"{list_violations(error)[0][1]}; start a new workspace, or make it with: {fix}"
                )
                raise GenlabError(f"{path}: {fault}") from error
        return sorted(attempts, key=lambda attempt: (attempt.timestamp, attempt.run_id))

    def read_numbered(self) -> list[Attempt]:
        """Read the attempts of the run by number, without those that users made with the tools."""
        attempts = [attempt for attempt in self.read_attempts() if attempt.number]
        return sorted(attempts, key=lambda attempt: attempt.number)

    def put(self, attempt: Attempt) -> None:
        """Add an attempt, or replace the one with its run_id."""
        with self.lock():
            stored = json.loads(attempt.model_dump_json())  # NaN and infinity become null
            write_json(self.workspace.root / attempt.experiment_dir / RESULTS, stored)

    def write(self) -> None:
        """Rewrite registry.json, which other programs read."""
        with self.lock():
            write_json(self.path, [format_record(attempt) for attempt in self.read_attempts()])

    def unnumber_others(self, attempts: Sequence[Attempt]) -> None:
        """Set the number of all other attempts to 0.

        They are of an earlier start of the run that went another way.
        """
        run_ids = {attempt.run_id for attempt in attempts}
        for attempt in self.read_attempts():
            if attempt.number and attempt.run_id not in run_ids:
                self.put(attempt.model_copy(update={"number": 0}))
        self.write()

    def recover(self) -> None:
        """Remove folders that a killed process left half written; the caller locks the workspace.

        A tool that evaluates at the same time locks the registry while it writes its folder.
        """
        with self.lock():
            for folder in self.workspace.experiments.glob("qe_*"):
                if not (folder / RESULTS).exists():
                    shutil.rmtree(folder, ignore_errors=True)
            self.write()

    def lock(self) -> AbstractContextManager[BaseFileLock]:
        """Lock the registry; reentrant within a thread."""
        path = self.path.with_suffix(".lock")
        # A singleton counts how often it is held, so that a thread may take it again.
        lock = FileLock(path, timeout=LOCK_TIMEOUT, is_singleton=True)
        fault = f"another process has held {path} for {LOCK_TIMEOUT:g} s; wait for it, or stop it"
        return acquire(lock, fault)
