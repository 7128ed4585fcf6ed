"""The record of every question and answer: one line of JSON each, by which a run is replayed.

A line is written, to the disk, before its answer is handed on, and what is handed on is what the
line holds: so a replay gives the loop the same bytes as the run that was recorded, and a killed run
pays for no finished question twice. What is not protected: a question whose answer was on its way
when the process was killed (it is asked, and paid for, again), and lines that a person edits.

Each line carries its place, the number of the question in the run from 0. A line takes the place of
what stood at its place and after it: that is how a run goes on past a budget that was raised, or
departs from an older run, in a file that is only ever appended to.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel

from genlab.agent.llm import (
    Answer,
    Backend,
    BudgetSpent,
    LLMFailure,
    MalformedError,
    Message,
    Meter,
    Question,
    UnansweredError,
    parse,
    redact,
)
from genlab.agent.transcript_lines import (
    VERSION,
    Line,
    departure,
    digest,
    in_force,
    read,
    read_whole,
    replayed,
    to_stderr,
)
from genlab.core.errors import GenlabError

__all__ = ["Line", "Recording", "Replay", "digest", "read"]


class Recording(AbstractContextManager["Recording"]):
    """A backend that records another one, and answers from the record what was asked before.

    `start` is the place in the run of the first question: `place` of the process that was killed,
    as it was when the work since then was last saved. `meter` is given what all lines of the file
    have cost, so that a budget holds over kills. `secrets` are redacted beside the environment's.
    One process at a time: raises a `GenlabError` where another one records in the file.
    """

    def __init__(
        self,
        backend: Backend,
        path: str | Path,
        *,
        start: int = 0,
        meter: Meter | None = None,
        secrets: Sequence[str] = (),
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self.place = start
        self.asked = 0  # questions that went to the backend
        self._backend = backend
        self._secrets = tuple(secrets)
        self._say = say or to_stderr
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("ab")
        try:
            self._lock()
            every, whole = read_whole(self.path, self._say)
            self._file.truncate(whole)
            self._lines = in_force(every)
            if start > len(self._lines):
                raise GenlabError(
                    f"{self.path} holds {len(self._lines)} questions, the run goes on at {start};"
                    " restore the file, or begin a new run"
                )
        except BaseException:
            self.close()
            raise
        for line in every if meter else ():
            assert meter is not None
            meter.add(line.purpose, line.tokens_in, line.tokens_out, line.seconds)

    def ask(self, question: Question) -> Answer:
        """Answer from the record, or ask and record; raises what the backend raises."""
        question = _clean(question, self._secrets)
        key = digest(question)
        if self.place < len(self._lines):
            line = self._lines[self.place]
            if line.key != key:
                self._say(f"{departure(self.path, line, question)}; asked again from here on")
            elif line.outcome != "budget":  # a budget may have been raised since
                self.place += 1
                return replayed(self.path, line, question)
        return self._asked(question, key)

    def _asked(self, question: Question, key: str) -> Answer:
        self.asked += 1
        try:
            answer = self._backend.ask(question)
        except (LLMFailure, BudgetSpent) as end:
            outcome = "failure" if isinstance(end, LLMFailure) else "budget"
            line = self._line(question, key, outcome, end.reason, "", end)
            standing = self._lines[self.place : self.place + 1]
            if outcome == "budget" and standing and standing[0] == line:
                raise  # the same stop again: said already
        else:
            line = self._line(question, key, "answer", answer.text, answer.model, answer)
            if question.schema is not None:
                line = self._still_fitting(line, question.schema)
        self._append(line)
        if line.outcome != "budget":
            self.place += 1
        return replayed(self.path, line, question)

    def _line(
        self,
        question: Question,
        key: str,
        outcome: str,
        text: str,
        model: str,
        spent: Answer | UnansweredError,
    ) -> Line:
        return Line.model_validate(
            {
                "version": VERSION,
                "place": self.place,
                "key": key,
                "purpose": question.purpose,
                "messages": list(question.messages),
                "shape": question.schema.__name__ if question.schema else None,
                "max_tokens": question.max_tokens,
                "temperature": question.temperature,
                "outcome": outcome,
                "text": redact(text, self._secrets),
                "model": redact(model, self._secrets),
                "tokens_in": spent.tokens_in,
                "tokens_out": spent.tokens_out,
                "seconds": spent.seconds,
                "attempts": spent.attempts,
            }
        )

    def _still_fitting(self, line: Line, schema: type[BaseModel]) -> Line:
        """`line`, or a failure where the answer does not fit its schema without its secrets."""
        try:
            parse(line.text, schema)
        except MalformedError as error:
            reason = f"the answer does not fit {schema.__name__} as recorded: {error}"
            return line.model_copy(update={"outcome": "failure", "text": reason})
        return line

    def _append(self, line: Line) -> None:
        data = line.model_dump_json().encode() + b"\n"
        before = os.fstat(self._file.fileno()).st_size
        try:
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), before)
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._lines[self.place :] = [line]

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise GenlabError(
                f"{self.path} is being written by another run; wait for it or end it"
            ) from error

    def close(self) -> None:
        """Let the file go."""
        with suppress(OSError):  # what a failed write left in the buffer is not the record's
            self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class Replay:
    """A backend that answers from a transcript alone, in order, byte for byte.

    Raises a `GenlabError` of one line where the run asks something else, or more, than the
    recorded one did.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        start: int = 0,
        secrets: Sequence[str] = (),
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.path = Path(path)
        self.place = start
        self._secrets = tuple(secrets)
        self._lines = read(self.path, say)

    @property
    def left(self) -> int:
        """Recorded questions that were not asked yet."""
        return max(0, len(self._lines) - self.place)

    def ask(self, question: Question) -> Answer:
        """The recorded answer; raises the recorded failure, or a `GenlabError` at a departure."""
        question = _clean(question, self._secrets)
        if self.place >= len(self._lines):
            raise GenlabError(
                f"{self.path} ends after {len(self._lines)} questions, the run asks one more"
                " (was the recorded run killed?); record it to its end, or replay with the params"
                " and the code it was recorded with"
            )
        line = self._lines[self.place]
        if line.key != digest(question):
            raise GenlabError(
                f"{departure(self.path, line, question)}; record the run again, or replay it with"
                " the params and the code it was recorded with"
            )
        if line.outcome != "budget":
            self.place += 1
        return replayed(self.path, line, question)


def _clean(question: Question, secrets: Sequence[str]) -> Question:
    messages: list[Message] = [
        {"role": message["role"], "content": redact(message["content"], secrets)}
        for message in question.messages
    ]
    return replace(question, messages=messages)
