"""What was asked and paid for is kept, replayed, and holds no secret."""

import errno
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from refusals import refused

from genlab.llm.chat import Answer, BudgetSpentError, LLMFailure
from genlab.llm.journal import Journal, read_entries


class Plan(BaseModel):
    """A small schema."""

    blocks: int


def message(text: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "You plan."}, {"role": "user", "content": text}]


class Scripted:
    """An endpoint that returns its outcomes in turn."""

    def __init__(self, *outcomes: str | Exception) -> None:
        self.outcomes = list(outcomes)
        self.questions = list[Any]()

    def ask(self, messages: Any, *, schema: Any = None, functions: Any = ()) -> Answer:
        self.questions.append(messages[-1]["content"])
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return Answer(outcome, None, (), "m", 10, 5, 0.5, 0.25)


ANSWERS = [f'{{"blocks": {number}}}' for number in (1, 2, 3)]
SPENT = {"tokens_in": 3, "tokens_out": 4, "seconds": 1.5, "cost": 0.5}


def open_journal(path: Path, backend: Scripted | None, **options: Any) -> Journal:
    """The journal of both roles; without a backend it is a replay."""
    endpoints: Any = backend and {"planning": backend, "tools": backend}
    return Journal(path, endpoints, **options)


def record(path: Path, backend: Scripted | None, *texts: str, **options: Any) -> list[Answer]:
    with open_journal(path, backend, **options) as journal:
        return [journal.ask("planning", message(text), schema=Plan) for text in texts]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "journal.jsonl"


def test_a_replay_and_a_resumed_run_give_the_same_answers(path: Path) -> None:
    answers = record(path, Scripted(*ANSWERS), "one", "two")
    assert answers[1].parsed == Plan(blocks=2)
    replayed = record(path, None, "one", "two")
    backend = Scripted(ANSWERS[2])
    resumed = record(path, backend, "one", "two", "three")
    assert answers == replayed == resumed[:2]
    assert backend.questions == ["three"]


def test_a_run_that_departs_is_asked_again_from_there(path: Path) -> None:
    notes: list[str] = []
    record(path, Scripted(*ANSWERS), "one", "two", "three")
    backend = Scripted('{"blocks": 8}', '{"blocks": 9}')
    record(path, backend, "one", "other", "three", note=notes.append)
    assert backend.questions == ["other", "three"]
    assert "departs from entry 1" in notes[0]
    assert record(path, None, "one", "other", "three")[2].parsed == Plan(blocks=9)


def test_a_replay_goes_on_with_other_words_and_notes_it_once(path: Path) -> None:
    notes: list[str] = []
    answers = record(path, Scripted(*ANSWERS), "loss 0.11", "loss 0.12")
    replayed = record(path, None, "loss 0.13", "loss 0.14", note=notes.append)
    assert (replayed, len(notes)) == (answers, 1)
    with refused(path):
        record(path, None, "1", "2", "3", note=notes.append)


def run_with_tools(path: Path, backend: Scripted | None, fail: bool = False) -> list[str]:
    """Ask, run a tool that asks twice, and a tool that asks nothing; returns executed tools."""
    executed: list[str] = []
    with open_journal(path, backend, note=lambda line: None) as journal:

        def tool(name: str, *asks: str) -> Callable[[], dict[str, Any]]:
            def produce() -> dict[str, Any]:
                executed.append(name)
                texts = [journal.ask("tools", message(text)).text for text in asks]
                if fail:
                    raise RuntimeError("killed")
                return {"result": " ".join([name, *texts])}

            return produce

        journal.ask("planning", message("which tool?"))
        first = journal.get_or_record("tool", {"name": "outer"}, tool("outer", "a", "b"))
        assert first == {"result": "outer A B"}
        journal.ask("planning", message("and now?"))
        journal.get_or_record("tool", {"name": "plain"}, tool("plain"))
        journal.ask("planning", message("done?"))
    return executed


def test_a_tool_that_asks_is_one_entry_after_its_questions(path: Path) -> None:
    backend = Scripted("1", "A", "B", "2", "3")
    with pytest.raises(RuntimeError):
        run_with_tools(path, backend, fail=True)
    assert run_with_tools(path, backend) == ["outer", "plain"]  # its questions are answered
    assert backend.outcomes == []
    assert run_with_tools(path, Scripted()) == []
    assert run_with_tools(path, None) == ["outer", "plain"]


