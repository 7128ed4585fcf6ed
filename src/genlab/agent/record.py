"""A run as its workspace's files describe it: no language model, no training.

The report, the stage's snapshot, the command line and the page read runs from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from genlab.agent.comparison import Comparison, compare
from genlab.agent.config import Settings
from genlab.agent.loop import leader
from genlab.agent.registry import Attempt, Registry
from genlab.agent.workspace import PROJECT, Workspace, key_of
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json

RUN, KIND, VERSION = "run.json", "agent run", 2
SEARCH = "search"  # folder of the workspace in which search works beside the run
UNFINISHED = "unfinished"
RESUME = 'genlab agent "GOAL"'


@dataclass(frozen=True)
class RunRecord:
    """A run: its settings, how it ended, its attempts and those of search."""

    workspace: Workspace
    verdict: str
    backend: str
    settings: Settings
    references: dict[str, dict[str, float]]
    attempts: list[Attempt]
    search: list[Attempt]

    @cached_property
    def best(self) -> Attempt | None:
        """The attempt that the run is judged by."""
        return leader(self.attempts, self.settings)

    @cached_property
    def comparison(self) -> Comparison | None:
        """The best model against search's; None where there is none."""
        return compare(self.attempts, self.search, self.settings)

    @property
    def sentence(self) -> str:
        """The verdict for people."""
        goal, seeds = self.settings.goal, len(self.settings.seeds)
        if self.verdict == "achieved" and self.best is not None:
            reached = f"attempt {self.best.number} reaches {goal.description}"
            return f"Goal reached: {reached}, on {'all ' if seeds > 1 else ''}{seeds} seeds."
        if self.verdict.startswith("stopped: "):
            return f"Goal not reached; stopped: {self.verdict.removeprefix('stopped: ')}."
        return "The run has not finished: the same command resumes it."

    @property
    def planned_by(self) -> dict[str, int]:
        """Number of attempts by who planned them: llm, search."""
        return dict(Counter(each.origin for each in self.attempts))

    @property
    def written_by(self) -> dict[str, int]:
        """Number of attempts by who wrote their code: llm, llm+repaired, template."""
        origins = [each.code_origin.partition("(")[0] for each in self.attempts]
        return dict(Counter(filter(None, origins)))

    @property
    def spend(self) -> dict[str, float]:
        """Questions, tokens, seconds and dollars of the run's answers."""
        return self.attempts[-1].spend if self.attempts else {}

    @property
    def seconds(self) -> float:
        """Wall time of all attempts, answers included."""
        return sum(each.wall_seconds for each in self.attempts)

    @property
    def numbers(self) -> dict[str, int]:
        """Numbers of the attempts by run_id."""
        return {each.run_id: each.number for each in self.attempts}

    @property
    def limitations(self) -> list[str]:
        """What the numbers do not say."""
        params, count = self.settings.params, len(self.attempts)
        found = [
            f"A training sees {params.examples:,} examples of {params.subset:,} different items at"
            " most. The order of models can change with longer training.",
            f"The best of {count} attempts was chosen on the {params.validation:,} validation"
            " items that it is shown with, so that number is optimistic. The one on the test set is"
            " not.",
        ]
        if params.backend == "embedded" and not params.gguf:
            found.insert(0, "The planner is SmolLM2-135M-Instruct, far too small for this task. Its"
                            " code does not run, so the template writes all code. Any larger model"
                            " behind --backend openai or --gguf does better.")  # fmt: skip
        if len(self.settings.seeds) < 5:
            found.append(f"With {len(self.settings.seeds)} seeds intervals are wide: small"
                         " differences between models are noise.")  # fmt: skip
        replaced = sum(each.origin == "search" for each in self.attempts)
        if replaced and params.backend != "search":
            found.append(f"In {replaced} of {count} attempts the planner gave no usable answer and"
                         " random search proposed instead.")  # fmt: skip
        cut = _count_cut([*self.attempts, *self.search])
        if cut:
            found.append(f"The clock ended the training of {cut} attempts (search's included):"
                         " their numbers depend on the machine and its load.")  # fmt: skip
        if self.comparison is None:
            found.append("Search was not run beside it: nothing shows what the planner is worth.")
        return found


def _count_cut(attempts: Sequence[Attempt]) -> int:
    return sum(any(seed.get("cut") for seed in each.seeds) for each in attempts)


def write_run(
    workspace: Workspace,
    settings: Settings,
    verdict: str,
    backend: str,
    references: dict[str, dict[str, float]],
) -> None:
    """Write what a report needs beside the registry."""
    content = {"kind": KIND, "version": VERSION, "verdict": verdict, "backend": backend,
               "key": key_of(workspace.root), "references": references,
               "settings": settings.to_json()}  # fmt: skip
    write_json(workspace.experiments / RUN, content)


def read_run(workspace: Workspace) -> RunRecord:
    """The run in a workspace. Raises a GenlabError where none was begun or its file is damaged."""
    path = workspace.experiments / RUN
    stored: dict[str, Any] = read_json(path, producer_command=RESUME, kind=KIND)
    if stored.get("version") != VERSION:
        raise GenlabError(
            f"{path} has format version {stored.get('version')}, this genlab reads {VERSION};"
            f" begin a new run: {RESUME} --fresh"
        )
    try:
        settings = Settings.from_json(stored["settings"])
        verdict, backend = str(stored["verdict"]), str(stored["backend"])
    except (KeyError, TypeError, ValueError) as error:
        raise GenlabError(f"{path} is damaged; run the agent again: {RESUME}") from error
    beside = Workspace(workspace.root / SEARCH)
    return RunRecord(
        workspace,
        verdict,
        backend,
        settings,
        dict(stored.get("references", {})),
        read_attempts(workspace),
        read_attempts(beside) if (beside.root / PROJECT).exists() else [],
    )


def read_attempts(workspace: Workspace) -> list[Attempt]:
    """The run's attempts in order; what people evaluated with the tools is left out."""
    found = [each for each in Registry(workspace).attempts() if each.number]
    return sorted(found, key=lambda each: each.number)
