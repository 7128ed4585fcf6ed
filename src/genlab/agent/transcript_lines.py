"""A line of the transcript: what it holds, how it is read, and how a question departs from it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genlab.agent.llm import (
    Answer,
    BudgetSpent,
    LLMFailure,
    MalformedError,
    Message,
    Purpose,
    Question,
    UnansweredError,
    excerpt,
    parse,
)
from genlab.core.errors import GenlabError

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
    every, _ = read_whole(Path(path), say or to_stderr)
    return in_force(every)


def replayed(path: Path, line: Line, question: Question) -> Answer:
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
            " record the run again"
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


def departure(path: Path, line: Line, question: Question) -> str:
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


def read_whole(path: Path, say: Callable[[str], None]) -> tuple[list[Line], int]:
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
                " restore the file, or move it away to ask (and pay) again"
            ) from error
    in_force(lines, path)
    return lines, whole


def in_force(lines: Sequence[Line], path: Path | None = None) -> list[Line]:
    """The last line of each place, without those that a later line at an earlier place undid."""
    standing: list[Line] = []
    for number, line in enumerate(lines, start=1):
        if line.place > len(standing):
            raise GenlabError(
                f"{path}: line {number} is question {line.place}, {len(standing)} was expected;"
                " restore the file, or move it away to ask (and pay) again"
            )
        standing[line.place :] = [line]
    return standing


def to_stderr(line: str) -> None:
    print(f"genlab: {line}", file=sys.stderr)
