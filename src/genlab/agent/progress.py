"""Progress of a run: a live table in a terminal, plain lines in a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from genlab.agent.goals import Goal
from genlab.agent.registry import Attempt


class Progress:
    """Reports nothing; the base of the reporters that do."""

    def begin(self, number: int, most: int) -> None:
        """Attempt `number` of at most `most` begins."""

    def step(self, what: str) -> None:
        """What is being done now; empty when nothing is."""

    def attempt(self, attempt: Attempt) -> None:
        """An attempt is decided on, now or in an earlier process of this run."""

    def note(self, text: str) -> None:
        """Anything else that a person should know."""


class Lines(Progress):
    """A line per event, for logs."""

    def __init__(self, goal: Goal, console: Console) -> None:
        self._goal, self._console = goal, console

    def begin(self, number: int, most: int) -> None:
        self.note(f"attempt {number} of {most}")

    def step(self, what: str) -> None:
        if what:
            self.note(f"  {what}")

    def attempt(self, attempt: Attempt) -> None:
        number, parameters = numbers(attempt, self._goal)
        shown = attempt.failure or f"{self._goal.metric} {number}, {parameters} parameters"
        origin = f"planned by {attempt.origin}, code by {attempt.code_origin or 'nobody'}"
        self.note(f"attempt {attempt.number}: {shown}; {origin}; {attempt.verdict}")

    def note(self, text: str) -> None:
        # Text, not markup: words of a language model are in it.
        self._console.print(Text(" ".join(text.split("\n"))), soft_wrap=True)


class LiveTable(Progress):
    """A table of the attempts that grows, and below it what is being done now."""

    def __init__(self, goal: Goal, live: Live) -> None:
        self._goal, self._live = goal, live
        self._attempts: dict[str, Attempt] = {}
        self._number = self._step = ""

    def begin(self, number: int, most: int) -> None:
        self._number = f"attempt {number} of {most}: "
        self._show()

    def step(self, what: str) -> None:
        self._step = what
        self._show()

    def attempt(self, attempt: Attempt) -> None:
        self._attempts[attempt.run_id] = attempt
        self.step("")

    def note(self, text: str) -> None:
        self._live.console.print(Text(text), soft_wrap=True)

    def _show(self) -> None:
        table = Table(title=Text(self._goal.description), title_justify="left")
        for name in ("#", "model", self._goal.metric, "parameters", "planned by", "code by"):
            table.add_column(name, justify="right" if name in ("#", "parameters") else "left")
        table.add_column("decision", max_width=60)
        for each in self._attempts.values():
            cells = [str(each.number), each.model_name, *numbers(each, self._goal)]
            cells += [each.origin, each.code_origin, each.decision]
            table.add_row(*map(Text, cells))
        step = Text(f"{self._number}{self._step} …" if self._step else "", style="dim")
        self._live.update(Group(table, step), refresh=True)


def numbers(attempt: Attempt, goal: Goal) -> tuple[str, str]:
    """The values of the goal's metric per seed, and the number of parameters, for people."""
    values = " / ".join(f"{value:.4g}" for value in attempt.values(goal.metric))
    return values or "–", f"{attempt.parameters:,}" if attempt.parameters else "–"


@contextmanager
def progress(goal: Goal, console: Console | None = None) -> Iterator[Progress]:
    """Report on standard error: a table in a terminal, else lines."""
    console = console or Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield Lines(goal, console)
        return
    with Live(console=console, auto_refresh=False, transient=False) as live:
        yield LiveTable(goal, live)