def test_a_failure_that_ended_a_run_is_recorded_with_its_cost_and_asked_again(path: Path) -> None:
    notes: list[str] = []
    for backend in (Scripted(LLMFailure("it is down", **SPENT)), None):
        with pytest.raises(LLMFailure) as raised:
            record(path, backend, "one")
        assert raised.value.spent == SPENT
    assert len(path.read_bytes().splitlines()) == 1
    answers = record(path, Scripted(*ANSWERS), "one", note=notes.append)
    assert (answers[0].text, notes) == (ANSWERS[0], [])


def test_a_failure_that_a_run_went_on_after_is_not_asked_again(path: Path) -> None:
    for backend in (Scripted(LLMFailure("it is down", **SPENT), "on"), Scripted()):
        with open_journal(path, backend) as journal:
            with pytest.raises(LLMFailure):
                journal.ask("tools", message("one"))
            assert journal.ask("tools", message("two")).text == "on"


def test_a_spent_budget_is_asked_again_where_it_was_raised(path: Path) -> None:
    for _ in range(2):
        with pytest.raises(BudgetSpentError):
            record(path, Scripted(BudgetSpentError("no more", **SPENT)), "one")
    assert len(path.read_bytes().splitlines()) == 1  # the same stop again
    with pytest.raises(BudgetSpentError):
        record(path, None, "one")
    assert record(path, Scripted(*ANSWERS), "one") == record(path, None, "one")


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_an_incomplete_last_line_is_dropped(path: Path, cut: int) -> None:
    notes: list[str] = []
    record(path, Scripted(*ANSWERS), "one", "two")
    content = path.read_bytes()
    path.write_bytes(content[:-cut])
    backend = Scripted(ANSWERS[1])
    record(path, backend, "one", "two", note=notes.append)
    assert "incomplete last line" in notes[0]
    assert backend.questions == ["two"]
    assert path.read_bytes() == content


def test_a_full_disk_leaves_no_part_of_an_entry(path: Path) -> None:
    record(path, Scripted(*ANSWERS), "one")
    content = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_journal(path, Scripted(*ANSWERS)) as journal:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(content) + 50, limits[1]))
        try:
            with pytest.raises(OSError) as raised:  # noqa: PT011
                journal.get_or_record("tool", {"name": "a"}, lambda: {"result": "x" * 100})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert raised.value.errno == errno.ENOSPC
    assert path.read_bytes() == content


@pytest.mark.parametrize("damage", [b"\x00\x00\n", b"{}\n", b"[]\n", b"\xff\n", b"\n"])
def test_damage_before_the_end_is_one_line_and_nothing_is_lost(path: Path, damage: bytes) -> None:
    record(path, Scripted(*ANSWERS), "one")
    content = damage + path.read_bytes()
    path.write_bytes(content)
    for backend in (Scripted(), None):
        with refused(path, "line 1"):
            open_journal(path, backend)
    assert path.read_bytes() == content


def test_a_journal_that_is_written_can_be_read_and_not_written(path: Path) -> None:
    assert read_entries(path) == []
    with open_journal(path, Scripted("fine")) as journal:
        journal.ask("tools", message("one"))
        (entry,) = read_entries(path)
        with refused(path):
            open_journal(path, Scripted())
    assert (entry.request["role"], entry.request["messages"]) == ("tools", message("one"))
    open_journal(path, Scripted()).__exit__()


def test_no_secret_is_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "open-sesame-please")
    leaks = "open-sesame-please sk-abcdefgh12345678 given-by-hand"
    with open_journal(path, Scripted(f"I know {leaks}"), secrets=["given-by-hand"]) as journal:
        answer = journal.ask("tools", message(leaks))
        journal.get_or_record("tool", {"name": leaks}, lambda: {"result": leaks})
    assert answer.text == "I know [redacted] [redacted] [redacted]"
    content = path.read_text(encoding="utf-8")
    for secret in ("open-sesame", "12345678", "given-by-hand"):
        assert secret not in content
