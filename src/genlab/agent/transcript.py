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
import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genlab.agent.llm import (
    Answer,
    Backend,
    BudgetSpent,
    LLMFailure,
    MalformedError,
    Message,
    Meter,
    Purpose,
    Question,
    UnansweredError,
    excerpt,
    parse,
    redact,
)
from genlab.core.console import GenlabError

VERSION = 1
OUTCOMES: dict[str, type[UnansweredError]] = {"failure": LLMFailure, "budget": BudgetSpent}


class Line(BaseModel):
    """One finished question: `text` is the answer, or the reason why there is none.

    `seconds` include waits; tokens and seconds are those of all attempts. `key` is the digest of
    the question.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    version: Literal[1]
    place: int = Field(ge=0)
    key: str = Field(pattern="^[0-9a-f]{64}$")
    purpose: Purpose
    messages: list[Message]
    shape: str | None  # the schema's name
    max_tokens: int
    temperature: float
    outcome: Literal["answer", "failure", "budget"]
    text: str
    model: str
    tokens_in: int = Field(ge=0)
    tokens_out: int = Field(ge=0)
    seconds: float = Field(ge=0)
    attempts: int = Field(ge=0)


def digest(question: Question) -> str:
    """SHA-256 of everything in a question that could change its answer."""
    schema = question.schema.model_json_schema() if question.schema else None
    parts = [
        question.purpose,
        [[message["role"], message["content"]] for message in question.messages],
        schema,
        question.max_tokens,
        float(question.temperature),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def read(path: str | Path, say: Callable[[str], None] | None = None) -> list[Line]:
    """The lines of a transcript that hold, by place; a torn last line is dropped, and `say` told.

    Raises a `GenlabError` where any other line is damaged: what was paid for is never taken for
    absent.
    """
    every, _ = _read(Path(path), say or _to_stderr)
    return _standing(every)


class Recording:
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
        self._say = say or _to_stderr
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("ab")
        try:
            self._lock()
            every, whole = _read(self.path, self._say)
            self._file.truncate(whole)
            self._lines = _standing(every)
            if start > len(self._lines):
                raise GenlabError(
                    f"{self.path} holds {len(self._lines)} questions, the run goes on at {start};"
                    " restore the file, or begin a new run"
                )
        except BaseException:
            self.close()
            raise
        _sync_folder(self.path.parent)
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
                self._say(f"{_departure(self.path, line, question)}; asked anew from here on")
            elif line.outcome != "budget":  # a budget may have been raised since
                self.place += 1
                return _replayed(self.path, line, question)
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
        return _replayed(self.path, line, question)

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

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
                f"{_departure(self.path, line, question)}; record the run anew, or replay it with"
                " the params and the code it was recorded with"
            )
        if line.outcome != "budget":
            self.place += 1
        return _replayed(self.path, line, question)


def _clean(question: Question, secrets: Sequence[str]) -> Question:
    messages: list[Message] = [
        {"role": message["role"], "content": redact(message["content"], secrets)}
        for message in question.messages
    ]
    return replace(question, messages=messages)


def _replayed(path: Path, line: Line, question: Question) -> Answer:
    """What `line` holds for `question`: its answer, or the exception that stood for it."""
    if line.outcome != "answer":
        raise OUTCOMES[line.outcome](
            line.text,
            tokens_in=line.tokens_in,
            tokens_out=line.tokens_out,
            seconds=line.seconds,
            attempts=line.attempts,
        )
    try:
        parsed = parse(line.text, question.schema) if question.schema else None
    except MalformedError as error:
        raise GenlabError(
            f"{path}: the answer to question {line.place} does not fit {line.shape}: {error};"
            " record the run anew"
        ) from error
    return Answer(
        text=line.text,
        parsed=parsed,
        tokens_in=line.tokens_in,
        tokens_out=line.tokens_out,
        seconds=line.seconds,
        attempts=line.attempts,
        model=line.model,
    )


def _departure(path: Path, line: Line, question: Question) -> str:
    """Where `question` first differs from the recorded `line`, on one line."""
    head = f"{path}: question {line.place} departs from the recorded one in"
    pairs: list[tuple[str, Any, Any]] = [
        ("purpose", line.purpose, question.purpose),
        ("schema", line.shape, question.schema.__name__ if question.schema else None),
        ("max_tokens", line.max_tokens, question.max_tokens),
        ("temperature", line.temperature, question.temperature),
        ("the number of messages", len(line.messages), len(question.messages)),
    ]
    for name, recorded, asked in pairs:
        if recorded != asked:
            return f"{head} {name}: recorded {recorded}, asked {asked}"
    for number, (old, new) in enumerate(zip(line.messages, question.messages, strict=True)):
        if old["role"] != new["role"]:
            return f"{head} message {number}: recorded {old['role']}, asked {new['role']}"
        if old["content"] != new["content"]:
            at = _common(old["content"], new["content"])
            texts = (excerpt(repr(text["content"][at : at + 40]), length=60) for text in (old, new))
            return f"{head} message {number}, character {at}: recorded {', asked '.join(texts)}"
    return f"{head} the fields of schema {line.shape}"


def _common(one: str, other: str) -> int:
    """Length of the beginning that both have."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _read(path: Path, say: Callable[[str], None]) -> tuple[list[Line], int]:
    """Every whole line of the file in order, and how many bytes they are."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise GenlabError(
            f"{path} is missing; record it first, with a backend that asks a model"
        ) from error
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        say(f"{path}: dropped a torn last line of {len(data) - whole} bytes")
    lines: list[Line] = []
    for number, source in enumerate(data[:whole].splitlines(), start=1):
        try:
            lines.append(Line.model_validate_json(source))
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in fault["loc"])
            what = excerpt(f"{where}: {fault['msg']}" if where else fault["msg"])
            raise GenlabError(
                f"{path}: line {number} is damaged ({what});"
                " restore the file, or move it away to ask (and pay) anew"
            ) from error
    _standing(lines, path)
    return lines, whole


def _standing(lines: Sequence[Line], path: Path | None = None) -> list[Line]:
    """The last line of each place, without those that a later line at an earlier place undid."""
    standing: list[Line] = []
    for number, line in enumerate(lines, start=1):
        if line.place > len(standing):
            raise GenlabError(
                f"{path}: line {number} is question {line.place}, {len(standing)} was expected;"
                " restore the file, or move it away to ask (and pay) anew"
            )
        standing[line.place :] = [line]
    return standing


def _sync_folder(folder: Path) -> None:
    """Make a file's name durable, too; where a folder cannot be synced the file's content is."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _to_stderr(line: str) -> None:
    print(f"genlab: {line}", file=sys.stderr)
