"""Train a module within the budget of a run, on some seeds, and enter it in the registry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from genlab.agent.architecture.compare import compare_build
from genlab.agent.architecture.schema import has_custom, parse_config
from genlab.agent.architecture.template import count_parameters
from genlab.agent.architecture.training import Training
from genlab.agent.evaluator.results import EvaluationError, ModelSummary, SeedResult
from genlab.agent.library import modules
from genlab.agent.library.modules import Module
from genlab.agent.library.toolbox import Toolbox
from genlab.agent.registry import CODE, CONFIG_FILE, SUMMARY, WEIGHTS, Attempt, Registry
from genlab.agent.workspace import to_yaml
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes, write_json, write_text

FIXED = (  # the run decides, not an eval_config
    "dataset", "num_classes", "subset", "validation", "examples", "epochs", "seconds", "seeds",
    "device",
)  # fmt: skip
CONFIRMING = 1_000_000  # added to the seeds that confirm an attempt: no first seed is among them
STRUCTURE = ("parameters", "multiply_adds")  # of a model, beside the means over its seeds


def drop_fixed(eval_config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """An eval_config without what the run decides, and a note on what is left out."""
    ignored = [name for name in FIXED if eval_config.get(name) is not None]
    chosen = {name: value for name, value in eval_config.items() if name not in FIXED}
    return chosen, [f"the run decides on {', '.join(ignored)}"] if ignored else []


def train(
    toolbox: Toolbox,
    module: Module,
    recipe: Training,
    *,
    stop_below: float | None = None,
    notes: Sequence[str] = (),
    epochs: float | None = None,
) -> Attempt:
    """Train a module on the run's seeds and measure it; what was trained already is not again.

    stop_below: a value of the metric at which the first seed is hopeless and the last one. epochs:
    passes over the training items, at most the budget's examples. A module that breaks is an
    attempt with a `failure`.
    """
    trial = Trial(
        toolbox, module.source, module.class_name, recipe, stop_below, list(notes), epochs
    )
    return trial.run()


def confirm(toolbox: Toolbox, attempt: Attempt) -> Attempt:
    """Train the module of an attempt on new seeds, which did not choose it."""
    source = (toolbox.workspace.root / attempt.experiment_dir / CODE).read_text(encoding="utf-8")
    recipe = attempt.design[1]
    trial = Trial(toolbox, source, attempt.model_name, recipe, epochs=attempt.epochs)
    return trial.confirm(attempt)


@dataclass
class Trial:
    """One evaluation: a model, how it is trained, and a value that makes further seeds hopeless.

    epochs: passes over the training items, within the budget of examples, which is the default.
    Its attempt enters the registry before it is trained, and again with each seed, so that a killed
    evaluation trains no finished seed again.
    """

    toolbox: Toolbox
    source: str
    class_name: str
    training: Training
    stop_below: float | None = None
    notes: list[str] = field(default_factory=list)
    epochs: float | None = None

    @property
    def examples(self) -> int:
        """Examples that a training sees."""
        most = self.toolbox.settings.budget.examples
        if self.epochs is None:
            return most
        return max(1, min(most, round(self.epochs * len(self.toolbox.data.train))))

    @property
    def digest(self) -> str:
        """Identifies trainings with equal results."""
        params, goal = self.toolbox.params, self.toolbox.goal
        training, budget = self.training.model_dump(mode="json"), self.toolbox.settings.budget
        budget = replace(budget, examples=self.examples)
        data = [goal.dataset, goal.task, params.subset, params.validation, params.device]
        parts = [self.source, self.class_name, training, asdict(budget), data, self.first_seed]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def first_seed(self) -> int:
        """The first seed of training: runs with different seeds share none."""
        return self.toolbox.settings.seed * self.toolbox.params.seeds

    def run(self) -> Attempt:
        """Train the seeds that an attempt lacks: an earlier one of the same digest, or a new one.

        What a run has decided on is not trained further.
        """
        registry = Registry(self.toolbox.workspace)
        known = (each for each in registry.read_attempts() if each.digest == self.digest)
        attempt = next(filter(self.is_usable, known), None) or self.begin(registry)
        self.toolbox.served.add(attempt.run_id)
        while not self.is_over(attempt):
            done, all_seeds = len(attempt.seeds), self.toolbox.params.seeds
            # The first one alone: it may be hopeless.
            seeds = range(self.first_seed + done, self.first_seed + (all_seeds if done else 1))
            try:
                with self.start(seeds) as trainings:
                    self.look_ahead(attempt)
                    for training in trainings:
                        attempt = attempt.model_copy(update=self.add(attempt, *training.result()))
                        registry.put(attempt)
                        self.look_ahead(attempt)
            except EvaluationError as error:
                kept = {name: attempt.metrics_summary[name] for name in STRUCTURE}
                changes = _failed(error.reason) | {"metrics_summary": kept}
                attempt = attempt.model_copy(update=changes)
                registry.put(attempt)
        return attempt

    def confirm(self, attempt: Attempt) -> Attempt:
        """Train an attempt on new seeds, which did not choose it; those it has are kept.

        Their weights are kept too: the test set is met with them. A seed that fails ends it.
        """
        registry = Registry(self.toolbox.workspace)
        count = self.toolbox.params.confirmation_seeds
        first = CONFIRMING + self.toolbox.settings.seed * count
        seeds = range(first + len(attempt.confirmation), first + count)
        folder = self.toolbox.workspace.root / attempt.experiment_dir
        try:
            with self.start(seeds) as trainings:
                for training in trainings:
                    result, weights = training.result()
                    write_bytes(folder / name_weights(result.seed), weights)
                    results = [*attempt.confirmation, asdict(result)]
                    attempt = attempt.model_copy(update={"confirmation": results})
                    registry.put(attempt)
        except EvaluationError as error:
            notes = [*attempt.notes, f"not confirmed: {error.reason}"]
            attempt = attempt.model_copy(update={"notes": notes, "confirmation": []})
            registry.put(attempt)
        return attempt

    @contextmanager
    def start(self, seeds: Iterable[int]) -> Iterator[list[Future[tuple[SeedResult, bytes]]]]:
        """Begin trainings on seeds; those that have not begun by the end are cancelled."""
        trainings = [self.toolbox.start(self, seed) for seed in seeds]
        try:
            yield trainings
        finally:
            for training in trainings:
                training.cancel()

    def is_usable(self, attempt: Attempt) -> bool:
        """Whether an earlier attempt of the same digest is the result of this evaluation.

        One with a seed that the clock cut is trained again, in an attempt beside it, unless a
        resumed run finds what it has decided on.
        """
        if self.is_over(attempt) and attempt.cut_seeds:
            return attempt.number > 0 and attempt.run_id not in self.toolbox.served
        return self.is_over(attempt) or not attempt.number

    def look_ahead(self, attempt: Attempt) -> None:
        """Let the toolbox train what may be wanted next, unless nothing is left here."""
        if self.toolbox.look_ahead is not None and not self.is_over(attempt):
            self.toolbox.look_ahead(self, attempt)

    def train(self, seed: int) -> tuple[SeedResult, bytes]:
        """Train on a seed, or take the training of a source; returns the result and the weights.

        Raises EvaluationError.
        """
        if (finished := self.toolbox.find_finished(self.digest, seed)) is not None:
            return finished
        with self.toolbox.borrow_judge() as judge:
            asked = (self.source, self.class_name, self.training, seed)
            return judge.evaluate(*asked, self.examples)

    def add(self, attempt: Attempt, found: SeedResult, weights: bytes) -> dict[str, Any]:
        """What the result of a seed changes in the attempt. The weights of the first are kept."""
        if not attempt.seeds:
            folder = self.toolbox.workspace.root / attempt.experiment_dir
            write_bytes(folder / WEIGHTS, weights)
        seeds, notes = [*attempt.seeds, asdict(found)], list(self.notes)
        if self.is_hopeless(seeds) and self.toolbox.params.seeds > 1:
            notes.append(f"hopeless after one seed: not better than {self.stop_below:.4g}")
        metrics = attempt.metrics_summary | _average(seeds)
        return {"seeds": seeds, "metrics_summary": metrics, "notes": notes}

    def is_over(self, attempt: Attempt) -> bool:
        """Whether nothing is left to train."""
        complete = len(attempt.seeds) >= self.toolbox.params.seeds
        return bool(attempt.failure) or complete or self.is_hopeless(attempt.seeds)

    def is_hopeless(self, results: list[dict[str, Any]]) -> bool:
        """Whether there is one result, on the wrong side of `stop_below`."""
        goal = self.toolbox.goal
        value = results[0]["metrics"].get(goal.metric) if len(results) == 1 else None
        if value is None or self.stop_below is None:
            return False
        return bool(value < self.stop_below if goal.higher else value > self.stop_below)

    def begin(self, registry: Registry) -> Attempt:
        """Inspect the model, and write the attempt's folder and its record."""
        workspace, training = self.toolbox.workspace, self.training.model_dump(mode="json")
        summary = self.toolbox.inspect(self.source, self.class_name)
        module = modules.recall(self.toolbox, self.source, self.class_name)
        config = module.config
        with registry.lock():  # a run that begins removes no folder that is half written
            folder = workspace.create_run_folder()
            chosen = {"model_config": config, "training": training}
            write_text(folder / CONFIG_FILE, to_yaml(chosen))
            write_text(folder / CODE, self.source)
            write_json(folder / SUMMARY, summary.model_dump(mode="json"))
            attempt = Attempt(
                run_id=folder.name, model_name=self.class_name, dataset=self.toolbox.goal.dataset,
                timestamp=datetime.now(timezone.utc).isoformat(timespec="microseconds"),
                metrics_summary=summary.model_dump(include={*STRUCTURE}), notes=self.notes,
                experiment_dir=workspace.relative(folder), origin="tool", code_origin=module.origin,
                config=config, training=training, built=self.compare(config, summary),
                digest=self.digest, epochs=self.epochs,
                **(_failed(summary.failure) if summary.failure else {}),
            )  # fmt: skip
            registry.put(attempt)
        return attempt

    def compare(self, config: dict[str, Any], summary: ModelSummary) -> list[str]:
        """What was built otherwise than the config requests."""
        if not config or summary.failure:
            return []
        requested, count = parse_config(config, self.toolbox.goal.task), None
        if not has_custom(requested):
            with suppress(GenlabError):  # code of a language model may do what the template cannot
                count = count_parameters(requested, *self.toolbox.contract)
        return compare_build(requested, summary.model_dump(), count)


def _failed(reason: str) -> dict[str, Any]:
    return {"failure": reason, "decision": f"Failed: {reason}", "verdict": "failed"}


def name_weights(seed: int) -> str:
    """File name of the weights of a seed that confirmed an attempt."""
    return f"weights_{seed}.safetensors"


def _average(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds of every metric, of the training loss and of the seconds."""
    rows = [each["metrics"] | {k: each[k] for k in ("train_loss", "seconds")} for each in results]
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
