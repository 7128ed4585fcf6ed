"""The tool that trains and measures a model; the training is in `library.trials`."""

from __future__ import annotations  # signatures show annotations as they are written

import math
from collections.abc import Mapping
from typing import Any

from genlab.agent.architecture.training import parse_training
from genlab.agent.library.modules import Module
from genlab.agent.library.toolbox import Toolbox, current_toolbox
from genlab.agent.library.trials import drop_fixed, train
from genlab.agent.registry import Attempt
from genlab.agent.tools.files import read_file
from genlab.core.errors import GenlabError
from genlab.core.text import read_number

NO_RECIPE = ("dataset", "num_classes", "epochs", "stop_below")  # keys of an eval_config
CURVE_POINTS = 8
DIGITS = 4  # significant, of what the tool returns


class EvaluationFailedError(GenlabError):
    """A model was evaluated and has no numbers; `run_id` is its attempt in the registry."""

    def __init__(self, run_id: str, message: str) -> None:
        super().__init__(f"{run_id}: {message}")
        self.run_id = run_id


def pytorch_quick_evaluator(
    model_script_path: str, model_class_name: str, eval_config: dict[str, Any]
) -> dict[str, Any]:
    """Train a model within the budget and measure it on validation data; it enters the registry.

    eval_config: how it is trained (optimiser, lr, schedule, batch_size, augmentation, ...);
    stop_below: a value of the metric at which the first seed is hopeless and the last one; epochs:
    passes over the training items, fewer examples than the budget has. Data and budget are the
    goal's: a note says where dataset or num_classes are others. Returns the metrics, train_loss,
    seeds and run_id.
    """
    toolbox = current_toolbox()
    source = read_file(model_script_path)
    stop_below = read_number(eval_config.get("stop_below"))
    epochs = read_number(eval_config.get("epochs"))
    if not isinstance(stop_below, int | float | None):
        raise GenlabError(f"eval_config.stop_below must be a number, got {stop_below!r}")
    if epochs is not None and not (isinstance(epochs, int | float) and 0 < epochs < math.inf):
        raise GenlabError(f"eval_config.epochs must be a number over 0, got {epochs!r}")
    stated = {key: value for key, value in eval_config.items() if key not in NO_RECIPE}
    recipe, notes = drop_fixed(stated)
    training = parse_training(recipe)
    notes += find_contradictions(toolbox, eval_config)
    module = Module(source=source, class_name=model_class_name)
    attempt = train(
        toolbox, module, training, hopeless_bound=stop_below, notes=notes, epochs=epochs
    )
    toolbox.evaluated_run_ids.append(attempt.run_id)
    if attempt.failure:
        raise EvaluationFailedError(attempt.run_id, f"{attempt.model_name}: {attempt.failure}")
    return format_attempt(attempt)


def format_attempt(attempt: Attempt) -> dict[str, Any]:
    """Collect the numbers of an attempt as the tool returns them, rounded to a few digits."""
    seeds = [
        {"seed": result["seed"], **result["metrics"], "cut": result.get("cut", False)}
        for result in attempt.seeds
    ]
    first = attempt.seeds[0]
    step = max(1, len(first["curve"]) // CURVE_POINTS)
    numbers = {
        **attempt.metrics_summary,
        "standard_errors": first.get("errors", {}),
        "recall": first.get("recall") or [],
        "seeds": seeds,
        "curve": first["curve"][::step],
    }
    rounded: dict[str, Any] = _round(numbers)
    return {**rounded, "run_id": attempt.run_id, "notes": attempt.notes}


def find_contradictions(toolbox: Toolbox, eval_config: Mapping[str, Any]) -> list[str]:
    """List what an eval_config says about data and budget that is not so in this run."""
    data = toolbox.data
    budget = toolbox.settings.budget.examples
    notes = list[str]()
    dataset = eval_config.get("dataset")
    if dataset is not None and _normalise(dataset) != _normalise(data.name):
        notes.append(f"the run's data are {data.name}, not {str(dataset)[:60]!r}")
    classes = eval_config.get("num_classes")
    if classes not in (None, data.classes):
        notes.append(f"the run's data have {data.classes} classes, not {str(classes)[:60]!r}")
    epochs = eval_config.get("epochs")
    if epochs is not None:
        examples = round(epochs * len(data.train))
        if examples != budget:
            notes.append(f"{epochs:g} epochs are {examples:,} examples, the budget is {budget:,}")
    return notes


def _normalise(name: object) -> str:
    """Reduce a name to its letters and digits, so that Fashion-MNIST equals fashion_mnist."""
    return "".join(filter(str.isalnum, str(name).lower()))


def _round(value: Any) -> Any:
    """Round every float in plain values to a few significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _round(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_round(item) for item in value]
    return value
