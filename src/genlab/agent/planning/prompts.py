"""The texts of prompts: the problem, the contract of a class, the history of attempts.

Prompts depend only on the records of earlier attempts, never on clocks, folders or limits: a run
that is resumed asks the same questions, which its journal answers.
"""

import json
from collections.abc import Sequence

from genlab.agent.architecture.compare import format_design
from genlab.agent.config import Problem
from genlab.agent.decisions import decide_on_attempt
from genlab.agent.evaluator.estimates import MetricEstimate, estimate
from genlab.agent.goals.goal import Goal, quote_unenforced
from genlab.agent.library.modules import describe_contract
from genlab.agent.registry import Attempt

CHARACTERS_PER_TOKEN = 4  # of English and JSON, roughly
MAX_CLASSES = 10  # whose recall is shown; of more classes, the lowest recalls
CURVE_POINTS = 8

ROLE = """You are a researcher who designs neural networks in PyTorch. Architecture and training
recipe are yours to choose; data and budget are fixed, and the same for every attempt. Measured
numbers alone decide whether the goal is met."""
ANSWER = """You answer with one JSON object that fits the schema. `lesson`, `strengths` and
`weaknesses` are about the latest attempt, and stay empty before there is one. `change` says what
you change and why. The module comes in one of three ways: `model_config` (another model writes its
code), or `code` (the whole Python file, with model_config null), or neither: then the parent's
module is trained by the new `eval_config`. `decision` is stop only where nothing is left to try."""
SMALL_ANSWER = """You answer with one JSON object that fits the schema. `change` says what you
change and why."""
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
in the parameters of the likelihood; both ends are added. The prior is N(0, I).""",
}
CLASS_RULES = """One Python file; its torch.nn.Module is called Model and its constructor takes no
arguments. Nothing runs when the file is imported."""
LIKELIHOOD = """Likelihood: each pixel has a mixture of K discretised logistics over its 256 levels,
one indicator for all channels. decode returns, along its channels and in this order, K logits, K x
{channels} means, K x {channels} log scales{links}; K is free, {outputs} channels mean K = {k}.
Levels lie on [-1, 1]; zeros spread the means evenly over them and give a log scale of -1.5.{chain}
Training minimises -log p(x|z) + kl_weight * KL, KL weight and warm-up being keys of the recipe; the
judge measures bits per dimension of -ELBO at kl_weight 1, with one z per image. Losses and curves
are in bits per dimension."""
TASKS = {
    "draft": "Propose a new design that differs in kind from those above.",
    "improve": "Improve attempt {parent} by one or two changes. Its module:",
    "debug": "Attempt {parent} failed: {failure}. Correct it. Its module:",
}


def describe_problem(problem: Problem, *, small: bool = False) -> str:
    """Describe goal, data, budget, contract and reference models.

    small: for a model with a short context, without what it cannot use.
    """
    settings = problem.settings
    goal = settings.goal
    budget = settings.budget
    unenforced = quote_unenforced(goal)
    channels, height, width = problem.shape
    train, validation = problem.sizes
    classes = f"{problem.classes} classes" if problem.task == "classify" else "no labels are needed"
    lines = [
        f"The user's words: {goal.text}",
        *([f"Enforced by no number, and wanted all the same: {unenforced}."] if unenforced else []),
        f"Goal: {goal.description}. It is met where the 95 % lower bound of the mean over"
        f" {settings.params.confirmation_seeds} new seeds, and over items, reaches it.",
        f"Data: {goal.dataset}, images of {channels} x {height} x {width} in [0, 1], {classes};"
        f" {train:,} for training, {validation:,} for validation.",
        f"Budget of a training: {budget.examples:,} examples, {budget.seconds:g} s of CPU time, at"
        f" most {budget.max_parameters:,} parameters; {count_seeds(settings.params.seeds)} per"
        " attempt.",
        describe_references(problem),
    ]
    if not small:
        contract = describe_contract(problem.task, problem.shape, problem.outputs)
        lines.append(f"Class: {CLASS_RULES} {contract}")
        if problem.task == "generate":
            lines.append(describe_likelihood(problem))
    return "\n".join(lines)


def describe_references(problem: Problem) -> str:
    """List reference models with their standard errors, and which meet the goal already."""
    goal = problem.settings.goal
    references = []
    for name, metrics in problem.references.items():
        if goal.metric not in metrics:
            continue
        words = f"{name} {metrics[goal.metric]:.4g}"
        if error := metrics.get(f"{goal.metric}_error"):
            words += f" ± {error:.2g} ({count_seeds(metrics.get('trainings', 1))})"
        if goal.score(metrics[goal.metric]) >= goal.score(goal.threshold):
            words += ", which reaches the threshold already"
        references.append(words)
    return f"Reference models, same data and judge: {'; '.join(references) or 'none'}."


def count_seeds(count: int) -> str:
    """Write a number of seeds: 1 seed, 2 seeds."""
    return f"{count} seed{'s' * (count != 1)}"


def describe_likelihood(problem: Problem) -> str:
    """Describe the likelihood that a decoder parametrises, and the order of its parameters."""
    channels = problem.shape[0]
    links = channels * (channels - 1) // 2
    chain = " Each channel's mean gains tanh(link) times the earlier channels." if links else ""
    return LIKELIHOOD.format(
        channels=channels,
        links=f", K x {links} links between channels" if links else "",
        outputs=problem.outputs,
        k=problem.outputs // (1 + 2 * channels + links),
        chain=chain,
    )


def describe_progress(problem: Problem, attempts: int, tokens: float) -> str:
    """State attempts used and left, and tokens spent of those allowed."""
    params = problem.settings.params
    spent = f"{tokens:,.0f} tokens"
    if params.max_tokens:
        spent += f" of {params.max_tokens:,}"
    remaining = params.max_iterations - attempts
    return (
        f"Attempts: {attempts} of {params.max_iterations} used, {remaining} left. Spent: {spent}."
    )


def describe_task(kind: str, parent: Attempt | None, code: str = "") -> str:
    """State what to propose, with config, recipe and code of the attempt to change."""
    if parent is None:
        return TASKS[kind]
    design = {"model_config": parent.config or None, "eval_config": parent.training}
    lines = [TASKS[kind].format(parent=parent.number, failure=parent.failure), json.dumps(design)]
    if code:
        lines.append(f"```python\n{code.rstrip()}\n```")
    return "\n".join(lines)


def describe_history(
    attempts: Sequence[Attempt], goal: Goal, max_length: int, *, small: bool = False
) -> str:
    """Describe every attempt, newest last; shorten the oldest to fit `max_length` characters.

    small: without seconds, so that a run of a fixed seed asks the same on any machine.
    """
    if not attempts:
        return "Nothing has been tried yet."
    numbers = {attempt.run_id: attempt.number for attempt in attempts}
    lines = [_write_line(attempt, goal, numbers, full=True, small=small) for attempt in attempts]
    for position, attempt in enumerate(attempts):
        if sum(map(len, lines)) > max_length:
            lines[position] = _write_line(attempt, goal, numbers, full=False, small=small)
    curve = [] if small else describe_curve(attempts[-1])
    if curve:
        lines.append(f"Training loss of the latest: {' '.join(curve)}")
    if attempts[-1].analysis:
        lines.append(f"On its code: {attempts[-1].analysis}")
    return "\n".join(["Attempts so far:", *lines])


def describe_curve(attempt: Attempt) -> list[str]:
    """Write a few points of the first seed's training loss."""
    curve = attempt.seeds[0].get("curve", []) if attempt.seeds else []
    return [f"{value:.3g}" for value in curve[:: max(1, len(curve) // CURVE_POINTS)]]


def describe(attempt: Attempt, goal: Goal, *, small: bool = False) -> str:
    """Describe the numbers of an attempt with their standard errors, or its failure."""
    if attempt.failure:
        return f"failed: {attempt.failure}"
    words = []
    for metric in (goal.metric, "macro_f1", "val_loss", "train_loss", "kl"):
        over_seeds = estimate(attempt.seeds, metric)
        if over_seeds is not None and (metric == goal.metric or not small):
            words.append(f"{metric} {_write_estimate(over_seeds)}")
    words.append(count_seeds(len(attempt.seeds)))
    confirmed = estimate(attempt.confirmation, goal.metric) if attempt.confirmation else None
    if confirmed is not None:
        words.append(f"on {confirmed.trainings} new seeds {_write_estimate(confirmed)}")
    words.append(attempt.verdict or decide_on_attempt(attempt, goal))
    if attempt.parameters:
        words.append(f"{attempt.parameters:,} parameters")
    if not small:
        words += describe_cost(attempt)
        words += describe_recall(attempt)
    return ", ".join(words)


def describe_cost(attempt: Attempt) -> list[str]:
    """Describe multiply-adds, seconds of a training, and the seeds that the clock has cut."""
    words = []
    if adds := attempt.metrics_summary.get("multiply_adds"):
        words.append(f"{adds / 1e6:.3g} M multiply-adds")
    if attempt.seeds:
        longest = max(result.get("seconds", 0.0) for result in attempt.seeds)
        words.append(f"{longest:.0f} s per training")
    if attempt.cut_seeds:
        words.append(f"cut: seeds {', '.join(map(str, attempt.cut_seeds))}")
    return words


def describe_recall(attempt: Attempt) -> list[str]:
    """Describe the recall per class of the first seed, in per cent; of many classes the lowest."""
    recall = attempt.seeds[0].get("recall") or [] if attempt.seeds else []
    if not recall:
        return []
    if len(recall) <= MAX_CLASSES:
        return [f"recall in % by class {' '.join(f'{100 * share:.0f}' for share in recall)}"]
    lowest = sorted(range(len(recall)), key=recall.__getitem__)[: MAX_CLASSES // 2]
    return [f"lowest recall {', '.join(f'class {k} {100 * recall[k]:.0f} %' for k in lowest)}"]


def _write_estimate(over_seeds: MetricEstimate) -> str:
    error = f" ± {over_seeds.error:.2g}" if over_seeds.error else ""
    return f"{over_seeds.mean:.4f}{error}"


def _write_line(
    attempt: Attempt, goal: Goal, numbers: dict[str, int], *, full: bool, small: bool
) -> str:
    """Describe an attempt in one line of the history; numbers: of attempts by their run_id."""
    parent = f" of {numbers[attempt.parent]}" if attempt.parent in numbers else ""
    description = describe(attempt, goal, small=small)
    parts = [f"{attempt.number} ({attempt.kind or 'tool'}{parent}): {description}"]
    if attempt.change:
        parts.append(f"change: {attempt.change if full else attempt.change[:100]}")
    lesson = attempt.review.get("lesson") or attempt.review.get("sentence")
    if lesson:
        parts.append(f"lesson: {lesson if full else lesson[:100]}")
    if full:
        parts += [
            f"{name}: {attempt.review[name]}"
            for name in ("strengths", "weaknesses")
            if attempt.review.get(name)
        ]
        parts += [note for note in attempt.notes if "hopeless" in note or "stopped" in note]
        if attempt.built:
            parts.append(f"built differs: {'; '.join(attempt.built[:3])}")
        if attempt.config:
            parts.append(format_design(*attempt.design))
    return " | ".join(parts)
