"""An attempt's marks: on the first seed, and on the others where they matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from genlab.agent.attempt import CODE, WEIGHTS, Attempt
from genlab.agent.candidate import Training
from genlab.agent.lab import Lab
from genlab.agent.quick_evaluator import Evaluation, NoMarksError
from genlab.agent.settings import Settings
from genlab.agent.summary import Summary
from genlab.agent.workspace import Workspace
from genlab.core.errors import GenlabError

Say = Callable[[str], None]


def tried(
    lab: Lab,
    settings: Settings,
    source: str,
    class_name: str,
    training: Training,
    measured: Summary,
    say: Say,
) -> Evaluation:
    """Marks on the first seed, and on one seed more as long as all so far reach the goal."""
    goal = settings.goal
    found: Evaluation | None = None
    for seed in settings.seeds:
        say(f"training, seed {seed}")
        one = lab.evaluator.evaluate(source, class_name, settings.evaluation(training, (seed,)))
        found = one if found is None else joined(found, one)
        value = metrics(one, measured).get(goal.metric)
        if value is None or not goal.reached([value]):
            break
    assert found is not None
    return found


def joined(one: Evaluation, other: Evaluation) -> Evaluation:
    """The marks of both; it failed where one of them did."""
    return replace(
        one,
        seeds=[*one.seeds, *other.seeds],
        seconds=one.seconds + other.seconds,
        failure=one.failure or other.failure,
    )


def metrics(found: Evaluation, measured: Summary) -> dict[str, Any]:
    """The numbers of an attempt, those of its first seed: all attempts have that one."""
    structure = {"parameters": measured.parameters, "multiply_adds": measured.multiply_adds}
    if found.failure or not found.seeds:
        return structure if not found.failure else {}
    first = found.seeds[0]
    return {
        "accuracy": first.validation.accuracy,
        "val_loss": first.validation.loss,
        "train_loss": first.train_loss,
        "seconds": first.seconds,
        "n": first.validation.n,
        **structure,
    }


def confirmed(
    lab: Lab, settings: Settings, workspace: Workspace, attempt: Attempt, say: Say
) -> Attempt:
    """`attempt` with marks on every seed; what is there already is kept."""
    checked = list(attempt.checked)
    done = {each["seed"] for each in checked}
    source = (workspace.root / attempt.experiment_dir / CODE).read_text(encoding="utf-8")
    for seed in settings.seeds:
        if seed in done:
            continue
        say(f"attempt {attempt.iteration} again, seed {seed}")
        config = settings.evaluation(attempt.training, (seed,))
        found = lab.evaluator.evaluate(source, attempt.model_name, config)
        if found.failure:  # on this seed alone: told by the seeds that are there
            say(f"attempt {attempt.iteration} fails on seed {seed}: {found.failure}")
            continue
        checked += [asdict(each) for each in found.seeds]
    return attempt.model_copy(update={"checked": checked})


def examined(lab: Lab, settings: Settings, workspace: Workspace, attempt: Attempt) -> Attempt:
    """`attempt` with marks of its kept weights on the test part, which is opened for this alone.

    Where it gives no answers that can be marked there, `test` holds that as its failure.
    """
    folder = workspace.root / attempt.experiment_dir
    try:
        weights = (folder / WEIGHTS).read_bytes()
    except FileNotFoundError as error:
        raise GenlabError(
            f"{folder / WEIGHTS} is missing; remove {folder} and run the agent again"
        ) from error
    source = (folder / CODE).read_text(encoding="utf-8")
    config = settings.evaluation(attempt.training)
    try:
        told = asdict(lab.evaluator.final(source, attempt.model_name, config, weights))
    except NoMarksError as error:  # kept, so that the test part is not opened again
        told = {"failure": str(error)}
    return attempt.model_copy(update={"test": told})
