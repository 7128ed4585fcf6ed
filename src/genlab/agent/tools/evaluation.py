"""The tool that trains and measures a model, and enters it in the registry as an attempt."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genlab.agent.registry import Attempt, Registry
from genlab.agent.tools.model import read_note, read_source, to_yaml
from genlab.agent.tools.toolbox import Toolbox, current
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_bytes, write_json, write_text

if TYPE_CHECKING:
    from genlab.agent.architecture.training import Training
    from genlab.agent.evaluator.judge import SeedResult, Summary

CONFIG_FILE, CODE, SUMMARY = "model_config.yaml", "model_code.py", "summary.json"
WEIGHTS = "weights.safetensors"
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
    stop_below: a value of the metric below which the first seed ends the evaluation. The budget
    and the data are those of the goal. Returns the metrics, train_loss, seeds and run_id.
    """
    toolbox = current()
    source = read_source(model_script_path, model_class_name)
    training, stop_below, notes = _read_eval_config(toolbox, eval_config)
    trial = Trial(toolbox, source, model_class_name, training, stop_below, notes)
    attempt = trial.find() or trial.run()
    if attempt.failure:
        raise EvaluationFailedError(attempt.run_id, f"{attempt.model_name}: {attempt.failure}")
    return {
        **attempt.metrics_summary,
        "seeds": attempt.seeds,
        "run_id": attempt.run_id,
        "notes": attempt.notes,
        "failure": "",
    }


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
    def seeds(self) -> range:
        """Seeds of the trainings."""
        return range(self.toolbox.params.seeds)

    @property
    def digest(self) -> str:
        """Identifies trainings with equal results."""
        toolbox = self.toolbox
        params, goal = toolbox.params, toolbox.goal
        parts = [
            self.source, self.class_name, self.training.model_dump(mode="json"),
            asdict(toolbox.budget), goal.dataset, goal.task, params.subset, params.validation,
            params.device,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def find(self) -> Attempt | None:
        """The attempt of an earlier evaluation with the same outcome."""
        metric = self.toolbox.goal.metric
        for attempt in reversed(Registry(self.toolbox.workspace).attempts()):
            if attempt.digest != self.digest:
                continue
            values = attempt.values(metric)
            whole = len(values) >= len(self.seeds)
            if attempt.failure or whole or (values and self.is_hopeless(values[0])):
                return attempt
        return None

    def run(self) -> Attempt:
        """Inspect, train seed by seed, and enter the attempt."""
        from genlab.agent.evaluator.judge import EvaluationError

        summary = self.toolbox.inspect(self.source, self.class_name)
        failure, results = summary.failure, list[dict[str, Any]]()
        for seed in () if failure else self.seeds:
            try:
                results.append(self.train(seed))
            except EvaluationError as error:
                failure = error.reason
                break
            first = results[0]["metrics"].get(self.toolbox.goal.metric)
            if first is not None and self.is_hopeless(first) and seed + 1 < len(self.seeds):
                self.notes.append(f"stopped after one seed: hopeless beside {self.stop_below:.4g}")
                break
        return self.enter(summary, results, failure)

    def train(self, seed: int) -> dict[str, Any]:
        """Train on one seed; a seed that a killed evaluation had finished is read again."""
        folder = self._unfinished
        path = folder / f"{seed}.json"
        if path.exists():
            stored = read_json(path, producer_command=f"rm -r {folder}", kind=SEED_KIND)
            return dict(stored["result"])
        with self.toolbox.borrow_judge() as judge:
            found, weights = judge.evaluate(self.source, self.class_name, self.training, seed)
        if seed == self.seeds[0]:
            write_bytes(folder / WEIGHTS, weights)
        write_json(path, {"kind": SEED_KIND, "result": (result := _plain(found))})
        return result

    def is_hopeless(self, value: float) -> bool:
        """Whether a value of the first seed is on the wrong side of `stop_below`."""
        if self.stop_below is None:
            return False
        higher = self.toolbox.goal.higher
        return value < self.stop_below if higher else value > self.stop_below

    def enter(self, summary: Summary, results: list[dict[str, Any]], failure: str) -> Attempt:
        """Write the attempt's folder and its record."""
        from genlab.agent.architecture.compare import built_differences
        from genlab.agent.architecture.schema import parse_config

        workspace, registry = self.toolbox.workspace, Registry(self.toolbox.workspace)
        config, origin = read_note(self.toolbox, self.source)
        built, training = list[str](), self.training.model_dump(mode="json")
        if config and not summary.failure:
            parsed = parse_config(config, self.toolbox.goal.task)
            built = built_differences(parsed, summary.to_json())
        with registry.locked():  # so that a run that begins does not remove a half-made folder
            folder = workspace.new_run()
            write_text(
                folder / CONFIG_FILE, to_yaml({"model_config": config, "training": training})
            )
            write_text(folder / CODE, self.source)
            write_json(folder / SUMMARY, summary.to_json())
            if (self._unfinished / WEIGHTS).exists():
                shutil.copyfile(self._unfinished / WEIGHTS, folder / WEIGHTS)
            attempt = Attempt(
                run_id=folder.name,
                timestamp=datetime.now(timezone.utc).isoformat(timespec="microseconds"),
                model_name=self.class_name,
                dataset=self.toolbox.goal.dataset,
                metrics_summary={} if failure else _summarise(results),
                experiment_dir=workspace.relative(folder),
                decision=f"Failed: {failure}" if failure else "",
                verdict="failed" if failure else "",
                origin="tool",
                code_origin=origin,
                config=config,
                training=training,
                built=built,
                seeds=results,
                failure=failure,
                digest=self.digest,
                notes=self.notes,
            )
            numbers = {"parameters": summary.parameters, "multiply_adds": summary.multiply_adds}
            known = {name: value for name, value in numbers.items() if value is not None}
            attempt = attempt.model_copy(
                update={"metrics_summary": attempt.metrics_summary | known}
            )
            registry.put(attempt)
        shutil.rmtree(self._unfinished, ignore_errors=True)
        return attempt

    @property
    def _unfinished(self) -> Path:
        return self.toolbox.workspace.experiments / UNFINISHED / self.digest


def _read_eval_config(
    toolbox: Toolbox, eval_config: Mapping[str, Any]
) -> tuple[Training, float | None, list[str]]:
    """Training, stop_below and notes on what the budget fixes."""
    from genlab.agent.architecture.training import parse_training

    if not isinstance(eval_config, Mapping):
        raise GenlabError(f"eval_config must be an object, got {str(eval_config)[:60]!r}")
    params, budget = toolbox.params, toolbox.budget
    fixed = {
        "dataset": toolbox.goal.dataset,
        "subset": params.subset,
        "examples": budget.examples,
        "epochs": budget.examples / params.subset,
        "validation": params.validation,
        "seconds": budget.seconds,
        "time_limit": budget.seconds,
        "max_parameters": budget.max_parameters,
        "seeds": params.seeds,
        "device": params.device,
    }
    notes = [
        f"{name} is {fixed[name]} for every attempt, not {str(value)[:40]}"
        for name, value in eval_config.items()
        if name in fixed and value not in (fixed[name], list(range(params.seeds)))
    ]
    stop_below = eval_config.get("stop_below")
    if stop_below is not None and not isinstance(stop_below, int | float):
        raise GenlabError(f"eval_config.stop_below must be a number, got {stop_below!r}")
    chosen = {key: value for key, value in eval_config.items() if key not in (*fixed, "stop_below")}
    return parse_training(chosen), stop_below, notes


def _summarise(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds of every metric, of the training loss and of the seconds."""
    rows = [
        result["metrics"] | {name: result[name] for name in ("train_loss", "seconds")}
        for result in results
    ]
    columns = {name: [row.get(name) for row in rows] for name in rows[0]}
    return {
        name: sum(values) / len(values)
        for name, values in columns.items()
        if all(value is not None for value in values)
    }


def _plain(result: SeedResult) -> dict[str, Any]:
    """A result as JSON holds it; what is not finite becomes None."""
    from pydantic import TypeAdapter

    return dict(json.loads(TypeAdapter(dict[str, Any]).dump_json(asdict(result))))
