"""What a run may spend on questions, and what it has spent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from genlab.agent.messages import BudgetSpent, Purpose
from genlab.core.errors import GenlabError


@dataclass(frozen=True)
class Price:
    """Cost of a million tokens, in the currency of the budget."""

    tokens_in: float = 0.0
    tokens_out: float = 0.0


@dataclass(frozen=True)
class Budget:
    """Limits of a run; None is no limit. `seconds` are those spent on asking, waits included."""

    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None


class Meter:
    """What a run has spent, against its budget.

    It is checked before each request, so the run oversteps by one request at most.
    """

    def __init__(
        self, budget: Budget | None = None, prices: Mapping[Purpose, Price] | None = None
    ) -> None:
        self.budget = budget or Budget()
        self.prices = dict(prices or {})
        if self.budget.cost is not None and not self.prices:
            raise GenlabError(
                f"a budget of cost {self.budget.cost:g} needs prices per million tokens; set them"
            )
        self.tokens = 0
        self.cost = 0.0
        self.seconds = 0.0

    def add(self, purpose: Purpose, tokens_in: int, tokens_out: int, seconds: float) -> None:
        """Count what a request for `purpose` took."""
        price = self.prices.get(purpose, Price())
        self.tokens += tokens_in + tokens_out
        self.cost += (tokens_in * price.tokens_in + tokens_out * price.tokens_out) / 1e6
        self.seconds += seconds

    @property
    def seconds_left(self) -> float:
        """Seconds until the time budget is spent; infinity where there is none."""
        limit = self.budget.seconds
        return math.inf if limit is None else limit - self.seconds

    def check(self) -> None:
        """Raise `BudgetSpent` where a limit is reached."""
        for name, spent, limit in (
            ("tokens", self.tokens, self.budget.tokens),
            ("cost", self.cost, self.budget.cost),
            ("seconds", self.seconds, self.budget.seconds),
        ):
            if limit is not None and spent >= limit:
                raise BudgetSpent(f"budget of {name} is spent: {spent:.6g} of {limit:.6g}")
