"""What prompts are made of: the problem, the format of answers, the history of attempts.

Prompts depend on numbers and words of earlier attempts alone, never on clocks, folders or limits:
a run that is resumed asks the same questions, which its journal answers.
"""

import json
from collections.abc import Sequence

from genlab.agent.architecture.compare import compact
from genlab.agent.config import Problem
from genlab.agent.registry import Attempt

CHARACTERS_PER_TOKEN = 4  # of English and JSON, roughly

SYSTEM = """You are a researcher who designs neural networks in PyTorch. You answer with one JSON
object that fits the schema. The budget is the same for every attempt; architecture and training are
yours to choose. Change one or two things at a time, and say what you change and why. What counts is
the mean over the seeds on validation images, and success is decided by measured numbers alone."""

FORMAT = {
    "classify": """model_config holds `name` and `layers`, a list of {"type": ..., arguments},
applied in order. `type` is any layer of torch.nn by name, or Residual {"layers": [...]}, Parallel
{"branches": [[...], [...]], "merge": "sum" or "concat"}, Repeat {"times": n, "layers": [...]},
or custom {"description": ...} for a block that is described in words.
Sizes of inputs (in_channels, in_features, num_features) are inferred; a last linear layer to the
classes is added where it is missing.""",
    "generate": """model_config holds `name`, `encoder` and `decoder`, each a list of {"type": ...,
arguments}, and `latent_dim`. `type` is any layer of torch.nn by name, or Residual, Parallel, Repeat
or custom as a block. The encoder ends in mean and log variance of a normal posterior, the decoder
in the parameters of a mixture of discretised logistics for each pixel; both ends are added. The
prior is N(0, I).""",
}
TASKS = {
    "draft": "Propose a new design that differs in kind from those above.",
    "improve": "Improve attempt {parent}; its config is below.",
    "debug": "Attempt {parent} failed: {failure}. Correct it; its config is below.",
}
DECIDE = """Decide: iterate, achieved (only when the goal is reached on every seed) or stop (only \
when nothing is left to try). Name strengths, weaknesses and the specific modifications to try \
next."""


def describe_problem(problem: Problem) -> str:
    """Goal, data, budget and reference models, for prompts."""
    settings, budget = problem.settings, problem.settings.budget
    channels, height, width = problem.shape
    train, validation = problem.sizes
    what = f"{problem.classes} classes" if problem.task == "classify" else "no labels are needed"
    references = "; ".join(
        f"{name} {values[settings.goal.metric]:.4g}"
        for name, values in problem.references.items()
        if settings.goal.metric in values
    )
    return (
        f"Goal: {settings.goal.description}, on each of {settings.params.seeds} seeds.\n"
        f"Data: {settings.goal.dataset}, images of {channels} x {height} x {width} in [0, 1],"
        f" {what}; {train:,} for training, {validation:,} for validation.\n"
        f"Budget of a training: {budget.examples:,} examples, {budget.seconds:g} s, at most"
        f" {budget.max_parameters:,} parameters.\n"
        f"Reference models, same data and judge: {references or 'none'}."
    )


def describe_task(kind: str, parent: Attempt | None) -> str:
    """What is to be proposed, with the config of the attempt that it changes."""
    if parent is None:
        return TASKS[kind]
    config = json.dumps({"model_config": parent.config, "training": parent.training})
    lines = [TASKS[kind].format(parent=parent.number, failure=parent.failure), config]
    if wanted := parent.review.get("modifications"):
        lines.append(f"You wanted to try next: {'; '.join(map(str, wanted))}.")
    return "\n".join(lines)


def describe_result(attempt: Attempt, metric: str) -> str:
    """A finished attempt, for a decision on it."""
    lines = [f"Attempt {attempt.number} is measured: {describe(attempt, metric)}."]
    if attempt.analysis:
        lines.append(f"On its structure: {attempt.analysis}")
    if curve := attempt.seeds[0].get("curve"):
        points = curve[:: max(1, len(curve) // 8)]
        lines.append(f"Training loss: {' '.join(f'{value:.3g}' for value in points)}")
    return "\n".join([*lines, DECIDE])


def describe_history(attempts: Sequence[Attempt], metric: str, room: int) -> str:
    """Every attempt, newest last; the oldest are shortened first to fit `room` characters."""
    numbers = {each.run_id: each.number for each in attempts}
    lines = [_line(each, metric, numbers, whole=True) for each in attempts]
    for position, each in enumerate(attempts):
        if sum(map(len, lines)) > room:
            lines[position] = _line(each, metric, numbers, whole=False)
    return "\n".join(["Attempts so far:", *lines]) if lines else "Nothing has been tried yet."


def describe(attempt: Attempt, metric: str) -> str:
    """The numbers of an attempt with their spread over seeds, or why there are none."""
    if attempt.failure:
        return f"failed: {attempt.failure}"
    values = attempt.values(metric)
    others = " ".join(
        f"{name} {attempt.metrics_summary[name]:.4g}"
        for name in ("train_loss", "val_loss", "kl")
        if name != metric and isinstance(attempt.metrics_summary.get(name), float)
    )
    spread = f" (min {min(values):.4f}, max {max(values):.4f})" if len(values) > 1 else ""
    mean = sum(values) / len(values)
    size = f"{attempt.parameters:,} parameters" if attempt.parameters else ""
    seeds = f"{len(values)} seed{'s' * (len(values) != 1)}"
    return ", ".join(filter(None, [f"{metric} {mean:.4f}{spread}, {seeds}", size, others]))


def _line(attempt: Attempt, metric: str, numbers: dict[str, int], *, whole: bool) -> str:
    parent = f" of {numbers[attempt.parent]}" if attempt.parent in numbers else ""
    head = f"{attempt.number} ({attempt.kind or 'tool'}{parent}): {describe(attempt, metric)}"
    if not whole or not attempt.config:
        return head
    parts = [head, f"change: {attempt.change}" if attempt.change else ""]
    if attempt.built:
        parts.append(f"built differs: {'; '.join(attempt.built[:3])}")
    parts.append(compact(*attempt.design))
    return " | ".join(filter(None, parts))
