"""Journal of every answered question and every tool call, from which a run resumes or replays.

A restarted run begins at its first step again; questions that it asked before are answered from the
journal. An entry is on disk before its value is used. Not protected: a question whose answer was on
its way when the process was killed (it is asked, and paid for, again), and entries that a person
edits.
"""

import errno
import fcntl
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from genlab.core.errors import GenlabError
from genlab.llm import chat, failures
from genlab.llm.answers import MalformedError, ToolCall, parse
from genlab.llm.redaction import excerpt, redact_strings

FAILURES = {"failure": failures.LLMFailure, "budget": failures.BudgetSpentError}


class Entry(BaseModel):
    """A line of the file. kind: answer or tool.

    Lines of older versions of genlab have more fields, which are not needed.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    version: Literal[2] = 2
    kind: str
    request: dict[str, Any]
    value: dict[str, Any]


class Journal(AbstractContextManager["Journal"]):
    """Backend that records answers and failures in a file, and answers from it.

    The file is append-only, with one JSON object per line, for one writer and one thread.
    endpoints: None for a replay, which answers from the file alone and does not write it. secrets:
    redacted in addition to the environment's. position: number of entries that the run has passed.
    Raises a GenlabError where the file is damaged, or another process writes it.
    """

    def __init__(
        self,
        path: Path,
        endpoints: Mapping[chat.Role, chat.Endpoint] | None = None,
        *,
        note: Callable[[str], None] = print,
        secrets: Sequence[str] = (),
    ) -> None:
        self.path = Path(path)
        self.position = 0
        self._endpoints = endpoints
        self._note = note
        self._secrets = secrets
        self._noted = False
        self._replay = endpoints is None
        if self._replay and not self.path.is_file():
            raise GenlabError(f"{path} is missing; name a recorded journal", path=path)
        if not self._replay:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("rb" if self._replay else "ab+", buffering=0)
        try:
            if not self._replay:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.entries = self._read()
        except BaseException as error:
            self._file.close()
            if not isinstance(error, BlockingIOError):
                raise
            fault = f"{self.path} is written by another run; wait for it or stop it"
            raise GenlabError(fault, path=self.path) from error

    def ask(
        self,
        role: chat.Role,
        messages: chat.Messages,
        *,
        schema: chat.Schema = None,
        functions: chat.Functions = (),
    ) -> chat.Answer:
        """Answer from the journal, or ask the endpoint and record its answer.

        Raises what the endpoint raises.
        """
        request = {
            "role": role,
            "schema": schema.__name__ if schema else "",
            "functions": [function["function"]["name"] for function in functions],
            "messages": list(messages),
        }

        def produce() -> dict[str, Any]:
            assert self._endpoints is not None  # a replay produces no answer
            try:
                endpoint = self._endpoints[role]
                answer = endpoint.ask(messages, schema=schema, functions=functions)
            except failures.UnansweredError as error:
                outcome = next(name for name, kind in FAILURES.items() if isinstance(error, kind))
                return {"outcome": outcome, "reason": error.reason, **error.spent}
            fields = {name: field for name, field in vars(answer).items() if name != "parsed"}
            return {"outcome": "answer", **fields, "calls": [asdict(call) for call in answer.calls]}

        value = self.get_or_record("answer", request, produce)
        spent = {name: value[name] for name in failures.ZERO_USAGE}
        if kind := FAILURES.get(value["outcome"]):
            raise kind(value["reason"], **spent)
        calls = tuple(ToolCall(**call) for call in value["calls"])
        try:
            parsed = parse(value["text"], schema) if schema and not calls else None
        except MalformedError as error:  # a secret was in it, or the schema is another one
            reason = f"the recorded answer cannot be used: {error}"
            raise failures.LLMFailure(reason) from error
        return chat.Answer(value["text"], parsed, calls, value["model"], **spent)

    def get_or_record(
        self, kind: str, request: dict[str, Any], produce: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Return the next recorded value for `request`, or record what `produce` returns.

        `produce` may call `get_or_record` itself. Entries that are skipped are not needed again:
        they are the questions of a tool that has ended, or of a path that the run has left. The
        question at which the budget was spent, or with whose failure the record ends, is asked
        again, since the limit may have been raised and the endpoint be up again. In a replay, tools
        are called again; where words or numbers differ, the next answer to the same role and schema
        is used. Secrets are redacted. Raises a GenlabError where a replay lacks an answer.
        """
        if self._replay and kind == "tool":
            return produce()
        request = redact_strings(request, self._secrets)
        recorded = self._find(kind, request)
        if recorded is not None:
            return recorded.value
        if self._replay:
            return self._find_similar(request).value
        if (
            kind == "answer"
            and self.position < len(self.entries)
            and not self._ends(self.entries[-1])
        ):
            self._note(f"{self.path}: the run departs from entry {self.position}; asking again")
        entry = Entry(kind=kind, request=request, value=redact_strings(produce(), self._secrets))
        if self.entries[-1:] != [entry]:  # the budget is spent at the same place again
            self._append(entry)
        self.position = len(self.entries)
        return entry.value

    def sum_spent(self, entries: int | None = None) -> dict[str, float]:
        """Sum questions, tokens, seconds and cost of the first `entries`, or of all."""
        values = [entry.value for entry in self.entries[:entries] if entry.kind == "answer"]
        sums = {name: sum(value[name] for value in values) for name in failures.ZERO_USAGE}
        return {"questions": len(values), **sums}

    @property
    def spent(self) -> dict[str, float]:
        """Sums up to this position of the run, with the original cost of recorded answers."""
        return self.sum_spent(self.position)

    def _find(self, kind: str, fields: dict[str, Any]) -> Entry | None:
        """Find the next entry whose request has these fields, and move the position behind it."""
        for number, entry in enumerate(self.entries[self.position :], self.position + 1):
            is_end = self._replay and number == len(self.entries)
            fits = entry.kind == kind and fields.items() <= entry.request.items()
            if fits and (is_end or not self._ends(entry)):
                self.position = number
                return entry
        return None

    def _ends(self, entry: Entry) -> bool:
        """Whether an entry records why a run has ended: a spent budget, or a failure at the end."""
        outcome = entry.value.get("outcome")
        return outcome == "budget" or (outcome == "failure" and entry is self.entries[-1])

    def _find_similar(self, request: dict[str, Any]) -> Entry:
        """Find the next answer to the same role and schema, for a replay."""
        entry = self._find("answer", {name: request[name] for name in ("role", "schema")})
        if entry is None:
            fix = "replay it with the params and the code it was recorded with"
            raise GenlabError(f"{self.path}: the run asks for more than is recorded; {fix}")
        if not self._noted:
            self._noted = True
            self._note(
                f"{self.path}: entry {self.position - 1} was recorded for other words or numbers;"
                " the recorded answers are used"
            )
        return entry

    def _append(self, entry: Entry) -> None:
        line = entry.model_dump_json().encode() + b"\n"
        end = self._file.seek(0, os.SEEK_END)
        if self._file.write(line) < len(line):  # the disk is full
            self._file.truncate(end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        os.fsync(self._file.fileno())
        self.entries.append(entry)

    def _read(self) -> list[Entry]:
        """Read all entries; an incomplete last line is dropped."""
        self._file.seek(0)
        content = self._file.read()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):
            self._note(f"{self.path}: dropped an incomplete last line")
            if not self._replay:
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
    """Read the entries of a journal, even while a run writes it; none where there is no file."""
    if not Path(path).is_file():
        return []
    with Journal(path, note=lambda line: None) as journal:
        return journal.entries
