"""The tool that trains and measures a model, and enters it in the registry as an attempt."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from genlab.agent.architecture.compare import built_differences
from genlab.agent.architecture.schema import has_custom, parse_config
from genlab.agent.architecture.template import count_parameters
from genlab.agent.architecture.training import BUDGET_FIELDS, Training, parse_training
from genlab.agent.evaluator.results import EvaluationError, Summary
from genlab.agent.registry import CODE, CONFIG_FILE, SUMMARY, WEIGHTS, Attempt, Registry
from genlab.agent.tools.files import read_file
from genlab.agent.tools.model import read_note, to_yaml
from genlab.agent.tools.toolbox import Toolbox, current
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_bytes, write_json, write_text

UNFINISHED, SEED_KIND = "unfinished", "agent seed"  # seeds of evaluations that are going on


class EvaluationFailedError(GenlabError):
    """A model that was evaluated and has no numbers; `run_id` is its attempt in the registry."""

    def __init__(self, run_id: str, message: str) -> None:
        super().__init__(f"{run_id}: {message}")
        self.run_id = run_id


def pytorch_quick_evaluator(
    model_script_path: str, model_class_name: str, eval_config: dict[str, Any]
) -> dict[str, Any]:
    """Train a model within the budget and measure it on validation data; it enters the registry.

    eval_config: how it is trained (optimiser, lr, schedule, batch_size, augmentation, ...), and
    stop_below: a value of the metric at which the first seed is hopeless and the last one. Data and
    budget are the goal's. Returns the metrics, train_loss, seeds and run_id.
    """
    source, chosen = read_file(model_script_path), dict(eval_config)
    ignored = [name for name in BUDGET_FIELDS if name in chosen]
    notes = [f"the run decides on {', '.join(ignored)}"] if ignored else []
    stop_below = chosen.pop("stop_below", None)
    if not isinstance(stop_below, int | float | None):
        raise GenlabError(f"eval_config.stop_below must be a number, got {stop_below!r}")
    training = parse_training(chosen)
    trial = Trial(current(), source, model_class_name, training, stop_below, notes)
    attempt = trial.find() or trial.run()
    if attempt.failure:
        raise EvaluationFailedError(attempt.run_id, f"{attempt.model_name}: {attempt.failure}")
    shown = attempt.model_dump(include={"run_id", "seeds", "notes", "failure"})
    return {**attempt.metrics_summary, **shown}


@dataclass
class Trial:
    """One evaluation: a model, how it is trained, and a value that makes further seeds hopeless."""

    toolbox: Toolbox
    source: str
    class_name: str
    training: Training
    stop_below: float | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """Identifies trainings with equal results."""
        params, goal = self.toolbox.params, self.toolbox.goal
        training, budget = self.training.model_dump(mode="json"), asdict(self.toolbox.budget)
        data = [goal.dataset, goal.task, params.subset, params.validation, params.device]
        parts = [self.source, self.class_name, training, budget, data]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def folder(self) -> Path:
        """Where seeds are kept until all are finished."""
        return self.toolbox.workspace.experiments / UNFINISHED / self.digest

    def find(self) -> Attempt | None:
        """The attempt of an earlier evaluation with the same outcome."""
        for attempt in reversed(Registry(self.toolbox.workspace).attempts()):
            complete = len(attempt.seeds) >= self.toolbox.params.seeds
            same = attempt.digest == self.digest
            if same and (attempt.failure or complete or self.is_hopeless(attempt.seeds)):
                return attempt
        return None

    def run(self) -> Attempt:
        """Inspect, train seed by seed, and enter the attempt."""
        summary = self.toolbox.inspect(self.source, self.class_name)
        failure, results = summary.failure, list[dict[str, Any]]()
        while not failure and len(results) < self.toolbox.params.seeds:
            if self.is_hopeless(results):
                self.notes.append(f"hopeless after one seed: not better than {self.stop_below:.4g}")
                break
            try:
                results.append(self.train(len(results)))
            except EvaluationError as error:
                failure = error.reason
        attempt = self.enter(summary, results, failure)
        shutil.rmtree(self.folder, ignore_errors=True)
        return attempt

    def train(self, seed: int) -> dict[str, Any]:
        """Train on one seed; one that a killed evaluation had finished is read again."""
        if (path := self.folder / f"{seed}.json").exists():
            stored = read_json(path, producer_command=f"rm -r {self.folder}", kind=SEED_KIND)
            return dict(stored["result"])
        with self.toolbox.borrow_judge() as judge:
            found, weights = judge.evaluate(self.source, self.class_name, self.training, seed)
        if seed == 0:
            write_bytes(self.folder / WEIGHTS, weights)
        write_json(path, {"kind": SEED_KIND, "result": asdict(found)})
        return asdict(found)

    def is_hopeless(self, results: list[dict[str, Any]]) -> bool:
        """Whether there is one result, on the wrong side of `stop_below`."""
        goal = self.toolbox.goal
        value = results[0]["metrics"].get(goal.metric) if len(results) == 1 else None
        if value is None or self.stop_below is None:
            return False
        return bool(value < self.stop_below if goal.higher else value > self.stop_below)

    def enter(self, summary: Summary, results: list[dict[str, Any]], failure: str) -> Attempt:
        """Write the attempt's folder and its record."""
        workspace, dataset = self.toolbox.workspace, self.toolbox.goal.dataset
        registry, training = Registry(workspace), self.training.model_dump(mode="json")
        config, origin = read_note(self.toolbox, self.source)
        metrics: dict[str, Any] = summary.model_dump(include={"parameters", "multiply_adds"})
        with registry.locked():  # a run that begins removes no folder that is half written
            folder = workspace.new_run()
            write_text(
                folder / CONFIG_FILE, to_yaml({"model_config": config, "training": training})
            )
            write_text(folder / CODE, self.source)
            write_json(folder / SUMMARY, summary.model_dump(mode="json"))
            if (self.folder / WEIGHTS).exists():
                shutil.copyfile(self.folder / WEIGHTS, folder / WEIGHTS)
            attempt = Attempt(
                run_id=folder.name, model_name=self.class_name, dataset=dataset,
                timestamp=datetime.now(timezone.utc).isoformat(timespec="microseconds"),
                metrics_summary=metrics if failure else metrics | _average(results),
                experiment_dir=workspace.relative(folder), failure=failure, notes=self.notes,
                decision=f"Failed: {failure}" if failure else "",
                verdict="failed" if failure else "", origin="tool", code_origin=origin,
                config=config, training=training, built=self.compare(config, summary),
                seeds=results, digest=self.digest,
            )  # fmt: skip
            registry.put(attempt)
        return attempt

    def compare(self, config: dict[str, Any], summary: Summary) -> list[str]:
        """What was built otherwise than the config requests."""
        if not config or summary.failure:
            return []
        requested = parse_config(config, self.toolbox.goal.task)
        custom, contract = has_custom(requested), self.toolbox.contract
        count = None if custom else count_parameters(requested, *contract)
        return built_differences(requested, summary.model_dump(), count)


def _average(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds of every metric, of the training loss and of the seconds."""
    rows = [each["metrics"] | {k: each[k] for k in ("train_loss", "seconds")} for each in results]
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
