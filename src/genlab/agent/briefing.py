"""What a prompt tells of attempts: their config, numbers and faults, in few words."""

from __future__ import annotations

from genlab.agent.attempt import CLOCKED, Attempt, rounded

MOST_FAULTS, LONGEST = 3, 200


def told(last: Attempt, best: Attempt | None = None) -> str:
    """The last attempt in full, and the config of the best one where that is another."""
    lines = [f"The last one, attempt {last.iteration}:", *_described(last)]
    if best is not None and best.iteration != last.iteration:
        lines += [f"The best one, attempt {best.iteration}:", *_described(best)]
    return "\n".join(lines)


def _described(attempt: Attempt) -> list[str]:
    architecture = attempt.architecture.model_dump_json(exclude={"name"})
    lines = [
        f"architecture {architecture}",
        f"training {attempt.training.model_dump_json()}",
    ]
    if attempt.failure:
        lines.append(f"it failed: {CLOCKED.sub('', attempt.failure)}")
    else:
        numbers = ", ".join(f"{name} {value}" for name, value in _numbers(attempt).items())
        lines.append(f"measured: {numbers}")
    lines += [
        f"code that was refused: {CLOCKED.sub('', fault)[:LONGEST]}"
        for fault in attempt.faults[:MOST_FAULTS]
    ]
    return lines


def _numbers(attempt: Attempt) -> dict[str, object]:
    found: dict[str, object] = dict(rounded(attempt.metrics_summary))
    if len(attempt.checked) > 1:
        values = attempt.values("accuracy")
        found["accuracy_by_seed"] = " ".join(f"{value:.4f}" for value in values)
    return found
