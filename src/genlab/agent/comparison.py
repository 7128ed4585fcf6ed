"""The LLM's best against search's, at the same number of attempts: what the LLM is worth.

Both are the best by their marks on the first seed, and are trained on all seeds; the difference of
the means comes with Welch's interval, whose n is the number of seeds. Both were chosen by marks of
the same validation part, so both are a little flattered, and their difference is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from genlab.agent.attempt import Attempt, attempts, leader
from genlab.agent.registry import Registry
from genlab.agent.settings import Settings
from genlab.agent.workspace import PROJECT, Workspace

LEVEL = 0.95
FOLDER = "search"


@dataclass(frozen=True)
class Comparison:
    """Values of the goal's metric, one a seed, of the run's best and of search's best."""

    metric: str
    higher: bool
    run: list[float]
    search: list[float]
    run_reached: int | None  # the attempt that first reached the goal
    search_reached: int | None
    attempts: int

    @property
    def difference(self) -> float:
        """Mean of the run's best less mean of search's."""
        return float(np.mean(self.run) - np.mean(self.search))

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the difference, at LEVEL; None where seeds are too few, or agree in all."""
        rows = (self.run, self.search)
        if min(map(len, rows)) < 2 or all(len(set(row)) == 1 for row in rows):
            return None
        found = stats.ttest_ind(*rows, equal_var=False).confidence_interval(LEVEL)
        return float(found.low), float(found.high)

    @property
    def words(self) -> str:
        """What can be said."""
        if self.interval is None:
            return "too few seeds, or no spread over them, to tell"
        low, high = self.interval
        if low <= 0 <= high:
            return "the two do not part at this number of seeds"
        better = (low > 0) == self.higher
        return f"the run's best is {'better' if better else 'worse'} than search's"


def search_workspace(workspace: Workspace) -> Workspace:
    """Where search works beside the run, with a registry of its own."""
    return Workspace(workspace.root / FOLDER)


def compared(settings: Settings, workspace: Workspace) -> Comparison | None:
    """The comparison as far as both registries hold one; None where there is none."""
    beside = search_workspace(workspace)
    if not (beside.root / PROJECT).exists():
        return None
    run, search = (attempts(Registry(each)) for each in (workspace, beside))
    bests = [leader(found, settings.goal, settings.seeds) for found in (run, search)]
    values = [best.values(settings.goal.metric) if best else [] for best in bests]
    if not all(values):
        return None
    return Comparison(
        metric=settings.goal.metric,
        higher=settings.goal.higher,
        run=values[0],
        search=values[1],
        run_reached=first_reached(run, settings),
        search_reached=first_reached(search, settings),
        attempts=len(run),
    )


def first_reached(found: Sequence[Attempt], settings: Settings) -> int | None:
    """The number of the first attempt that reached the goal on all seeds."""
    hits = [a.iteration for a in found if a.reached(settings.goal, settings.seeds)]
    return hits[0] if hits else None
