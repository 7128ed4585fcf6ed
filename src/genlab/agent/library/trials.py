"""Train a module within the budget of a run, on some seeds, and enter it in the registry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from genlab.agent.architecture.compare import compare_build
from genlab.agent.architecture.schema import has_custom, parse_config
from genlab.agent.architecture.template import count_parameters
from genlab.agent.architecture.training import Training
from genlab.agent.evaluator.results import EvaluationError, ModelSummary, SeedResult
from genlab.agent.library import modules
from genlab.agent.library.modules import Module
from genlab.agent.library.toolbox import Toolbox
from genlab.agent.library.training_pool import TrainedSeed, TrainingKey
from genlab.agent.registry import CODE, CONFIG_FILE, SUMMARY, WEIGHTS, Attempt, Registry
from genlab.core.config_yaml import format_config
from genlab.core.errors import GenlabError
from genlab.core.io import write_bytes, write_json, write_text

FIXED = (  # keys of an eval_config that the run decides on
    "dataset", "num_classes", "subset", "validation", "examples", "epochs", "seconds", "seeds",
    "device",
)  # fmt: skip
CONFIRMATION_OFFSET = 1_000_000  # of the seeds that confirm an attempt: they share none with others
STRUCTURE = ("parameters", "multiply_adds")  # of a model, beside the means over its seeds

TrainAhead = Callable[["Trial", Attempt], None]
"""Called with a trial and its attempt once the next seeds have started to train.

It may start trainings that will probably be needed.
"""


def drop_fixed(eval_config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Drop what the run decides from an eval_config; returns the rest and notes on what is dropped.

    There is one note, or none.
    """
    ignored = [name for name in FIXED if eval_config.get(name) is not None]
    recipe = {name: value for name, value in eval_config.items() if name not in FIXED}
    notes = [f"the run decides on {', '.join(ignored)}"] if ignored else []
    return recipe, notes


def train(
    toolbox: Toolbox,
    module: Module,
    recipe: Training,
    *,
    hopeless_bound: float | None = None,
    notes: Sequence[str] = (),
    epochs: float | None = None,
    train_ahead: TrainAhead | None = None,
) -> Attempt:
    """Train a module on the run's seeds and measure it; finished seeds are not trained again.

    hopeless_bound: a value of the metric; a first seed that is worse than it ends the trial.
    epochs: passes over the training items, at most the budget's examples. A module that breaks
    gives an attempt with a `failure`.
    """
    trial = Trial(
        toolbox,
        module.source,
        module.class_name,
        recipe,
        hopeless_bound=hopeless_bound,
        notes=list(notes),
        epochs=epochs,
        train_ahead=train_ahead,
    )
    return trial.train_seeds()


def confirm(toolbox: Toolbox, attempt: Attempt) -> Attempt:
    """Train the module of an attempt on new seeds, by which it was not chosen."""
    folder = toolbox.workspace.root / attempt.experiment_dir
    source = (folder / CODE).read_text(encoding="utf-8")
    _, recipe = attempt.design
    trial = Trial(toolbox, source, attempt.model_name, recipe, epochs=attempt.epochs)
    return trial.confirm(attempt)


