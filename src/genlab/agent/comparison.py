"""The run's best model against the best of random search with the same number of attempts.

Both are chosen by their mean over seeds on the same validation part, so both numbers are a little
optimistic, by the same selection. The interval of the difference is Welch's; its n is the number of
seeds of training, so it does not cover the luck of the search itself: `make bench` repeats the
whole comparison over seeds of the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genlab.agent.config import Settings
from genlab.agent.loop import leader, reaches
from genlab.agent.registry import Attempt

LEVEL = 0.95


@dataclass(frozen=True)
class Comparison:
    """Values of the goal's metric, one per seed, of the run's best model and of search's."""

    metric: str
    higher: bool
    run: list[float]
    search: list[float]
    run_reached: int | None  # number of the first attempt that reached the goal
    search_reached: int | None
    attempts: int

    @property
    def difference(self) -> float:
        """Mean of the run's best minus mean of search's."""
        return float(np.mean(self.run) - np.mean(self.search))

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the difference; None where seeds are too few or do not vary."""
        from scipy import stats

        rows = (self.run, self.search)
        if min(map(len, rows)) < 2 or all(len(set(row)) == 1 for row in rows):
            return None
        found = stats.ttest_ind(*rows, equal_var=False).confidence_interval(LEVEL)
        return float(found.low), float(found.high)

    @property
    def conclusion(self) -> str:
        """What the interval allows to say."""
        if self.interval is None:
            return "there are too few seeds, or they do not vary"
        low, high = self.interval
        if low <= 0 <= high:
            return "the two cannot be told from each other with this number of seeds"
        better = (low > 0) == self.higher
        return f"the run's best model is {'better' if better else 'worse'} than search's"


def compare(
    run: Sequence[Attempt], search: Sequence[Attempt], settings: Settings
) -> Comparison | None:
    """Compare the best of both; None where one of them has no measured attempt."""
    goal = settings.goal
    bests = [leader(found, settings) for found in (run, search)]
    values = [best.values(goal.metric) if best else [] for best in bests]
    if not all(values):
        return None
    return Comparison(
        goal.metric,
        goal.higher,
        values[0],
        values[1],
        first_reached(run, settings),
        first_reached(search, settings),
        len(run),
    )


def first_reached(attempts: Sequence[Attempt], settings: Settings) -> int | None:
    """The number of the first attempt that reached the goal on every seed."""
    return next((each.number for each in attempts if reaches(each, settings)), None)
