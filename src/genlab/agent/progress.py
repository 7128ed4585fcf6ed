"""How a run is seen from outside: a live table in a terminal, plain lines in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from genlab.agent.attempt import Attempt
from genlab.agent.goal import Goal


class Progress(Protocol):
    """What a run tells while it goes on."""

    def begin(self, number: int, most: int) -> None:
        """Attempt `number` of at most `most` begins."""

    def step(self, what: str) -> None:
        """What is being done now."""

    def attempt(self, attempt: Attempt) -> None:
        """An attempt is decided on, now or in an earlier run of this workspace."""

    def line(self, text: str) -> None:
        """Anything else that a person should know."""


class Silent:
    """Tells nothing."""

    def begin(self, number: int, most: int) -> None:
        """Nothing."""

    def step(self, what: str) -> None:
        """Nothing."""

    def attempt(self, attempt: Attempt) -> None:
        """Nothing."""

    def line(self, text: str) -> None:
        """Nothing."""


class Lines:
    """A line an event, for logs."""

    def __init__(self, goal: Goal, console: Console) -> None:
        self._goal, self._console = goal, console

    def begin(self, number: int, most: int) -> None:
        self.line(f"attempt {number} of {most}")

    def step(self, what: str) -> None:
        if what:
            self.line(f"  {what}")

    def attempt(self, attempt: Attempt) -> None:
        shown = attempt.failure or " ".join(_numbers(attempt, self._goal))
        self.line(
            f"attempt {attempt.iteration}: {shown}; planned by {attempt.plan_origin}, written by"
            f" {attempt.code_origin}; {attempt.decision or 'undecided'}"
        )

    def line(self, text: str) -> None:
        # Other people's text is in it: no markup is read, and no line is wrapped.
        self._console.print(Text(" ".join(text.split("\n"))), soft_wrap=True)


class LiveTable:
    """The attempts as a table that grows, and below it what is being done now."""

    def __init__(self, goal: Goal, live: Live) -> None:
        self._goal, self._live = goal, live
        self._attempts: dict[str, Attempt] = {}
        self._now = ""
        self._doing = ""

    def begin(self, number: int, most: int) -> None:
        self._now = f"attempt {number} of {most}: "
        self._show()

    def step(self, what: str) -> None:
        self._doing = what
        self._show()

    def attempt(self, attempt: Attempt) -> None:
        self._attempts[attempt.run_id] = attempt
        self._doing = ""
        self._show()

    def line(self, text: str) -> None:
        self._live.console.print(Text(text), soft_wrap=True)

    def _show(self) -> None:
        table = Table(title=Text(str(self._goal)), title_justify="left", expand=False)
        for name in ("#", "model"):
            table.add_column(name)
        for name in (self._goal.metric, "parameters"):
            table.add_column(name, justify="right")
        for name in ("planned by", "written by", "decision"):
            table.add_column(name)
        for each in self._attempts.values():
            numbers = _numbers(each, self._goal)
            cells = [
                str(each.iteration),
                each.model_name,
                *(number.split(" ")[-1] for number in numbers),
                each.plan_origin,
                each.code_origin,
                each.failure[:50] or each.decision,
            ]
            table.add_row(*(Text(cell) for cell in cells))
        doing = Text(f"{self._now}{self._doing} …" if self._doing else "", style="dim")
        self._live.update(Group(table, doing), refresh=True)


def _numbers(attempt: Attempt, goal: Goal) -> list[str]:
    values = attempt.values(goal.metric)
    shown = "/".join(f"{value:.4g}" for value in values) or "-"
    return [
        f"{goal.metric} {shown}",
        f"parameters {attempt.metrics_summary.get('parameters', '-')}",
    ]


@contextmanager
def progress(goal: Goal, console: Console | None = None) -> Iterator[Progress]:
    """The progress of a run on standard error: a table in a terminal, else lines."""
    told = console or Console(stderr=True, highlight=False)
    if not told.is_terminal:
        yield Lines(goal, told)
        return
    with Live(console=told, auto_refresh=False, transient=False) as live:
        yield LiveTable(goal, live)
    sys.stderr.flush()
