"""The planner that proposes by random search, and the drafts that planners make."""

from collections.abc import Sequence
from typing import Any

from genlab.agent.architecture.compare import compare_configs
from genlab.agent.config import Problem
from genlab.agent.planning.search import choose_parent, draw_proposal
from genlab.agent.registry import Attempt, Design, Draft, Review


class Planner:
    """Propose by random search: drafts first, then random changes by the policy of the tree.

    review: what the last call of `propose` said about the latest attempt.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.review = Review()

    def propose(self, attempts: Sequence[Attempt], pending: Sequence[Draft]) -> Draft | None:
        """Propose the next attempt; None where the planner has nothing left to try.

        pending: proposals of this round that are not evaluated yet.
        """
        return self.search(attempts, pending)

    def search(self, attempts: Sequence[Attempt], pending: Sequence[Draft]) -> Draft:
        """Draw a random proposal. Raises a GenlabError where no new network is small enough."""
        number = len(attempts) + len(pending)
        kind, parent, rng = choose_parent(self.problem.settings, attempts, number)
        tried = [attempt.design for attempt in (*attempts, *pending) if attempt.config]
        source = parent.design if parent else None
        design, change = draw_proposal(self.problem, source, rng, tried)
        return make_draft(number + 1, design, parent, change=change, kind=kind, origin="search")


def make_draft(number: int, design: Design, parent: Attempt | None, **fields: Any) -> Draft:
    """Make the draft of attempt `number`. fields: its kind, origin, change and others of Draft."""
    config = design[0].model_dump(mode="json")
    training = design[1].model_dump(mode="json")
    derived = {
        "model_name": config["name"],
        "config": config if design[0].parts else {},
        "difference": find_differences(parent.design, design) if parent else [],
    }
    parent_id = parent.run_id if parent else ""
    return Draft(number=number, parent=parent_id, training=training, **(derived | fields))


def find_differences(before: Design, after: Design) -> list[str]:
    """List what a design changes in architecture and training recipe of another one."""
    return compare_configs(before[0], after[0], before[1], after[1])
