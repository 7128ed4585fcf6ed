"""An attempt of the loop: its record in the registry, and its files.

    experiments/<run_id>/model_config.yaml    architecture and training
                         model_code.py        what was trained
                         summary.json         what was measured of its structure
                         weights.safetensors  of the first seed
                         results.json         the record; a folder without it was left half made

The state of a run is derived from these records alone, so a killed run goes on from them.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field
from ruamel.yaml import YAML

from genlab.agent.candidate import Candidate, Training
from genlab.agent.goal import Goal
from genlab.agent.registry import RESULTS, RESULTS_KIND, Record, Registry, best
from genlab.agent.space import ModelConfig
from genlab.agent.workspace import CONFIG, MODEL, REBUILD, Workspace
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_bytes, write_json, write_text

CONFIG_FILE, CODE, SUMMARY = "model_config.yaml", "model_code.py", "summary.json"
WEIGHTS = "weights.safetensors"
SHOWN = ("accuracy", "val_loss", "train_loss", "parameters", "multiply_adds")
CLOCKED = re.compile(r",? (?:after|within) [\d.]+ s\b")


class Attempt(Record):
    """A record of the loop. iteration: from 1, the baseline. place: in the transcript, after it."""

    iteration: int = Field(ge=1)
    place: int = Field(0, ge=0)
    architecture: ModelConfig
    training: Training = Training()
    checked: list[dict[str, Any]] = Field(default_factory=list)  # marks, one a seed of training
    remark: str = ""  # the planner's modifications
    edits: list[str] = Field(default_factory=list)  # what was repaired of its proposal
    faults: list[str] = Field(default_factory=list)  # of code that was refused
    planner_failure: str = ""
    review: dict[str, Any] = Field(default_factory=dict)
    reason: str = ""  # why the decision is another than the planner's
    spend: dict[str, float] = Field(default_factory=dict)  # of the run, up to here
    attempt_seconds: float = 0.0
    test: dict[str, Any] = Field(default_factory=dict)  # marks on the test part, of the best alone

    @property
    def candidate(self) -> Candidate:
        """What was tried."""
        return Candidate(self.architecture, self.training)

    def values(self, metric: str) -> list[float]:
        """The number `metric` of each seed it was trained on; none where it failed."""
        if self.failure:
            return []
        if metric == "accuracy":
            return [each["validation"]["accuracy"] for each in self.checked]
        if metric == "val_loss":
            return [each["validation"]["loss"] for each in self.checked]
        if metric == "seconds":
            return [each["seconds"] for each in self.checked]
        value = self.value(metric)
        return [] if value is None else [value] * len(self.checked)

    @property
    def is_searched(self) -> bool:
        """Whether search planned it by itself, and not in place of a repeat that was proposed."""
        return self.plan_origin == "search" and not self.edits

    def reached(self, goal: Goal, seeds: Sequence[int]) -> bool:
        """Whether it reaches `goal` on every one of `seeds`."""
        found = self.values(goal.metric)
        return len(found) >= len(seeds) and goal.reached(found)


def attempts(registry: Registry) -> list[Attempt]:
    """The loop's own attempts in order; what people tried with the tools stays out of it."""
    records = [record for record in registry.records() if "iteration" in (record.model_extra or {})]
    found = [Attempt.model_validate(record.model_dump(mode="json")) for record in records]
    return sorted(found, key=lambda each: each.iteration)


def leader(found: Sequence[Attempt], goal: Goal, seeds: Sequence[int]) -> Attempt | None:
    """The best on the first seed; of those that reached the goal on all seeds, if any did."""
    pool = [each for each in found if each.reached(goal, seeds)] or list(found)
    top = best([*pool], goal.metric, higher=goal.higher)
    return next((each for each in pool if top is not None and each.run_id == top.run_id), None)


def shown(found: Sequence[Attempt]) -> list[Record]:
    """The attempts as a prompt may tell them: by number, and without a clock's word.

    A replayed run has other run_ids and takes other seconds; it has to ask the same questions.
    """
    numbers = {each.run_id: str(each.iteration) for each in found}
    return [
        Record(
            run_id=str(each.iteration),
            timestamp="",
            model_name=each.model_name,
            dataset=each.dataset,
            metrics_summary=rounded(each.metrics_summary),
            experiment_dir="",
            decision=each.decision,
            parent=numbers.get(each.parent or ""),
            plan_origin=each.plan_origin,
            failure=CLOCKED.sub("", each.failure),
        )
        for each in found
    ]


def rounded(metrics: dict[str, Any]) -> dict[str, Any]:
    """The numbers of an attempt that a prompt shows, short."""
    return {
        name: round(metrics[name], 4) if isinstance(metrics[name], float) else metrics[name]
        for name in SHOWN
        if name in metrics
    }


def keep(
    folder: Path, attempt: Attempt, code: str, summary: dict[str, Any], weights: bytes
) -> None:
    """Write the files of an attempt, all but its record."""
    told = {
        "architecture": attempt.architecture.model_dump(mode="json"),
        "training": attempt.training.model_dump(mode="json"),
    }
    write_text(folder / CONFIG_FILE, as_yaml(told))
    write_text(folder / CODE, code)
    write_json(folder / SUMMARY, summary)
    if weights:
        write_bytes(folder / WEIGHTS, weights)


def summary_of(workspace: Workspace, attempt: Attempt) -> dict[str, Any]:
    """What was measured of its structure, and said of it. Raises GenlabError where that is gone."""
    path = workspace.root / attempt.experiment_dir / SUMMARY
    fix = f"rm -r {path.parent} && {REBUILD} {workspace.root}"
    found = read_json(path, producer_command=fix)
    if not isinstance(found, dict):
        raise GenlabError(f"{path} holds no summary; give this attempt up with: {fix}")
    return found


def make_current(workspace: Workspace, attempt: Attempt) -> None:
    """Copy code and config of `attempt` to where the workspace's model stands."""
    folder = workspace.root / attempt.experiment_dir
    for source, target in ((CODE, MODEL), (CONFIG_FILE, CONFIG)):
        write_bytes(workspace.root / target, (folder / source).read_bytes())


def as_yaml(value: dict[str, Any]) -> str:
    """Plain values as YAML, blocks rather than braces."""
    writer, text = YAML(typ="safe", pure=True), io.StringIO()
    writer.default_flow_style = False
    writer.dump(value, text)
    return text.getvalue()


def mended(workspace: Workspace) -> Registry:
    """The registry, with what a kill came between put right.

    An attempt whose record is on disk and not in the registry is entered; a folder without a record
    was left half made, and goes: that attempt is made again.
    """
    registry = Registry(workspace)
    known = {record.run_id for record in registry.records()}
    for folder in sorted(workspace.experiments.glob("qe_*")):
        path = folder / RESULTS
        if not path.exists():
            shutil.rmtree(folder, ignore_errors=True)
        elif folder.name not in known:
            told = dict(read_json(path, producer_command=f"rm -r {folder}", kind=RESULTS_KIND))
            del told["kind"]
            registry.put(Record.model_validate(told))
    return registry