@dataclass
class Trial:
    """One evaluation of a model and a training recipe, over the seeds of the run.

    hopeless_bound: a value of the metric; a first seed that is worse than it ends the trial.
    epochs: passes over the training items, within the budget of examples, which is the default. The
    attempt enters the registry before its training, and again after each seed, so that a trial that
    was killed trains no finished seed again.
    """

    toolbox: Toolbox
    source: str
    class_name: str
    recipe: Training
    hopeless_bound: float | None = None
    notes: list[str] = field(default_factory=list)
    epochs: float | None = None
    train_ahead: TrainAhead | None = None

    @property
    def examples(self) -> int:
        """Number of examples that a training sees."""
        limit = self.toolbox.settings.budget.examples
        if self.epochs is None:
            return limit
        examples = round(self.epochs * len(self.toolbox.data.train))
        return max(1, min(limit, examples))

    @property
    def digest(self) -> str:
        """Identifies trials with equal results."""
        params = self.toolbox.params
        goal = self.toolbox.goal
        recipe = self.recipe.model_dump(mode="json")
        budget = replace(self.toolbox.settings.budget, examples=self.examples)
        data = [goal.dataset, goal.task, params.subset, params.validation, params.device]
        content = [self.source, self.class_name, recipe, asdict(budget), data, self.first_seed]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def first_seed(self) -> int:
        """The first seed of the trainings: runs with different seeds share none."""
        return self.toolbox.settings.seed * self.toolbox.params.seeds

    def train_seeds(self) -> Attempt:
        """Train the seeds that the attempt lacks; it is an earlier one of this digest or a new one.

        An attempt that a run has decided on is not trained further.
        """
        registry = Registry(self.toolbox.workspace)
        attempt = self.find_attempt(registry) or self.create_attempt(registry)
        self.toolbox.returned_run_ids.add(attempt.run_id)
        while not self.is_finished(attempt):
            try:
                with self.start_trainings(self.next_seeds(attempt)) as trainings:
                    self.start_ahead(attempt)
                    for training in trainings:
                        result, weights = training.result()
                        attempt = self.add_result(attempt, result, weights)
                        registry.put(attempt)
                        self.start_ahead(attempt)
            except EvaluationError as error:
                structure = {name: attempt.metrics_summary[name] for name in STRUCTURE}
                changes = _failed(error.reason) | {"metrics_summary": structure}
                attempt = attempt.model_copy(update=changes)
                registry.put(attempt)
        return attempt

    def find_attempt(self, registry: Registry) -> Attempt | None:
        """Find an earlier attempt of the same digest that this trial can return or complete."""
        for attempt in registry.read_attempts():
            if attempt.digest == self.digest and self.can_take(attempt):
                return attempt
        return None

    def next_seeds(self, attempt: Attempt) -> range:
        """Seeds to train at once: the first one alone, since it may be hopeless, then the rest."""
        finished = len(attempt.seeds)
        last = self.toolbox.params.seeds if finished else 1
        return range(self.first_seed + finished, self.first_seed + last)

    def confirm(self, attempt: Attempt) -> Attempt:
        """Train an attempt on new seeds, by which it was not chosen; finished ones are kept.

        Their weights are stored for the test set. A seed that fails ends the confirmation.
        """
        registry = Registry(self.toolbox.workspace)
        count = self.toolbox.params.confirmation_seeds
        first = CONFIRMATION_OFFSET + self.toolbox.settings.seed * count
        seeds = range(first + len(attempt.confirmation), first + count)
        folder = self.toolbox.workspace.root / attempt.experiment_dir
        try:
            with self.start_trainings(seeds) as trainings:
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
    def start_trainings(self, seeds: Iterable[int]) -> Iterator[list[Future[TrainedSeed]]]:
        """Start trainings on seeds; those that still wait at the end of the block are cancelled."""
        pool = self.toolbox.trainings
        trainings = [pool.start(self.key(seed), partial(self.train, seed)) for seed in seeds]
        try:
            yield trainings
        finally:
            for training in trainings:
                training.cancel()

    def can_take(self, attempt: Attempt) -> bool:
        """Whether this trial can return or complete an earlier attempt of the same digest.

        It completes one that the run has not decided on, and returns a finished one. One with a
        seed that the time limit ended early is trained again, as a new attempt; but a resumed run
        takes the one that it has decided on.
        """
        is_decided = attempt.number > 0
        if not self.is_finished(attempt):
            return not is_decided
        if attempt.cut_seeds:
            return is_decided and attempt.run_id not in self.toolbox.returned_run_ids
        return True

    def start_ahead(self, attempt: Attempt) -> None:
        """Start trainings that will probably be needed, unless this trial has ended."""
        if self.train_ahead is not None and not self.is_finished(attempt):
            self.train_ahead(self, attempt)

    def key(self, seed: int) -> TrainingKey:
        """Identify the training of a seed in the toolbox's pool."""
        return self.digest, seed

    def train(self, seed: int) -> TrainedSeed:
        """Train on a seed, or take the training from a source. Raises EvaluationError."""
        finished = self.toolbox.find_finished(self.digest, seed)
        if finished is not None:
            return finished
        with self.toolbox.borrow_evaluator() as evaluator:
            return evaluator.evaluate(
                self.source, self.class_name, self.recipe, seed, self.examples
            )

    def add_result(self, attempt: Attempt, result: SeedResult, weights: bytes) -> Attempt:
        """Add the result of a seed to the attempt; the weights of the first seed are stored."""
        if not attempt.seeds:
            folder = self.toolbox.workspace.root / attempt.experiment_dir
            write_bytes(folder / WEIGHTS, weights)
        seeds = [*attempt.seeds, asdict(result)]
        notes = list(self.notes)
        if self.is_hopeless(seeds) and self.toolbox.params.seeds > 1:
            notes.append(f"hopeless after one seed: not better than {self.hopeless_bound:.4g}")
        metrics = attempt.metrics_summary | _average(seeds)
        changes = {"seeds": seeds, "metrics_summary": metrics, "notes": notes}
        return attempt.model_copy(update=changes)

    def is_finished(self, attempt: Attempt) -> bool:
        """Whether no seed is left to train."""
        complete = len(attempt.seeds) >= self.toolbox.params.seeds
        return bool(attempt.failure) or complete or self.is_hopeless(attempt.seeds)

    def is_hopeless(self, results: list[dict[str, Any]]) -> bool:
        """Whether there is one result, and it is worse than `hopeless_bound`."""
        goal = self.toolbox.goal
        if len(results) != 1 or self.hopeless_bound is None:
            return False
        value = results[0]["metrics"].get(goal.metric)
        if value is None:
            return False
        return bool(value < self.hopeless_bound if goal.higher else value > self.hopeless_bound)

    def create_attempt(self, registry: Registry) -> Attempt:
        """Inspect the model, and write the attempt's folder and its record."""
        workspace = self.toolbox.workspace
        recipe = self.recipe.model_dump(mode="json")
        summary = self.toolbox.inspect(self.source, self.class_name)
        module = modules.recall(self.toolbox, self.source, self.class_name)
        config = module.config
        failure = _failed(summary.failure) if summary.failure else {}
        with registry.lock():  # or a run that starts would remove the folder as half written
            folder = workspace.create_run_folder()
            design = {"model_config": config, "training": recipe}
            write_text(folder / CONFIG_FILE, format_config(design))
            write_text(folder / CODE, self.source)
            write_json(folder / SUMMARY, summary.model_dump(mode="json"))
            attempt = Attempt(
                run_id=folder.name,
                model_name=self.class_name,
                dataset=self.toolbox.goal.dataset,
                timestamp=datetime.now(timezone.utc).isoformat(timespec="microseconds"),
                metrics_summary=summary.model_dump(include={*STRUCTURE}),
                notes=self.notes,
                experiment_dir=workspace.relative(folder),
                origin="tool",
                code_origin=module.origin,
                config=config,
                training=recipe,
                built=self.find_differences(config, summary),
                digest=self.digest,
                epochs=self.epochs,
                **failure,
            )
            registry.put(attempt)
        return attempt

    def find_differences(self, config: dict[str, Any], summary: ModelSummary) -> list[str]:
        """List how the built model differs from the config that was requested."""
        if not config or summary.failure:
            return []
        requested = parse_config(config, self.toolbox.goal.task)
        count = None
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
    """Average every metric, the training loss and the seconds over seeds."""
    rows = [
        result["metrics"] | {"train_loss": result["train_loss"], "seconds": result["seconds"]}
        for result in results
    ]
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
