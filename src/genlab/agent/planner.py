"""What the planner is asked and what it may answer; its word is checked, never taken.

Two questions an iteration: which config next (`Proposal`), and what the last attempt says
(`Review`). A proposal is repaired until it fits, what was tried before is refused and search's
next tried, and 'achieved' holds only where the numbers say so on every seed (`settled`).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from genlab.agent import search
from genlab.agent.candidate import Candidate, Constraints, held
from genlab.agent.goal import Goal
from genlab.agent.messages import Message
from genlab.agent.proposal import Choice, Proposal, Review
from genlab.agent.registry import Record, as_prompt, best
from genlab.agent.space import Block, ModelConfig, repaired

MAX_WORDS = 600  # characters of each remark that are kept


@dataclass(frozen=True)
class Planned(Candidate):
    """What will be tried, where it came from, and what was done to it on the way."""

    origin: str = "search"  # baseline, llm, llm+repaired(n), search
    parent: str | None = None
    remark: str = ""
    edits: list[str] = field(default_factory=list)


BASELINE = ModelConfig(
    name="Baseline", blocks=(Block(kind="plain", channels=8, kernel=3, halve=True),), hidden=()
)
"""What everything is compared with: one small convolution, and the classifier on it."""


def planned(
    proposal: Proposal,
    constraints: Constraints,
    tried: Mapping[str, str],
    records: Sequence[Record],
    starts: Mapping[str, Candidate],
    metric: str,
    rng: random.Random,
    *,
    higher: bool = True,
) -> Planned:
    """What is tried of a proposal.

    tried: run_id by digest of candidate; starts: what may be branched from, by run_id. A repeat,
    architecture and training, is refused, and search's next takes its place: it counts as search's,
    since it is.
    """
    parent = proposal.branch_from if proposal.branch_from in starts else None
    found = repaired(
        proposal.architecture, constraints.shape, constraints.classes, constraints.most_parameters
    )
    edits = list(found.edits)
    asked = Candidate(found.config, held(proposal.calls, constraints, edits))
    if proposal.branch_from is not None and parent is None:
        edits.append(f"branch_from: there is no attempt {proposal.branch_from[:40]!r}")
    if asked.digest not in tried:
        origin = f"llm+repaired({len(edits)})" if edits else "llm"
        remark = proposal.modifications[:MAX_WORDS]
        return Planned(asked.config, asked.training, origin, parent, remark, edits)
    again = tried[asked.digest]
    chance, parent = next_of_search(constraints, tried, records, starts, metric, rng, higher=higher)
    return Planned(
        chance.config,
        chance.training,
        "search",
        parent,
        f"Search's: the planner proposed {again} again.",
        [f"the proposal was tried as {again}: search's next instead"],
    )


def next_of_search(
    constraints: Constraints,
    tried: Collection[str],
    records: Sequence[Record],
    starts: Mapping[str, Candidate],
    metric: str,
    rng: random.Random,
    *,
    higher: bool = True,
) -> tuple[Candidate, str | None]:
    """What search tries next, and the attempt that it is a mutation of, if any.

    The first one is drawn at random; after it the best one so far is mutated.
    """
    known = [record for record in records if record.run_id in starts]
    leader = best(known, metric, higher=higher)
    drawn = [record for record in known if record.plan_origin != "baseline"]
    if leader is None or len(drawn) < search.RANDOM_FIRST:
        return search.untried(rng, constraints, tried), None
    return search.mutated(starts[leader.run_id], rng, constraints, tried), leader.run_id


def settled(review: Review, goal: Goal, values: Sequence[float]) -> tuple[Choice, str]:
    """The decision that holds, and why it is another than the planner's, if it is.

    values: of the goal's metric, one a seed, where the attempt was checked on all of them.
    """
    reached = goal.reached(list(values))
    if reached and review.decision != "achieved":
        return "achieved", f"the numbers reach {goal}, whatever the planner said"
    if review.decision == "achieved" and not reached:
        shown = ", ".join(f"{value:.4g}" for value in values) or "none"
        return "iterate", f"'achieved' does not hold: {goal}, measured {shown}"
    return review.decision, ""


def stalled(records: Sequence[Record], metric: str, patience: int, *, higher: bool = True) -> bool:
    """Whether the last `patience` attempts brought nothing better than those before them."""
    if len(records) <= patience:
        return False
    before = best(list(records[:-patience]), metric, higher=higher)
    now = best(list(records), metric, higher=higher)
    return before is not None and now is before


SYSTEM = """You design small image classifiers. You answer in JSON alone.
An architecture has `blocks` (each with kind: plain, residual or depthwise; channels: such as 32,
4 to 256; kernel: 3, 5, 7 or 1; halve: false or true, whether it halves the image's side), `hidden`
(widths of hidden layers, such as 64, 8 to 1024, or none), `dropout`, `norm` (batch or none) and
`activation` (relu, gelu or silu). `calls` has `input_size` (channels, height, width) and
`eval_config`: `lr`, `batch_size`, `optimiser` (adamw, adam or sgd), `epochs` and `subset`.
`branch_from` is the run_id of the attempt that yours changes, or null."""


def ask_for_proposal(
    goal: Goal, constraints: Constraints, records: Sequence[Record], last: str, budget: str
) -> list[Message]:
    """The messages that ask for the next attempt."""
    channels, height, width = constraints.shape
    told = (
        f"Goal: {goal.text}\nThat is: {goal}.\n"
        f"Images: {channels} x {height} x {width}, {constraints.classes} classes."
        f" At most {constraints.most_parameters} parameters."
        f" Every attempt trains for {constraints.epochs} epochs"
        f" on a subset of {constraints.subset}. {budget}\n\n"
        f"Attempts so far, a line each:\n{as_prompt(list(records))}\n\n{last}\n"
        "Propose the next attempt. It must differ from all of these."
    )
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": told}]


def ask_for_review(goal: Goal, attempt: str, records: Sequence[Record]) -> list[Message]:
    """The messages that ask what the last attempt says."""
    told = (
        f"Goal: {goal.text}\nThat is: {goal}.\n\nThe last attempt:\n{attempt}\n\n"
        f"All attempts, a line each:\n{as_prompt(list(records))}\n\n"
        "Assess the last attempt: strengths, weaknesses, and your decision: iterate, achieved,"
        " stop, or revise (then word a goal in revised_goal; a person will decide)."
    )
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": told}]
