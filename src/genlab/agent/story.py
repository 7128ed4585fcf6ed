"""What there is to tell of a run, read from its workspace's own files: no LLM, no training.

The report, the stage's snapshot and the command line all tell it from here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from genlab.agent.attempt import CODE, Attempt, attempts, leader, summary_of
from genlab.agent.comparison import Comparison, compared, search_workspace
from genlab.agent.embedded import MODEL
from genlab.agent.registry import Registry
from genlab.agent.settings import Settings
from genlab.agent.workspace import PROJECT, REBUILD, Workspace, goal_of, sign
from genlab.core.errors import GenlabError
from genlab.core.io import read_json

RUN, RUN_KIND = "run.json", "agent run"
AGAIN = 'python -m genlab.agent "GOAL"'


def run_file(workspace: Workspace) -> Path:
    """Where a run writes down its settings and its verdict."""
    return workspace.experiments / RUN


@dataclass(frozen=True)
class Story:
    """A run as its files tell it."""

    workspace: Workspace
    verdict: str
    backend: str
    settings: Settings
    attempts: list[Attempt]
    search: list[Attempt]
    comparison: Comparison | None

    @property
    def best(self) -> Attempt | None:
        """The attempt that stands for the run."""
        return leader(self.attempts, self.settings.goal, self.settings.seeds)

    @property
    def baseline(self) -> Attempt | None:
        """The first attempt."""
        return self.attempts[0] if self.attempts else None

    @cached_property
    def code(self) -> str:
        """The best one's file."""
        return self._of_best(CODE)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """What was measured of the best one's structure."""
        if self.best is None:
            return {}
        return summary_of(self.workspace, self.best)

    def _of_best(self, name: str) -> str:
        if self.best is None:
            return ""
        path = self.workspace.root / self.best.experiment_dir / name
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise GenlabError(f"{path} is missing; remove its folder and run: {AGAIN}") from error

    @property
    def number_of(self) -> dict[str, int]:
        """Numbers of the attempts by run_id."""
        return {each.run_id: each.iteration for each in self.attempts}

    @property
    def planned_by(self) -> dict[str, int]:
        """Attempts by who planned them: baseline, llm, llm+repaired, search."""
        return _counted([each.plan_origin for each in self.attempts])

    @property
    def written_by(self) -> dict[str, int]:
        """Attempts by who wrote their code: llm, llm+repaired, template."""
        return _counted([each.code_origin for each in self.attempts])

    @property
    def spend(self) -> dict[str, float]:
        """Questions, tokens, seconds and dollars that the answers of this run took."""
        return self.attempts[-1].spend if self.attempts else {}

    @property
    def priced(self) -> bool:
        """Whether dollars were counted: without prices, nothing is known of them."""
        return max(self.settings.params.price_in, self.settings.params.price_out) > 0

    @property
    def seconds(self) -> float:
        """Seconds that the attempts took, answers included."""
        return sum(each.attempt_seconds for each in self.attempts)

    @property
    def failed_plans(self) -> int:
        """Attempts that search planned because the planner had failed."""
        return sum(
            bool(each.planner_failure) and each.plan_origin == "search" for each in self.attempts
        )

    @property
    def cut_short(self) -> int:
        """Attempts with a training that the clock ended: another machine would get further."""
        limit = self.settings.params.time_limit
        return sum(
            any(each["seconds"] >= limit for each in attempt.checked)
            or "stopped it: time" in attempt.failure
            for attempt in [*self.attempts, *self.search]
        )

    @property
    def revised_goals(self) -> list[str]:
        """Goals that the planner would rather have; a person decides."""
        asked = [each.review for each in self.attempts if each.review.get("decision") == "revise"]
        told = [str(review.get("revised_goal", "")).strip() for review in asked]
        return list(dict.fromkeys(filter(None, told)))

    @property
    def sentence(self) -> str:
        """The verdict for people."""
        goal, seeds = self.settings.goal, len(self.settings.seeds)
        if self.verdict == "achieved" and self.best is not None:
            found = f"attempt {self.best.iteration} reaches {goal}"
            return f"Goal reached: {found} on {'all ' if seeds > 1 else ''}{seeds} seeds."
        if self.verdict == "baseline_reached_it":
            return f"The baseline reaches {goal} already: nothing was left for the agent to find."
        if self.verdict.startswith("stopped: "):
            return f"Goal not reached; stopped: {self.verdict.removeprefix('stopped: ')}."
        return "The run has not finished: the same command goes on with it."

    @property
    def limitations(self) -> list[str]:
        """What the numbers do not say."""
        params = self.settings.params
        told = [
            f"A quick evaluation trains for {params.epochs} epochs on {params.subset:,} items at"
            " most. The order of models can change at full length: a promotion trains one in full.",
            f"The best of {len(self.attempts)} attempts was chosen by the validation items (at most"
            f" {params.validation:,}) that it is shown with, which flatters it. The number on the"
            " test part does not.",
        ]
        if len(self.settings.seeds) < 5:
            told.append(
                f"With {len(self.settings.seeds)} seeds intervals are wide; small differences"
                " between models are noise."
            )
        if params.backend == "embedded" and not params.gguf:
            told.insert(
                0,
                f"The planner is {MODEL}, a language model of demo grade: it keeps to a schema and"
                " knows little of what it proposes. It writes no code that runs, so the template"
                " wrote all of it. A larger model behind --backend openai or --gguf does better.",
            )
        if self.failed_plans:
            told.append(
                f"In {self.failed_plans} of {len(self.attempts)} attempts the planner gave no"
                " usable answer and search stepped in: what they found is search's."
            )
        if self.cut_short:
            told.append(
                f"{self.cut_short} attempts (search's included) ran into the time limit of"
                f" {params.time_limit:g} s: their numbers depend on the machine and its load."
            )
        if self.comparison is None and self.verdict != "baseline_reached_it":
            told.append("Search was not run beside it, so nothing shows what the planner is worth.")
        return told


