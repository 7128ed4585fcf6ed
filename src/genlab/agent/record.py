"""The record of a run, read from the files of its workspace.

Report, stage, command line and page read runs through this module; it trains nothing and asks no
language model.
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter

from genlab.agent.architecture.training import UNUSED
from genlab.agent.config import Settings
from genlab.agent.decisions import find_best
from genlab.agent.goals.goal import quote_unenforced
from genlab.agent.registry import RENAMED_VERDICTS, Attempt, Registry
from genlab.agent.workspace import JOURNAL, SEARCH, Workspace
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json
from genlab.llm.journal import read_entries

RUN = "run.json"
KIND = "agent run"  # as run.json names itself
VERSION = 2  # of run.json
UNFINISHED = "unfinished"
RESUME = 'genlab agent "GOAL"'
LEVEL = 0.95
WITHIN_NOISE = "within noise"  # where the interval contains 0, and nowhere else
NO_INTERVAL = "too few seeds, or equal values, for an interval"
UNCOVERED = (
    "The interval covers neither the luck of the two searches, whose best models these seeds chose,"
    " nor that of the validation items."
)
NORMAL = 1.96  # standard errors of a difference, two-sided 95 %
REFERENCES = TypeAdapter(dict[str, dict[str, Any]])
SPENT = TypeAdapter(dict[str, float])


@dataclass(frozen=True)
class RunRecord:
    """A run: settings, verdict, its attempts and those of the search that it is compared with."""

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
        """The best attempt of the run; None where none has a number."""
        return find_best(self.attempts, self.settings)

    @cached_property
    def best_of_search(self) -> Attempt | None:
        """The best attempt of the search; None where none has a number."""
        return find_best(self.search, self.settings)

    @cached_property
    def comparison(self) -> dict[str, Any] | None:
        """The best attempt compared with that of search.

        None where one of them has none, or where the numbers of attempts differ.
        """
        goal = self.settings.goal
        if len(self.search) != len(self.attempts):
            return None
        if self.best is None or self.best_of_search is None:
            return None
        run_values = self.best.values(goal.metric)
        search_values = self.best_of_search.values(goal.metric)
        return compare_with_search(run_values, search_values, higher=goal.higher)

    @property
    def comparison_sentence(self) -> str:
        """The comparison with search as a sentence, "" where there is none."""
        if self.comparison is None:
            return ""
        return describe_comparison(self.comparison, self.settings.goal.metric)

    @property
    def statement(self) -> str:
        """Who planned the run, how it ended, and how it compares with search, for the README."""
        origins = " and ".join(f"{count} by {name}" for name, count in self.planned_by.items())
        planner = f"planner {self.backend}; {origins} of {len(self.attempts)} attempts"
        return f"Research agent: {planner}. {self.verdict_text} {self.comparison_sentence}".strip()

    def find_first_met(self, attempts: list[Attempt]) -> int | None:
        """Return the number of the first attempt that met the goal; None where none did."""
        return next((attempt.number for attempt in attempts if attempt.verdict == "met"), None)

    @property
    def verdict_text(self) -> str:
        """The verdict as a sentence."""
        goal = self.settings.goal
        best = self.best
        if best is not None and best.verdict == "met" and self.verdict != UNFINISHED:
            return f"Goal met: attempt {best.number} has {goal.description}{self.test_outcome}."
        if self.verdict.startswith("stopped: "):
            undecided = best is not None and best.verdict == "undecided"
            outcome = "Goal undecided" if undecided else "Goal not met"
            return f"{outcome}; {self.verdict}{self.test_outcome}."
        return "The run has not finished: the same command resumes it."

    @property
    def unenforced_words(self) -> str:
        """Words of the goal that are passed on to the planner; no number enforces them."""
        return quote_unenforced(self.settings.goal)

    @property
    def test_outcome(self) -> str:
        """The best attempt's number on the test set, to be appended to a sentence."""
        goal = self.settings.goal
        test = self.best.test if self.best else {}
        if goal.metric not in test:
            return ""
        outcome = f"; on test {test[goal.metric]:.4f}"
        if interval := test.get(f"{goal.metric}_interval"):
            outcome += f" ({interval[0]:.4f} to {interval[1]:.4f})"
        if "verdict" in test:
            outcome += f": {test['verdict']}"
        elif test.get("trainings") == 1:
            outcome += ", of one training"
        return outcome

    @property
    def reference_comparisons(self) -> list[str]:
        """The best attempt compared with each reference model on the test set, a line each.

        It is better or worse where the difference exceeds its two-sided 95 % margin.
        """
        goal = self.settings.goal
        test = self.best.test if self.best else {}
        lines = []
        for name, metrics in self.references.items():
            reference = metrics.get("test", {})
            if goal.metric not in test or goal.metric not in reference:
                continue
            gain = goal.score(test[goal.metric]) - goal.score(reference[goal.metric])
            error_key = f"{goal.metric}_error"
            error = math.hypot(test.get(error_key, 0.0), reference.get(error_key, 0.0))
            relation = "within the noise of"
            if abs(gain) > NORMAL * error:
                relation = "better than" if gain > 0 else "worse than"
            lines.append(f"{relation} {name} ({reference[goal.metric]:.4f} on test)")
        return lines

    @property
    def summary_line(self) -> str:
        """Verdict and best attempt on one line, for the end of a log."""
        if self.best is None:
            return self.verdict_text
        metric = self.settings.goal.metric
        values = self.best.format_metric(metric)
        return f"{self.verdict_text} Best: attempt {self.best.number}, {metric} {values}."

    @property
    def planned_by(self) -> dict[str, int]:
        """Number of attempts by who planned them: llm, search."""
        return dict(Counter(attempt.origin for attempt in self.attempts))

    @property
    def written_by(self) -> dict[str, int]:
        """Number of attempts by who wrote their code: llm, llm+repaired, template."""
        origins = [attempt.code_origin.partition("(")[0] for attempt in self.attempts]
        return dict(Counter(filter(None, origins)))

    @property
    def spend(self) -> dict[str, float]:
        """Questions, tokens, seconds and dollars of the language model.

        Of a run that has not ended, up to its last attempt.
        """
        return self.spent or (self.attempts[-1].spend if self.attempts else {})

    @property
    def recipe(self) -> str:
        """The training recipe of the best attempt in a line, without what is switched off."""
        training = self.best.training if self.best else {}
        unused = UNUSED[self.settings.goal.task]
        words = [f"{key} {value}" for key, value in training.items() if value and key not in unused]
        return " ".join(words)

    @property
    def questions(self) -> dict[str, int]:
        """Number of questions by the schema of their answers, such as Proposal and Code."""
        entries = read_entries(self.workspace.root / JOURNAL)
        requests = [entry.request for entry in entries if entry.kind == "answer"]
        return dict(Counter(request.get("schema") or "call of a tool" for request in requests))

    @property
    def seconds(self) -> float:
        """Wall time of all attempts, including the language model's answers."""
        return sum(attempt.wall_seconds for attempt in self.attempts)

    @property
    def numbers_by_run_id(self) -> dict[str, int]:
        """Numbers of the attempts by run_id."""
        return {attempt.run_id: attempt.number for attempt in self.attempts}

    @property
    def limitations(self) -> list[str]:
        """Sentences on what the numbers of this run do not show."""
        params = self.settings.params
        count = len(self.attempts)
        unenforced = len(self.unenforced_words.split())
        small = params.backend == "embedded" and not params.gguf
        replaced = self.planned_by.get("search", 0) if params.backend != "search" else 0
        cut = sum(bool(attempt.cut_seeds) for attempt in (*self.attempts, *self.search))
        applies = {
            "The planner is SmolLM2-135M-Instruct, far too small for this task: its code does not"
            " run, and the template writes all code.": small,
            f"A training sees {params.examples:,} examples of {params.subset:,} different items at"
            " most. The order of models can change with longer training.": True,
            f"The best of {count} attempts was chosen by the first seeds and the validation items"
            " that it is shown with, which is optimistic; new seeds and the test set aren't.": True,
            f"With {params.seeds} seeds small differences between models are noise.":
                params.seeds < 5,
            f"{unenforced} of the goal's words are enforced by nothing: {self.unenforced_words}.":
                unenforced,
            f"In {replaced} of {count} attempts the planner gave no usable answer and random search"
            " proposed instead.": replaced,
            f"The clock ended the training of {cut} attempts (search's included): their numbers"
            " depend on the machine and its load.": cut,
            "It is not compared with search: nothing shows what the planner is worth.":
                self.comparison is None,
        }  # fmt: skip
        return [sentence for sentence in applies if applies[sentence]]


