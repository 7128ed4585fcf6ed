"""Whether the agent reaches a goal, and what its planner is worth against chance.

The goal's bound comes from search alone, on seeds that the agent is never run with, before the
agent is: the highest whole percent that at least 8 of 10 runs of search reach in five attempts, on
every seed of training. So it is a goal that can be reached, and one that the choice of a planner
cannot have been fitted to. It has to lie 3 points above all that the baseline reaches.

A run goes on to its five attempts, reached or not, so that the same run tells both the rate and the
best that was found; its seed is that of the language model and of mutations. Runs are kept in their
workspaces: a killed benchmark goes on, and the ablations are held against the runs of goal_rate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from agent_setting import Setting
from genlab.agent.attempt import Attempt
from genlab.agent.comparison import first_reached
from genlab.agent.progress import Silent
from genlab.agent.run import run
from genlab.agent.settings import Settings
from genlab.agent.story import Story, story
from genlab.agent.workspace import open_in
from genlab.core.errors import GenlabError
from genlab.core.io import read_json
from record import BENCHMARKS
from spread import mean, share

MARGIN = 0.03  # above the baseline
SEARCH_SEEDS = range(100, 110)  # never the agent's
ENOUGH = 0.8  # of the runs of search
LOW = "Design a small CNN for Fashion-MNIST, at least 30 % accuracy"
GOAL = "Design a small CNN for Fashion-MNIST, at least {percent:g} % accuracy"
BOUND = "agent.goal_bound"
WITHOUT = {
    "no_registry": {"registry_in_prompt": False},
    "no_repair": {"repair": False},
    "no_branching": {"branching": False},
}


class Telling(Silent):
    """Says each attempt in a line, and what stands before it."""

    def __init__(self, before: str) -> None:
        self._before = before

    def attempt(self, attempt: Attempt) -> None:
        if attempt.decision:
            values = "/".join(f"{value:.4f}" for value in attempt.values("accuracy"))
            words = values or attempt.failure
            print(
                f"{self._before}: {attempt.iteration}, {attempt.plan_origin}: {words}", flush=True
            )

    def line(self, text: str) -> None:
        print(f"{self._before}: {text}", flush=True)


def told(setting: Setting, settings: Settings, name: str) -> Story:
    """The story of a run of `settings`, which is resumed where it was begun."""
    folder = setting.workspaces / f"{name}-{settings.seed}"
    workspace = open_in(folder, settings.goal.text, settings.key)
    run(settings, workspace, Telling(f"{name} {settings.seed}"))
    return story(workspace)


def within_reach(found: Sequence[Attempt]) -> float:
    """The highest bound that a run has reached: on every seed, and not by the baseline."""
    return max((min(each.values("accuracy"), default=0.0) for each in found[1:]), default=0.0)


def bound(setting: Setting) -> None:
    """Choose the goal's bound by search alone; write `agent.goal_bound`."""
    seeds = list(SEARCH_SEEDS)[: setting.seeds]
    found, baseline = [], 0.0
    for seed in seeds:
        settings = setting.settings(LOW, seed, backend="search", stop_at_goal=False)
        attempts = told(setting, settings, "bound").attempts
        found.append(within_reach(attempts))
        baseline = max(baseline, *attempts[0].values("accuracy"))
    chosen = math.floor(100 * sorted(found)[len(found) - math.ceil(ENOUGH * len(found))]) / 100
    print("search reaches in five attempts:", ", ".join(f"{each:.4f}" for each in sorted(found)))
    print(f"the baseline reaches {baseline:.4f}")
    if chosen < baseline + MARGIN:
        raise GenlabError(
            f"benchmarks/agent.py: {chosen:g} is not {MARGIN:g} above the baseline's {baseline:g};"
            " make the evaluation longer (agent_setting.QUICK)"
        )
    setting.keep("goal_bound", chosen, n=len(seeds), seeds=seeds, only="bound")