def _counted(origins: list[str]) -> dict[str, int]:
    return dict(Counter(origin.partition("(")[0] for origin in origins))


def signed(workspace: Workspace) -> None:
    """Write a damaged project.json again from what the run wrote down of itself.

    Raises GenlabError where no run did.
    """
    try:
        goal_of(workspace.root)
    except GenlabError as error:
        if not run_file(workspace).exists():
            raise GenlabError(
                f"{workspace.root / PROJECT} is damaged, and no run was begun there; give it up"
                f" with: rm -r {workspace.root}"
            ) from error
        told = read_json(run_file(workspace), producer_command=AGAIN, kind=RUN_KIND)
        settings = Settings.of(told["settings"])
        sign(workspace.root, settings.goal.text, told.get("key", settings.key))


def _again(workspace: Workspace) -> str:
    """The command that goes on with the run in `workspace`."""
    try:
        return AGAIN.replace("GOAL", goal_of(workspace.root) or "GOAL")
    except GenlabError:
        return f"{REBUILD} {workspace.root}"


def story(workspace: Workspace) -> Story:
    """The story of the run in `workspace`. Raises GenlabError where no run was begun there."""
    path = run_file(workspace)
    told = read_json(path, producer_command=(again := _again(workspace)), kind=RUN_KIND)
    try:
        settings = Settings.of(told["settings"])
        verdict, backend = str(told["verdict"]), str(told["backend"])
    except (KeyError, TypeError, ValueError) as error:
        raise GenlabError(f"{path} is damaged; run the agent again: {again}") from error
    beside = search_workspace(workspace)
    found = (beside.root / PROJECT).exists()
    return Story(
        workspace=workspace,
        verdict=verdict,
        backend=backend,
        settings=settings,
        attempts=attempts(Registry(workspace)),
        search=attempts(Registry(beside)) if found else [],
        comparison=compared(settings, workspace),
    )