def compare_with_search(run: list[float], search: list[float], *, higher: bool) -> dict[str, Any]:
    """Compare the best models of a run and of search, one value per seed each, by Welch's t-test.

    Returns the difference of the means with its 95 % interval, and a conclusion in words. Both
    models are chosen by their mean over seeds on the same validation items, so both means are a
    little optimistic, by the same selection. The interval covers the seeds of training; it does not
    cover the luck of the search itself, which `make bench` repeats with other seeds.
    """
    from scipy import stats

    low = None
    high = None
    conclusion = NO_INTERVAL
    count = min(len(run), len(search))
    if count > 1 and len({*run}) + len({*search}) > 2:
        interval = stats.ttest_ind(run, search, equal_var=False).confidence_interval(LEVEL)
        low = float(interval.low)
        high = float(interval.high)
        if low <= 0 <= high:
            conclusion = WITHIN_NOISE
        else:
            conclusion = "better than its model" if (low > 0) == higher else "worse than its model"
    search_mean = statistics.mean(search)
    return {
        "difference": statistics.mean(run) - search_mean,
        "low": low,
        "high": high,
        "seeds": count,
        "search": search_mean,
        "conclusion": conclusion,
    }


def describe_comparison(comparison: Mapping[str, Any], metric: str) -> str:
    """Describe what `compare_with_search` returns in a sentence, with what it does not cover."""
    sentence = (
        f"The best model's {metric} minus that of random search, which made as many attempts:"
        f" {format_difference(comparison['difference'])}"
    )
    if comparison["low"] is None:
        return f"{sentence} ({comparison['conclusion']})."
    interval = f"{format_difference(comparison['low'])} to {format_difference(comparison['high'])}"
    seeds = f"{comparison['seeds']} seeds of training each"
    conclusion = f"{comparison['conclusion']}. {UNCOVERED}"
    return f"{sentence}, 95 % interval {interval} over {seeds}: {conclusion}"


