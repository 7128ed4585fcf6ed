"""A run as its workspace's files describe it: no language model, no training.

The report, the stage's snapshot, the command line and the page read runs from here.
"""

import math
import statistics
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter

from genlab.agent.architecture.training import UNUSED
from genlab.agent.config import Settings
from genlab.agent.decisions import find_best
from genlab.agent.goals.goal import quote_unenforced
from genlab.agent.registry import OLD_VERDICTS, Attempt, Registry
from genlab.agent.workspace import JOURNAL, SEARCH, Workspace
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json
from genlab.llm.journal import read_entries

RUN, KIND, VERSION = "run.json", "agent run", 2
UNFINISHED = "unfinished"
RESUME = 'genlab agent "GOAL"'
LEVEL = 0.95
NORMAL = 1.96  # standard errors of a difference, two-sided 95 %
REFERENCES = TypeAdapter(dict[str, dict[str, Any]])
SPENT = TypeAdapter(dict[str, float])


@dataclass(frozen=True)
class RunRecord:
    """A run: its settings, how it ended, its attempts and those of search."""

    workspace: Workspace
    verdict: str
    backend: str
    settings: Settings
    references: dict[str, dict[str, Any]]
    spent: dict[str, float]
    attempts: list[Attempt]
    search: list[Attempt]

    @cached_property
    def best(self) -> Attempt | None:
        """The attempt that the run is judged by."""
        return find_best(self.attempts, self.settings)

    @cached_property
    def best_of_search(self) -> Attempt | None:
        """The attempt that it is compared with."""
        return find_best(self.search, self.settings)

    @cached_property
    def comparison(self) -> dict[str, Any] | None:
        """The best model against search's at equally many attempts; None where one has none."""
        goal, bests = self.settings.goal, (self.best, self.best_of_search)
        if len(self.search) != len(self.attempts):
            return None
        values = [each.values(goal.metric) for each in bests if each]
        return compare(values[0], values[1], higher=goal.higher) if len(values) == 2 else None

    def find_first_met(self, attempts: list[Attempt]) -> int | None:
        """The number of the first attempt that met the goal."""
        return next((attempt.number for attempt in attempts if attempt.verdict == "met"), None)

    @property
    def verdict_text(self) -> str:
        """The verdict for people."""
        goal = self.settings.goal
        best = self.best
        if best is not None and best.verdict == "met" and self.verdict != UNFINISHED:
            return f"Goal met: attempt {best.number} has {goal.description}{self.on_test}."
        if self.verdict.startswith("stopped: "):
            undecided = best is not None and best.verdict == "undecided"
            outcome = "Goal undecided" if undecided else "Goal not met"
            return f"{outcome}; {self.verdict}{self.on_test}."
        return "The run has not finished: the same command resumes it."

    @property
    def passed_on(self) -> str:
        """Words of the goal that only the planner reads; no number enforces them."""
        return quote_unenforced(self.settings.goal)

    @property
    def on_test(self) -> str:
        """What the test set says of the best attempt, to be appended to a sentence."""
        goal = self.settings.goal
        test = self.best.test if self.best else {}
        if goal.metric not in test:
            return ""
        words = f"; on test {test[goal.metric]:.4f}"
        if interval := test.get(f"{goal.metric}_interval"):
            words += f" ({interval[0]:.4f} to {interval[1]:.4f})"
        return words + (f": {test['verdict']}" if "verdict" in test else "")

    @property
    def against_references(self) -> list[str]:
        """The best attempt beside each reference model on the test set; noise is called noise."""
        goal = self.settings.goal
        test = self.best.test if self.best else {}
        lines = []
        for name, metrics in self.references.items():
            on_test = metrics.get("test", {})
            if goal.metric not in test or goal.metric not in on_test:
                continue
            gain = goal.score(test[goal.metric]) - goal.score(on_test[goal.metric])
            errors = [found.get(f"{goal.metric}_error", 0.0) for found in (test, on_test)]
            noise = NORMAL * math.hypot(*errors)
            relation = "within the noise of"
            if abs(gain) > noise:
                relation = "better than" if gain > 0 else "worse than"
            lines.append(f"{relation} {name} ({on_test[goal.metric]:.4f} on test)")
        return lines

    @property
    def summary_line(self) -> str:
        """The run on one line, for the end of a log."""
        if self.best is None:
            return self.verdict_text
        metric = self.settings.goal.metric
        values = self.best.format_metric(metric)
        return f"{self.verdict_text} Best: attempt {self.best.number}, {metric} {values}."

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
        """Questions, tokens, seconds and dollars of the answers; up to the last attempt so far."""
        return self.spent or (self.attempts[-1].spend if self.attempts else {})

    @property
    def recipe(self) -> str:
        """The training recipe of the best attempt in a line; what is off is left out."""
        stated = self.best.training if self.best else {}
        unused = UNUSED[self.settings.goal.task]
        return " ".join(
            f"{key} {stated[key]}" for key in stated if stated[key] and key not in unused
        )

    @property
    def questions(self) -> dict[str, int]:
        """Number of questions by what they asked for, such as Proposal and Code."""
        entries = read_entries(self.workspace.root / JOURNAL)
        asked = [entry.request for entry in entries if entry.kind == "answer"]
        return dict(Counter(request.get("schema") or "call of a tool" for request in asked))

    @property
    def seconds(self) -> float:
        """Wall time of all attempts, answers included."""
        return sum(each.wall_seconds for each in self.attempts)

    @property
    def numbers_by_run_id(self) -> dict[str, int]:
        """Numbers of the attempts by run_id."""
        return {each.run_id: each.number for each in self.attempts}

    @property
    def limitations(self) -> list[str]:
        """What the numbers do not say."""
        params, seeds, count = self.settings.params, self.settings.params.seeds, len(self.attempts)
        apart = len(self.passed_on.split())
        small = params.backend == "embedded" and not params.gguf
        replaced = self.planned_by.get("search", 0) if params.backend != "search" else 0
        every, alone = [*self.attempts, *self.search], self.comparison is None
        cut = sum(any(seed.get("cut") for seed in each.seeds) for each in every)
        found = {
            "The planner is SmolLM2-135M-Instruct, far too small for this task: its code does not"
            " run, and the template writes all code.": small,
            f"A training sees {params.examples:,} examples of {params.subset:,} different items at"
            " most. The order of models can change with longer training.": True,
            f"The best of {count} attempts was chosen by the first seeds and the validation items"
            " that it is shown with, which is optimistic; new seeds and the test set aren't.": True,
            f"With {seeds} seeds small differences between models are noise.": seeds < 5,
            f"{apart} of the goal's words are enforced by nothing: {self.passed_on}.": apart,
            f"In {replaced} of {count} attempts the planner gave no usable answer and random search"
            " proposed instead.": replaced,
            f"The clock ended the training of {cut} attempts (search's included): their numbers"
            " depend on the machine and its load.": cut,
            "It is not compared with search: nothing shows what the planner is worth.": alone,
        }  # fmt: skip
        return [text for text, applies in found.items() if applies]


