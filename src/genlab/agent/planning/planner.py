"""Who proposes the next attempt; here random search does."""

from collections.abc import Sequence
from typing import Any

from genlab.agent.architecture.compare import compare_configs
from genlab.agent.config import Problem
from genlab.agent.planning.search import choose_parent, draw_proposal
from genlab.agent.registry import Attempt, Design, Draft, Review


class Planner:
    """Random search over the policy of the tree: drafts, then random changes of the best.

    review: of the latest attempt, by the last call of `propose`.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.review = Review()

    def propose(self, attempts: Sequence[Attempt], pending: Sequence[Draft]) -> Draft | None:
        """The next attempt; pending: proposals of this round that are not evaluated yet.

        None where the planner has nothing left to try.
        """
        return self.search(attempts, pending)

    def search(self, attempts: Sequence[Attempt], pending: Sequence[Draft]) -> Draft:
        """A random proposal. Raises a GenlabError where no further network is small enough."""
        number = len(attempts) + len(pending)
        kind, parent, rng = choose_parent(self.problem.settings, attempts, number)
        tried = [attempt.design for attempt in (*attempts, *pending) if attempt.config]
        source = parent.design if parent else None
        design, change = draw_proposal(self.problem, source, rng, tried)
        return make_draft(number + 1, design, parent, change=change, kind=kind, origin="search")


def make_draft(number: int, design: Design, parent: Attempt | None, **stated: Any) -> Draft:
    """The draft of attempt `number`. stated: its kind, origin, change and notes."""
    config = design[0].model_dump(mode="json")
    training = design[1].model_dump(mode="json")
    fields = {
        "model_name": config["name"],
        "config": config if design[0].parts else {},
        "difference": find_differences(parent.design, design) if parent else [],
    }
    parent_id = parent.run_id if parent else ""
    return Draft(number=number, parent=parent_id, training=training, **(fields | stated))


def find_differences(before: Design, after: Design) -> list[str]:
    """What a design changes in architecture and training recipe of another one."""
    return compare_configs(before[0], after[0], before[1], after[1])
