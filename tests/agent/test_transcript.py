"""What was asked and paid for is kept, replayed byte for byte, and holds no secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_runs import Scripted
from pydantic import BaseModel

pytest.importorskip("openai", reason="the package openai is not installed")


from genlab.agent.candidate import Constraints
from genlab.agent.goal import goal
from genlab.agent.llm import Answer, Budget, BudgetSpent, LLMFailure, Meter, Question
from genlab.agent.planner import ask_for_proposal
from genlab.agent.proposal import proposal_in
from genlab.agent.transcript import Recording, Replay, read
from genlab.agent.transcript_lines import digest
from genlab.core.errors import GenlabError
from genlab.core.params import load_params


class Plan(BaseModel):
    """A small schema."""

    blocks: int


def question(text: str, **options: Any) -> Question:
    return Question("planning", [{"role": "user", "content": text}], Plan, **options)


ANSWERS = [f'{{"blocks": {number}}}' for number in (1, 2, 3)]
FIRST, SECOND, THIRD = question("one"), question("two"), question("three")


def record(path: Path, *questions: Question) -> list[Answer]:
    """The answers that a recording at `path` gives."""
    with Recording(Scripted(*ANSWERS), path) as recording:
        return [recording.ask(item) for item in questions]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "transcript.jsonl"


@pytest.fixture
def said() -> list[str]:
    return []


def test_a_replay_gives_the_same_answers_without_a_backend(path: Path) -> None:
    answers = record(path, FIRST, SECOND)
    replay = Replay(path)
    assert replay.left == 2
    assert [replay.ask(item) for item in (FIRST, SECOND)] == answers
    assert answers[1].parsed == Plan(blocks=2)
    assert replay.left == 0


def test_a_resumed_run_does_not_ask_again(path: Path) -> None:
    recorded = record(path, FIRST, SECOND)
    backend = Scripted(*ANSWERS)
    with Recording(backend, path) as recording:
        again = [recording.ask(item) for item in (FIRST, SECOND)]
        recording.ask(THIRD)
    assert again == recorded
    assert [item.messages for item in backend.asked] == [THIRD.messages]
    assert recording.asked == 1


def test_a_run_that_departs_is_asked_again_and_says_so(path: Path, said: list[str]) -> None:
    record(path, FIRST, SECOND, THIRD)
    backend = Scripted('{"blocks": 9}')
    with Recording(backend, path, say=said.append) as recording:
        recording.ask(FIRST)
        recording.ask(question("other"))
        recording.ask(THIRD)  # its record belongs to a run that went another way
    assert len(backend.asked) == 2
    assert "question 1 departs" in said[0]
    assert "'two', asked 'other'" in said[0]
    assert [line.text for line in read(path)] == ['{"blocks": 1}', '{"blocks": 9}', '{"blocks": 9}']


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        (question("one more"), "message 0, character 3"),
        (question("one", max_tokens=9), "max_tokens: recorded 1024, asked 9"),
        (question("one", temperature=0.5), "temperature"),
        (replace(FIRST, purpose="tools"), "purpose"),
        (replace(FIRST, schema=None), "schema: recorded Plan, asked None"),
        (replace(FIRST, messages=[]), "number of messages"),
        (replace(FIRST, messages=[{"role": "system", "content": "one"}]), "asked system"),
    ],
)
def test_a_replay_says_where_the_run_departs(path: Path, asked: Question, word: str) -> None:
    record(path, FIRST)
    with pytest.raises(GenlabError, match=word) as error:
        Replay(path).ask(asked)
    assert "question 0" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_replay_that_runs_out_says_so(path: Path) -> None:
    record(path, FIRST)
    replay = Replay(path)
    replay.ask(FIRST)
    with pytest.raises(GenlabError, match="ends after 1 questions"):
        replay.ask(SECOND)


SPENT = {"tokens_in": 3, "tokens_out": 4, "seconds": 1.5, "attempts": 2}


def test_a_failure_is_recorded_and_replayed(path: Path) -> None:
    with (
        Recording(Scripted(LLMFailure("it would not", **SPENT)), path) as recording,
        pytest.raises(LLMFailure),
    ):
        recording.ask(FIRST)
    replay = Replay(path)
    with pytest.raises(LLMFailure, match="it would not") as failure:
        replay.ask(FIRST)
    assert (failure.value.tokens_in, failure.value.attempts) == (3, 2)
    backend = Scripted(*ANSWERS)
    with Recording(backend, path) as recording:
        with pytest.raises(LLMFailure, match="it would not"):
            recording.ask(FIRST)
        recording.ask(SECOND)
    assert len(backend.asked) == 1


def test_a_spent_budget_is_replayed_and_may_be_raised(path: Path) -> None:
    for _ in range(2):
        with (
            Recording(Scripted(BudgetSpent("no more", **SPENT)), path) as recording,
            pytest.raises(BudgetSpent),
        ):
            recording.ask(FIRST)
    assert len(path.read_bytes().splitlines()) == 1  # the same stop is no news
    with pytest.raises(BudgetSpent):
        Replay(path).ask(FIRST)
    assert record(path, FIRST) == [Replay(path).ask(FIRST)]


def test_a_budget_holds_over_kills(path: Path) -> None:
    record(path, FIRST, SECOND)
    meter = Meter(Budget(tokens=30))
    with Recording(Scripted(*ANSWERS), path, meter=meter):
        assert (meter.tokens, meter.seconds) == (30, pytest.approx(0.6))
        with pytest.raises(BudgetSpent):
            meter.check()


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_truncated_last_line_is_dropped_and_said(path: Path, said: list[str], cut: int) -> None:
    record(path, FIRST, SECOND)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    backend = Scripted('{"blocks": 2}')
    with Recording(backend, path, say=said.append) as recording:
        recording.ask(FIRST)
        recording.ask(SECOND)
    assert "torn last line" in said[0]
    assert len(backend.asked) == 1
    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "damage",
    [b"\x00\x00\n", b"{}\n", b"[]\n", b"\xff\n", b"\n"],
    ids=["zeros", "object", "list", "bytes", "empty"],
)
def test_damage_before_the_end_is_one_line_and_nothing_is_lost(path: Path, damage: bytes) -> None:
    record(path, FIRST)
    whole = damage + path.read_bytes()
    path.write_bytes(whole)
    for opened in (lambda: Replay(path), lambda: Recording(Scripted(*ANSWERS), path)):
        with pytest.raises(GenlabError, match="line 1 is damaged") as error:
            opened()
        assert "\n" not in str(error.value)
    assert path.read_bytes() == whole


def test_two_runs_do_not_write_one_file(path: Path) -> None:
    with (
        Recording(Scripted(*ANSWERS), path),
        pytest.raises(GenlabError, match="being written by another run"),
    ):
        Recording(Scripted(*ANSWERS), path)
    Recording(Scripted(*ANSWERS), path).close()


def test_no_secret_is_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "open-sesame-please")
    leaks = "open-sesame-please sk-abcdefgh12345678 Bearer abcdefgh12345678 given-by-hand"
    backend = Scripted(f"I was given {leaks}")
    asked = Question("tools", [{"role": "user", "content": leaks}])
    with Recording(backend, path, secrets=["given-by-hand"]) as recording:
        answer = recording.ask(asked)
    kept = path.read_text(encoding="utf-8")
    for secret in ("open-sesame", "12345678", "given-by-hand"):
        assert secret not in kept
        assert secret not in str(backend.asked)
    assert answer.text.startswith("I was given [redacted] [redacted] Bearer [redacted]")
    assert Replay(path, secrets=["given-by-hand"]).ask(asked) == answer


def test_the_recorded_example_asks_what_the_planner_asks_today(root: Path) -> None:
    """Otherwise a replay stops: record transcripts/stripes.jsonl again."""
    params = load_params(root / "params.yaml").agent
    constraints = Constraints((1, 16, 16), 4, params.max_parameters, params.epochs, params.subset)
    asked = [line for line in read(root / params.transcript) if line.shape == "Proposal"]
    assert len(asked) == 3
    for number, line in enumerate(asked, start=1):
        shape = proposal_in(constraints, tuple(str(each) for each in range(1, number + 1)))
        question = Question("planning", line.messages, shape, line.max_tokens)
        assert line.key == digest(question)
        wanted = goal(line.messages[1]["content"].partition("\n")[0].removeprefix("Goal: "))
        left = f"Attempts left: {params.max_iterations - number}."
        system, user = ask_for_proposal(wanted, constraints, [], "", left)
        assert line.messages[0] == system
        assert line.messages[1]["content"].startswith(user["content"].partition("\n\n")[0])
