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
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from genlab.core.errors import GenlabError
from genlab.core.text import map_strings
from genlab.llm.answers import MalformedError, ToolCall, parse
from genlab.llm.chat import Answer, Backend, BudgetSpentError, LLMFailure, UnansweredError
from genlab.llm.endpoint import NOTHING, Functions, Messages, Role, Schema
from genlab.llm.redaction import excerpt, redact


class Entry(BaseModel):
    """A line of the file. kind: answer or tool. digest: of kind and request, by which it is found.

    Lines of older versions of genlab have more fields, which are not needed.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    version: Literal[2] = 2
    kind: str
    digest: str
    request: dict[str, Any]
    value: dict[str, Any]

    @property
    def is_budget(self) -> bool:
        """Whether it records that a budget was spent."""
        return self.value.get("outcome") == "budget"


class Journal(AbstractContextManager["Journal"]):
    """Append-only file of entries, one JSON object per line, for one writer and one thread.

    position: entries up to which the run has come. replay: answers come from the file alone, which
    is not written. secrets: redacted beside the environment's. Raises a GenlabError where the file
    is damaged, or another process writes it.
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
            self.entries = self._read()
        except BaseException:
            self._file.close()
            raise

    def remember(
        self, kind: str, request: dict[str, Any], produce: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """The next recorded value for `request`, or that of `produce`, which is recorded.

        `produce` may call `remember` itself. Entries that are passed over are not needed again: the
        questions of a tool that has ended, or a way that the run has left. A budget may have been
        raised, so the question at which it was spent is asked again. In a replay tools are called
        again. Secrets are redacted. Raises a GenlabError where a replay lacks an answer.
        """
        request = self._redact(request)
        digest = hashlib.sha256(json.dumps([kind, request], sort_keys=True).encode()).hexdigest()
        if self.replay:
            return produce() if kind != "answer" else self._replay(digest, request)
        if found := self._find(lambda entry: entry.digest == digest):
            return found.value
        if (
            kind == "answer"
            and self.position < len(self.entries)
            and not self.entries[-1].is_budget
        ):
            self._note(f"{self.path}: the run departs from entry {self.position}; asking again")
        entry = Entry(kind=kind, digest=digest, request=request, value=self._redact(produce()))
        if self.entries[-1:] != [entry]:  # the budget is spent at the same place again
            self._append(entry)
        self.position = len(self.entries)
        return entry.value

    def _replay(self, digest: str, request: dict[str, Any]) -> dict[str, Any]:
        """The next answer to the same question, or else to one of the same role and schema."""
        head = {name: request[name] for name in ("role", "schema")}
        if found := self._find(lambda entry: entry.digest == digest):
            return found.value
        found = self._find(lambda each: head.items() <= each.request.items())
        if found is None:
            raise GenlabError(
                f"{self.path}: the run asks for more than is recorded; replay it with the params"
                " and the code it was recorded with"
            )
        if not self._noted:
            self._noted = True
            self._note(
                f"{self.path}: entry {self.position - 1} was recorded for other words or numbers;"
                " the recorded answers are used"
            )
        return found.value

    def _find(self, fits: Callable[[Entry], bool]) -> Entry | None:
        """The next entry that fits, to which the run comes; None where there is none."""
        for number, entry in enumerate(self.entries[self.position :], self.position + 1):
            is_end = self.replay and number == len(self.entries)
            if fits(entry) and (not entry.is_budget or is_end):
                self.position = number
                return entry
        return None

    def _redact(self, value: Any) -> Any:
        return map_strings(value, lambda text: redact(text, self.secrets))

    def _append(self, entry: Entry) -> None:
        line = entry.model_dump_json().encode() + b"\n"
        written = self._file.write(line)
        if written < len(line):  # a disk that is full takes a part, which must not stay
            os.ftruncate(self._file.fileno(), os.fstat(self._file.fileno()).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        os.fsync(self._file.fileno())
        self.entries.append(entry)

    def _lock(self) -> None:
        try:
            if not self.replay:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            fault = f"{self.path} is written by another run; wait for it or stop it"
            raise GenlabError(fault, path=self.path) from error

    def _read(self) -> list[Entry]:
        """All entries; a last line that is incomplete is dropped."""
        self._file.seek(0)
        content = self._file.read()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            self._note(f"{self.path}: dropped an incomplete last line")
            if not self.replay:
                self._file.truncate(complete)
        entries = list[Entry]()
        for number, line in enumerate(content[:complete].splitlines(), 1):
            try:
                entries.append(Entry.model_validate_json(line))
            except ValueError as error:
                fault = f"{self.path}: line {number} is damaged ({excerpt(str(error))})"
                fix = "restore the file, or move it away to ask (and pay) again"
                raise GenlabError(f"{fault}; {fix}", path=self.path) from error
        return entries

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_entries(path: Path) -> list[Entry]:
    """The entries of a journal, also while a run writes it; none where there is no file."""
    if not Path(path).is_file():
        return []
    with Journal(path, replay=True, note=lambda line: None) as journal:
        return journal.entries


class Recorded:
    """A backend whose answers and failures are recorded in a journal, and come from it.

    What is handed on is what the record says, so that a replay hands on the same. backend: None in
    a replay.
    """

    def __init__(self, backend: Backend | None, journal: Journal) -> None:
        self._backend, self._journal = backend, journal

    def ask(
        self, role: Role, messages: Messages, *, schema: Schema = None, functions: Functions = ()
    ) -> Answer:
        """Answer from the record, or ask and record. Raises what the backend raises."""
        request = {
            "role": role,
            "schema": schema.__name__ if schema else "",
            "functions": [each["function"]["name"] for each in functions],
            "messages": list(messages),
        }

        def produce() -> dict[str, Any]:
            assert self._backend is not None  # a replay produces no answer
            try:
                answer = self._backend.ask(role, messages, schema=schema, functions=functions)
            except UnansweredError as error:
                outcome = "budget" if isinstance(error, BudgetSpentError) else "failure"
                return {"outcome": outcome, "reason": error.reason, **error.spent}
            fields = {name: each for name, each in vars(answer).items() if name != "parsed"}
            return {"outcome": "answer", **fields, "calls": [asdict(call) for call in answer.calls]}

        return _restore(self._journal.remember("answer", request, produce), schema)


def _restore(value: dict[str, Any], schema: Schema) -> Answer:
    """The recorded answer. Raises the failure that is recorded instead."""
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