def chosen_goal(setting: Setting) -> str:
    """The goal with the bound that was chosen. Raises GenlabError where none was."""
    again = "python benchmarks/agent.py --only bound"
    path = setting.output or BENCHMARKS
    known = read_json(path, producer_command=again) if path.exists() else {}
    if BOUND not in known:
        raise GenlabError(f"{path} holds no {BOUND}; choose it first: {again}")
    return GOAL.format(percent=round(100 * known[BOUND]["value"], 4))


@dataclass(frozen=True)
class Trial:
    """A run of the agent, and search beside it where that was asked for."""

    story: Story

    @property
    def reached(self) -> Attempt | None:
        """The attempt that reached the goal first; none where the baseline did already."""
        number = first_reached(self.story.attempts, self.story.settings)
        return self.story.attempts[number - 1] if number not in (None, 1) else None

    @property
    def search_reached(self) -> bool:
        """Whether search reached it."""
        return first_reached(self.story.search, self.story.settings) not in (None, 1)

    @property
    def best(self) -> float:
        """Mean over the training seeds of the run's best model."""
        best = self.story.best
        return float(np.mean(best.values("accuracy"))) if best else math.nan


def trial(setting: Setting, text: str, seed: int, name: str = "agent", **changes: object) -> Trial:
    """One run with the embedded planner; search beside the full one alone."""
    settings = setting.settings(
        text, seed, backend="embedded", stop_at_goal=False,
        compare_with_search=not changes, **changes,
    )  # fmt: skip
    found = Trial(told(setting, settings, name))
    hit = found.reached
    if hit is None:
        print(f"{name} {seed}: not reached, best {found.best:.4f}")
    else:
        print(f"{name} {seed}: reached by attempt {hit.iteration}, planned by {hit.plan_origin}")
    return found


def goal_rate(setting: Setting) -> None:
    """Write `agent.goal_rate` (with who planned what reached it) and `agent.llm_minus_search`."""
    text, seeds = chosen_goal(setting), list(range(setting.seeds))
    found = [trial(setting, text, seed) for seed in seeds]
    keep = partial(setting.keep, n=len(seeds), seeds=seeds, only="goal_rate")
    hits = [each.reached for each in found if each.reached is not None]
    rate, interval = share(len(hits), len(found))
    keep("goal_rate", rate, interval=interval)
    by_llm = sum(hit.plan_origin.startswith("llm") for hit in hits)
    rate, interval = share(by_llm, len(found))
    keep("goal_rate.planned_by_llm", rate, interval=interval)
    rate, interval = share(sum(each.search_reached for each in found), len(found))
    keep("goal_rate.search", rate, interval=interval)
    pairs = [each.story.comparison for each in found]
    differences = [pair.difference for pair in pairs if pair is not None]
    if not differences:
        raise GenlabError(
            "benchmarks/agent.py: no run could be held against search; remove"
            f" {setting.workspaces} and run it again"
        )
    gain, spread = mean(differences)
    setting.keep("llm_minus_search", gain, interval=spread, n=len(differences), seeds=seeds,
                 only="goal_rate")  # fmt: skip
    origins = Counter(
        each.plan_origin.partition("(")[0] for one in found for each in one.story.attempts
    )
    print("planned by:", ", ".join(f"{name} {count}" for name, count in origins.items()))


def ablations(setting: Setting) -> None:
    """Write `agent.ablations.*`: the best with a part taken away, less the best with all."""
    text, seeds = chosen_goal(setting), list(range(setting.seeds))
    full = [trial(setting, text, seed) for seed in seeds]
    for name, changes in WITHOUT.items():
        cut = [trial(setting, text, seed, name, **changes) for seed in seeds]
        pairs = zip(cut, full, strict=True)
        gain, interval = mean([one.best - other.best for one, other in pairs])
        keep = partial(setting.keep, n=len(seeds), seeds=seeds, only="ablations")
        keep(f"ablations.{name}", gain, interval=interval)
        rate, spread = share(sum(each.reached is not None for each in cut), len(cut))
        keep(f"ablations.{name}.goal_rate", rate, interval=spread)
