"""Progress of a run: a line per event."""

from __future__ import annotations

import sys

from genlab.agent.goals import Goal
from genlab.agent.registry import Attempt


class Progress:
    """Reports nothing; `Lines` prints."""

    def begin(self, number: int, most: int) -> None:
        """Attempt `number` of at most `most` begins."""
        self.note(f"attempt {number} of {most}")

    def step(self, what: str) -> None:
        """What is being done now."""
        self.note(f"  {what}")

    def attempt(self, attempt: Attempt) -> None:
        """An attempt is decided on, now or in an earlier process of this run."""

    def note(self, text: str) -> None:
        """Anything else that a person should know."""


class Lines(Progress):
    """Prints a line per event on standard error."""

    def __init__(self, goal: Goal) -> None:
        self.metric = goal.metric

    def attempt(self, attempt: Attempt) -> None:
        size = f"{attempt.parameters:,} parameters" if attempt.parameters else "no model"
        shown = attempt.failure or f"{self.metric} {attempt.show(self.metric)}, {size}"
        origin = f"planned by {attempt.origin}, code by {attempt.code_origin or 'nobody'}"
        self.note(f"attempt {attempt.number}: {shown}; {origin}; {attempt.verdict}")

    def note(self, text: str) -> None:
        print(" ".join(text.split("\n")), file=sys.stderr, flush=True)
