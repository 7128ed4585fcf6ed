"""What a prompt tells of attempts: their config, numbers and faults, in few words."""

from __future__ import annotations

from genlab.agent.attempt import CLOCKED, Attempt, rounded

MOST_FAULTS, LONGEST, LONGEST_WORDS = 3, 200, 300


def told(last: Attempt, best: Attempt | None = None, analysis: str = "") -> str:
    """The last attempt in full, and the config of the best one where that is another.

    analysis: the tool LLM's words on the last one's structure, their numbers corrected.
    """
    lines = [f"The last one, attempt {last.iteration}:", *_described(last)]
    said = {
        "analysis": analysis,
        "your assessment": last.review.get("assessment", ""),
        "its weaknesses": "; ".join(last.review.get("weaknesses", [])),
    }
    lines += [f"{name}: {cut(words)}" for name, words in said.items() if words.strip()]
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


def cut(words: str) -> str:
    """`words` on one line, short: what a model said must not crowd out the numbers."""
    line = " ".join(words.split())
    return line if len(line) <= LONGEST_WORDS else f"{line[:LONGEST_WORDS]} ..."


def _numbers(attempt: Attempt) -> dict[str, object]:
    found: dict[str, object] = dict(rounded(attempt.metrics_summary))
    if len(attempt.checked) > 1:
        values = attempt.values("accuracy")
        found["accuracy_by_seed"] = " ".join(f"{value:.4f}" for value in values)
    return found
