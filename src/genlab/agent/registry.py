"""What was tried: `experiments/registry.json`, a bare list with a record an attempt.

It is written whole under a lock, so that two processes lose nothing of each other's. A damaged one
is never taken for an empty one: the attempts that were paid for would be paid for again. Each
attempt's own folder holds its record too (`results.json`), from which `rebuild` makes it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genlab.agent.workspace import REBUILD, Workspace
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json

FILE = "registry.json"
RESULTS = "results.json"
RESULTS_KIND = "agent attempt"
VERSION = 1
PATIENCE = 30.0  # seconds that a lock is waited for

Origin = Literal["baseline", "llm", "llm+repaired", "template", "search"]
Decision = Literal["", "iterate", "achieved", "stop", "revise", "failed"]


class Record(BaseModel):
    """One attempt. Fields that a later version adds are kept as they are."""

    model_config = ConfigDict(frozen=True, extra="allow")

    run_id: str = Field(min_length=1)
    timestamp: str
    model_name: str
    dataset: str
    metrics_summary: dict[str, Any]
    experiment_dir: str
    decision: Decision = ""
    version: int = VERSION
    parent: str | None = None  # the attempt that it branched from
    plan_origin: str = ""  # who proposed the config: baseline, llm, llm+repaired(n), search
    code_origin: str = ""  # who wrote the code: llm, llm+repaired(n), template
    failure: str = ""  # why there is no number, one line

    def value(self, metric: str) -> float | None:
        """The number `metric` of this attempt; None where it has none: failed is not zero."""
        found = self.metrics_summary.get(metric)
        return float(found) if isinstance(found, int | float) else None


class Registry:
    """The attempts of a workspace, oldest first."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.path = workspace.experiments / FILE

    def records(self) -> list[Record]:
        """All attempts. Raises GenlabError where the file is missing or damaged."""
        fix = f"{REBUILD} {self.workspace.root}"
        found = read_json(self.path, producer_command=fix)
        if not isinstance(found, list):
            raise GenlabError(f"{self.path}: not a list of attempts; rebuild it with: {fix}")
        records = []
        for index, each in enumerate(found):
            try:
                records.append(Record.model_validate(each))
            except ValidationError as error:
                first = error.errors()[0]
                place = ".".join(str(part) for part in first["loc"])
                fault = f"attempt {index}: {place}: {first['msg']}"
                raise GenlabError(f"{self.path}: {fault}; rebuild it with: {fix}") from error
        return records

    def put(self, record: Record) -> None:
        """Add `record`, or replace the one with its run_id; its folder keeps a copy."""
        with self._locked():
            records = self.records()
            at = next((i for i, each in enumerate(records) if each.run_id == record.run_id), None)
            if at is None:
                records.append(record)
            else:
                records[at] = record
            folder = self.workspace.root / record.experiment_dir
            told = {"kind": RESULTS_KIND, "version": VERSION, **record.model_dump(mode="json")}
            write_json(folder / RESULTS, told)
            self._write(records)

    def rebuild(self) -> int:
        """Write the registry again from the attempts' folders; returns how many it found.

        Raises GenlabError where an attempt's own file is damaged: it names the file.
        """
        with self._locked():
            records = []
            for path in sorted(self.workspace.experiments.glob(f"*/{RESULTS}")):
                fix = f"rm -r {path.parent}"
                found = dict(read_json(path, producer_command=fix, kind=RESULTS_KIND))
                del found["kind"]
                try:
                    records.append(Record.model_validate(found))
                except ValidationError as error:
                    raise GenlabError(
                        f"{path}: {error.errors()[0]['msg']}; mend it, or give this attempt up"
                        f" with: {fix}"
                    ) from error
            records.sort(key=lambda record: (record.timestamp, record.run_id))
            self._write(records)
        return len(records)

    def _write(self, records: list[Record]) -> None:
        write_json(self.path, [record.model_dump(mode="json") for record in records])

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = FileLock(self.path.with_suffix(".lock"), timeout=PATIENCE)
        try:
            with lock:
                yield
        except Timeout as error:
            raise GenlabError(
                f"{self.path} has been locked for {PATIENCE:g} s by another run of this workspace;"
                " wait for it, or stop it"
            ) from error


def best(records: list[Record], metric: str, *, higher: bool = True) -> Record | None:
    """The best attempt by `metric`; of equal ones the earlier, None where none has the number."""
    found = [(record.value(metric), record) for record in records]
    known = [(value, record) for value, record in found if value is not None]
    if not known:
        return None
    return max(known, key=lambda pair: pair[0] if higher else -pair[0])[1]


def as_prompt(records: list[Record]) -> str:
    """The attempts for a prompt: a line of JSON each."""
    shown = ("run_id", "parent", "model_name", "metrics_summary", "decision", "failure")
    lines = [
        json.dumps({key: value for key, value in record.model_dump().items() if key in shown})
        for record in records
    ]
    return "\n".join(lines) or "nothing has been tried yet"