def format_difference(value: float) -> str:
    """Format a difference with its sign and four decimals."""
    return f"{value:+.4f}".replace("-", "−")


def write_run(
    workspace: Workspace,
    settings: Settings,
    verdict: str,
    backend: str,
    references: dict[str, dict[str, Any]],
    spent: dict[str, float] | None = None,
) -> None:
    """Write run.json, which holds what a report needs beside the registry.

    spent: questions, tokens, seconds and dollars of a run that has ended.
    """
    content = {
        "kind": KIND,
        "version": VERSION,
        "verdict": verdict,
        "backend": backend,
        "references": references,
        "settings": settings.to_json(),
        "spent": spent or {},
    }
    write_json(workspace.experiments / RUN, content)


def read_run(workspace: Workspace) -> RunRecord:
    """Read the run in a workspace. Raises a GenlabError for a missing or damaged run.json."""
    path = workspace.experiments / RUN
    stored: dict[str, Any] = read_json(path, producer_command=RESUME, kind=KIND)
    try:
        if stored["version"] != VERSION:
            raise ValueError(stored["version"])
        verdict = RENAMED_VERDICTS.get(stored["verdict"], str(stored["verdict"]))
        backend = str(stored["backend"])
        settings = Settings.from_json(stored["settings"])
        references = REFERENCES.validate_python(stored["references"])
        spent = SPENT.validate_python(stored.get("spent", {}))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        fault = "is damaged or of another version of genlab"
        raise GenlabError(f"{path} {fault}; begin a new run: {RESUME} --fresh") from error
    search_workspace = Workspace(workspace.root / SEARCH)
    return RunRecord(
        workspace=workspace,
        verdict=verdict,
        backend=backend,
        settings=settings,
        references=references,
        spent=spent,
        attempts=Registry(workspace).read_numbered(),
        search=Registry(search_workspace).read_numbered(),
    )