def compare(run: list[float], search: list[float], *, higher: bool) -> dict[str, Any]:
    """Difference of the means of two models, one value per seed, with its 95 % interval (Welch).

    Both models are chosen by their mean over seeds on the same validation part, so both are a
    little optimistic, by the same selection. The interval's n is the number of seeds of training:
    it does not cover the luck of the search itself, over whose seeds `make bench` repeats all.
    """
    from scipy import stats

    low, high, conclusion = None, None, "there are too few seeds, or they do not vary"
    count = min(len(run), len(search))
    if count > 1 and len({*run}) + len({*search}) > 2:
        interval = stats.ttest_ind(run, search, equal_var=False).confidence_interval(LEVEL)
        low, high = float(interval.low), float(interval.high)
        better = "better" if (low > 0) == higher else "worse"
        conclusion = f"the run's best model is {better} than search's"
        if low <= 0 <= high:
            conclusion = "with this number of seeds the difference is within the noise"
    means = statistics.mean(run), statistics.mean(search)
    return {"difference": means[0] - means[1], "low": low, "high": high, "seeds": count,
            "search": means[1], "conclusion": conclusion}  # fmt: skip


def write_run(
    workspace: Workspace,
    settings: Settings,
    verdict: str,
    backend: str,
    references: dict[str, dict[str, Any]],
    spent: dict[str, float] | None = None,
) -> None:
    """Write what a report needs beside the registry; spent: of a run that has ended."""
    content = {"kind": KIND, "version": VERSION, "verdict": verdict, "backend": backend,
               "references": references, "settings": settings.to_json(),
               "spent": spent or {}}  # fmt: skip
    write_json(workspace.experiments / RUN, content)


def read_run(workspace: Workspace) -> RunRecord:
    """The run in a workspace. Raises a GenlabError where none was begun or its file is damaged."""
    path = workspace.experiments / RUN
    stored: dict[str, Any] = read_json(path, producer_command=RESUME, kind=KIND)
    try:
        if stored["version"] != VERSION:
            raise ValueError(stored["version"])
        verdict = OLD_VERDICTS.get(stored["verdict"], str(stored["verdict"]))
        settings = Settings.from_json(stored["settings"])
        references = REFERENCES.validate_python(stored["references"])
        spent = SPENT.validate_python(stored.get("spent", {}))
        found = (verdict, str(stored["backend"]), settings, references, spent)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        fault = "is damaged or of another version of genlab"
        raise GenlabError(f"{path} {fault}; begin a new run: {RESUME} --fresh") from error
    beside = Workspace(workspace.root / SEARCH)
    return RunRecord(
        workspace, *found, Registry(workspace).read_numbered(), Registry(beside).read_numbered()
    )
