"""Record of every answered question and every tool call, by which a run is resumed and replayed.

A restarted run begins at its first step again; what it asks the same is answered from here. An
entry is on the disk before its value is used. Not protected: a question whose answer was on its way
when the process was killed (it is asked, and paid for, again), and entries that a person edits.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from genlab.core.errors import GenlabError
from genlab.core.text import map_strings
from genlab.llm.answers import MalformedError, parse
from genlab.llm.chat import (
    Answer,
    Backend,
    BudgetSpentError,
    LLMFailure,
    ToolCall,
    UnansweredError,
)
from genlab.llm.endpoint import NOTHING, Functions, Message, Messages, Role, Schema
from genlab.llm.redaction import excerpt, redact


class Entry(BaseModel):
    """A line of the file.

    position: place in the run, from 0; an entry supersedes those from its position on. start: the
    position of the first question that its production asked, its own where it asked none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    version: Literal[2] = 2
    position: int = Field(ge=0)
    start: int = Field(ge=0)
    kind: str
    digest: str
    request: Any
    value: dict[str, Any]


class Journal(AbstractContextManager["Journal"]):
    """Append-only file of entries, one JSON object per line, for one writer and one thread.

    replay: answers come from the file alone, which is not written. secrets: redacted beside the
    environment's. Raises a GenlabError where the file is damaged, or another process writes it.
    """

    def __init__(
        self,
        path: Path,
        *,
        replay: bool = False,
        note: Callable[[str], None] = print,
        secrets: Sequence[str] = (),
    ) -> None:
        self.path, self.replay, self.secrets = Path(path), replay, tuple(secrets)
        self.position = 0
        self._note, self._noted = note, False
        if replay and not self.path.is_file():
            raise GenlabError(f"{path} is missing; name a recorded journal", path=path)
        if not replay:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("rb" if replay else "ab+", buffering=0)
        try:
            self._lock()
            self.all_entries = self._read()
        except BaseException:
            self._file.close()
            raise
        self.entries = list[Entry]()
        for entry in self.all_entries:
            self.entries[entry.position :] = [entry]

    def remember(
        self,
        kind: str,
        request: Any,
        produce: Callable[[], dict[str, Any]],
        *,
        shown: Any = None,
    ) -> dict[str, Any]:
        """The recorded value for `request` at this position of the run, or that of `produce`.

        `produce` may call `remember` itself. shown: what is recorded of the request, all of it by
        default. A spent budget may have been raised, so it is asked again. In a replay only values
        of kind `answer` come from the file. Secrets are redacted. Raises a GenlabError where a
        replayed run asks for more, or for something else.
        """
        request = self._redact(request)
        digest = hashlib.sha256(json.dumps([kind, request], sort_keys=True).encode()).hexdigest()
        start = self.position
        if self.replay:
            return self._replay(kind, digest, produce)
        for entry in self.entries[start:]:
            if entry.start == start and (entry.kind, entry.digest) == (kind, digest):
                if entry.value.get("outcome") == "budget":
                    break
                self.position = entry.position + 1
                return entry.value
        else:
            if kind == "answer" and start < len(self.entries):
                self._note(f"{self.path}: the run departs from entry {start}; asking again")
        value = self._redact(produce())  # first: it may move the position
        fields = {"position": self.position, "start": start, "kind": kind, "digest": digest}
        shown = request if shown is None else self._redact(shown)
        entry = Entry(**fields, request=shown, value=value)
        if self.entries[self.position : self.position + 1] != [entry]:
            self._append(entry)
        self.position += 1
        return entry.value

    def _replay(
        self, kind: str, digest: str, produce: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        value = produce() if kind != "answer" else {}
        entry = self.entries[self.position] if self.position < len(self.entries) else None
        if entry is None or entry.kind != kind:
            found = f"has kind {entry.kind} there" if entry else "ends there"
            raise GenlabError(
                f"{self.path}: the run asks for entry {self.position} of kind {kind}, the record"
                f" {found}; replay it with the params and the code it was recorded with"
            )
        if entry.digest != digest and not self._noted:
            self._noted = True
            self._note(
                f"{self.path}: entry {self.position} was recorded for other words or numbers; the"
                " recorded answers are used"
            )
        self.position += 1
        return entry.value if kind == "answer" else value

    def _redact(self, value: Any) -> Any:
        return map_strings(value, lambda text: redact(text, self.secrets))

    def _append(self, entry: Entry) -> None:
        line = entry.model_dump_json().encode() + b"\n"
        written = self._file.write(line)
        if written < len(line):  # a disk that is full takes a part, which must not stay
            os.ftruncate(self._file.fileno(), os.fstat(self._file.fileno()).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        os.fsync(self._file.fileno())
        self.all_entries.append(entry)
        self.entries[entry.position :] = [entry]

    def _lock(self) -> None:
        try:
            if not self.replay:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise GenlabError(
                f"{self.path} is written by another run; wait for it or stop it", path=self.path
            ) from error

    def _read(self) -> list[Entry]:
        """All entries; a last line that is incomplete is dropped."""
        self._file.seek(0)
        content = self._file.read()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            self._note(f"{self.path}: dropped an incomplete last line")
            if not self.replay:
                self._file.truncate(complete)
        entries: list[Entry] = []
        for number, line in enumerate(content[:complete].splitlines(), 1):
            try:
                entry = Entry.model_validate_json(line)
                if entry.position > (entries[-1].position + 1 if entries else 0):
                    raise ValueError(f"position {entry.position} has none before it")
            except ValueError as error:
                fix = "restore the file, or move it away to ask (and pay) again"
                raise GenlabError(
                    f"{self.path}: line {number} is damaged ({excerpt(str(error))}); {fix}",
                    path=self.path,
                ) from error
            entries.append(entry)
        return entries

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_entries(path: Path) -> list[dict[str, Any]]:
    """The entries of a journal, also while a run writes it; none where there is no file.

    `messages` of a request are those that the question before did not have; `same` counts the rest.
    """
    if not Path(path).is_file():
        return []
    with Journal(path, replay=True, note=lambda line: None) as journal:
        return [entry.model_dump() for entry in journal.entries]


class Recorded:
    """A backend whose answers and failures are recorded in a journal, and come from it.

    What is handed on is what the record says, so that a replay hands on the same. backend: None in
    a replay.
    """

    def __init__(self, backend: Backend | None, journal: Journal) -> None:
        self._backend, self._journal = backend, journal
        self._last: list[Message] = []

    def ask(
        self, role: Role, messages: Messages, *, schema: Schema = None, functions: Functions = ()
    ) -> Answer:
        """Answer from the record, or ask and record. Raises what the backend raises."""
        asked = [dict(message) for message in messages]
        pairs = zip(self._last, asked, strict=False)
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        self._last = asked
        head = {
            "role": role,
            "schema": schema.__name__ if schema else "",
            "functions": [each["function"]["name"] for each in functions],
        }
        fields = schema.model_json_schema() if schema else {}
        value = self._journal.remember(
            "answer",
            [head, fields, asked],
            lambda: self._produce(role, messages, schema, functions),
            shown={**head, "same": same, "messages": asked[same:]},
        )
        return self._restore(value, schema)

    def _produce(
        self, role: Role, messages: Messages, schema: Schema, functions: Functions
    ) -> dict[str, Any]:
        assert self._backend is not None  # a replay produces no answer
        try:
            answer = self._backend.ask(role, messages, schema=schema, functions=functions)
        except UnansweredError as error:
            outcome = "budget" if isinstance(error, BudgetSpentError) else "failure"
            return {"outcome": outcome, "reason": error.reason, **error.spent}
        fields = {k: v for k, v in vars(answer).items() if k != "parsed"}
        return {"outcome": "answer", **fields, "calls": [asdict(call) for call in answer.calls]}

    def _restore(self, value: dict[str, Any], schema: Schema) -> Answer:
        spent = {name: value[name] for name in NOTHING}
        if value["outcome"] != "answer":
            kind = BudgetSpentError if value["outcome"] == "budget" else LLMFailure
            raise kind(value["reason"], **spent)
        calls = tuple(ToolCall(**call) for call in value["calls"])
        try:
            parsed = parse(value["text"], schema) if schema and not calls else None
        except MalformedError as error:  # a secret was in it, or the schema is another one
            raise LLMFailure(f"the recorded answer cannot be used: {error}") from error
        return Answer(value["text"], parsed, calls, value["model"], **spent)
