"""What a run has asked for so far: questions, tokens, seconds and dollars, from its answers alone.

Answers from a record count as they did when they were paid for, so that a replayed or resumed run
tells the same spend as the one that was recorded. A budget is the meter's business (`llm.Meter`).
"""

from __future__ import annotations

from collections.abc import Mapping

from genlab.agent.llm import Answer, Backend, Price, Question, UnansweredError

KEYS = ("questions", "tokens_in", "tokens_out", "seconds", "cost")


class Ledger:
    """A backend that counts what another one's answers took. spent: up to where it begins."""

    def __init__(
        self, backend: Backend, spent: Mapping[str, float] | None = None, price: Price | None = None
    ) -> None:
        self._backend = backend
        self._price = price or Price()
        self.spent = {key: (spent or {}).get(key, 0) for key in KEYS}

    @property
    def place(self) -> int:
        """The place in the transcript of the next question; 0 where there is no transcript."""
        return int(getattr(self._backend, "place", 0))

    def ask(self, question: Question) -> Answer:
        """The backend's answer, counted; so is a failure."""
        try:
            answer = self._backend.ask(question)
        except UnansweredError as end:
            self._count(end)
            raise
        self._count(answer)
        return answer

    def _count(self, end: Answer | UnansweredError) -> None:
        self.spent["questions"] += 1
        self.spent["tokens_in"] += end.tokens_in
        self.spent["tokens_out"] += end.tokens_out
        self.spent["seconds"] += end.seconds
        cost = end.tokens_in * self._price.tokens_in + end.tokens_out * self._price.tokens_out
        self.spent["cost"] += cost / 1e6
