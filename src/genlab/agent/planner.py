"""Who proposes the next attempt and reviews the last one; here random search does."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from genlab.agent.architecture.compare import config_differences
from genlab.agent.config import Problem
from genlab.agent.registry import Attempt, Design, Draft
from genlab.agent.search import choose_parent, random_proposal


class Review(BaseModel):
    """What the planner makes of an attempt."""

    model_config = ConfigDict(extra="ignore")

    sentence: str = Field("", max_length=400, description="the decision in one sentence")
    strengths: str = Field("", max_length=400)
    weaknesses: str = Field("", max_length=400)
    modifications: list[str] = Field(
        default_factory=list, max_length=6, description="specific changes to try next"
    )
    decision: Literal["iterate", "achieved", "stop"] = "iterate"


class Planner:
    """Random search over the policy of the tree: drafts, then random changes of the best."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def propose(self, attempts: Sequence[Attempt], pending: Sequence[Draft]) -> Draft:
        """The next attempt; pending: proposals of this round that are not evaluated yet."""
        number = len(attempts) + len(pending)
        kind, parent, rng = choose_parent(self.problem.settings, attempts, number)
        tried = [each.design for each in (*attempts, *pending) if each.config]
        source = parent.design if parent else None
        design, change = random_proposal(self.problem, source, rng, tried)
        return make_draft(number + 1, design, parent, change=change, kind=kind, origin="search")

    def review(self, attempts: Sequence[Attempt], attempt: Attempt) -> Review:
        """An opinion on a finished attempt."""
        return Review()


def make_draft(number: int, design: Design, parent: Attempt | None, **stated: Any) -> Draft:
    """The draft of attempt `number`. stated: its kind, origin, change and notes."""
    config, training = (each.model_dump(mode="json") for each in design)
    return Draft(
        number=number, model_name=config["name"], parent=parent.run_id if parent else "",
        config=config, training=training,
        difference=find_differences(parent.design, design) if parent else [], **stated,
    )  # fmt: skip


def find_differences(before: Design, after: Design) -> list[str]:
    """What a design changes in architecture and training recipe of another one."""
    return config_differences(before[0], after[0], before[1], after[1])
