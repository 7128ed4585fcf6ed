"""The planning model reads goals that the parser cannot; it may invent no number."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_runs import agent_params
from goal_answers import NOTHING, SETS, open_reader
from judged import read_set
from loopback import Server, status
from replies import good

from genlab.agent.goals.goal import quote_enforced, quote_unenforced
from genlab.agent.goals.model_reading import read_goal
from genlab.agent.goals.numbers import find_numbers
from genlab.core.errors import GenlabError
from genlab.core.params import AgentParams

ASKED = [entry for name in SETS for entry in read_set(name) if "answer" in entry]
GERMAN = "Ein CNN ohne BatchNorm für Fashion-MNIST mit mindestens 90 % Genauigkeit"
ANSWER = {
    **NOTHING,
    "dataset": "fashion_mnist",
    "metric": "accuracy",
    "direction": "at least",
    "threshold": 0.9,
    "quotes": ["mindestens 90 % Genauigkeit", "Fashion-MNIST", "less than 5 layers"],
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture(scope="module")
def reader() -> Iterator[AgentParams]:
    with open_reader() as params:
        yield params


def reading(server: Server, **changes: Any) -> AgentParams:
    return agent_params(backend="openai", base_url=server.url, **changes)


@pytest.mark.parametrize("case", ASKED, ids=lambda case: case["goal"])
def test_the_sentences_of_the_set(
    case: dict[str, Any], reader: AgentParams, tmp_path: Path
) -> None:
    if "refused" in case:
        with pytest.raises(GenlabError) as caught:
            read_goal(case["goal"], reader, tmp_path)
        assert re.search(case["refused"], str(caught.value), re.IGNORECASE)
        assert "\n" not in str(caught.value)
        return
    goal, is_read = read_goal(case["goal"], reader, tmp_path)
    assert is_read
    assert goal.text == case["goal"]
    expected = {"max_parameters": None, "max_seconds": None, **case["expect"]}
    assert {name: getattr(goal, name) for name in expected} == expected


def test_a_model_is_not_asked_what_the_parser_reads(tmp_path: Path) -> None:
    with Server([good(ANSWER)]) as server:
        goal, is_read = read_goal("mnist > 90 %", reading(server), tmp_path)
        assert (goal.dataset, is_read, server.requests) == ("mnist", False, [])
        for text in ("a CNN for MNIST", "90 % of CIFAR-100", "MNIST mit 97 %, Latenz unter 5 ms"):
            with pytest.raises(GenlabError):  # no number, or a limit that no run enforces
                read_goal(text, reading(server), tmp_path)
        assert server.requests == []


def test_a_sentence_is_asked_about_once(tmp_path: Path) -> None:
    with Server([good(ANSWER)]) as server:
        goals = [read_goal(GERMAN, reading(server), tmp_path) for _ in range(3)]
        assert len(server.requests) == 1
        assert goals[0] == goals[1] == goals[2]
        sent = server.requests[0].body
        assert GERMAN in sent["messages"][-1]["content"]
        schema = sent["response_format"]["json_schema"]["schema"]
        assert set(schema["required"]) == set(schema["properties"])  # small models leave others out


def test_words_that_no_field_holds_are_quoted_as_unenforced(tmp_path: Path) -> None:
    with Server([good(ANSWER)]) as server:
        goal, _ = read_goal(GERMAN, reading(server), tmp_path)
    assert goal.description == "accuracy >= 0.9 on fashion_mnist"
    assert quote_enforced(goal) == '"Fashion-MNIST", "mindestens 90 % Genauigkeit"'
    assert quote_unenforced(goal) == '"Ein CNN ohne BatchNorm für", "mit"'


def test_a_quote_of_the_whole_sentence_does_not_make_all_of_it_enforced(
    tmp_path: Path,
) -> None:
    with Server([good(ANSWER | {"quotes": [GERMAN]})]) as server:
        goal, _ = read_goal(GERMAN, reading(server), tmp_path)
    assert "ohne BatchNorm" in quote_unenforced(goal)


def test_options_hold_for_what_a_model_reads(tmp_path: Path) -> None:
    with Server([good(ANSWER | {"dataset": None})]) as server:
        options = {"max_parameters": 20_000, "max_seconds": 30.0}
        goal, _ = read_goal(GERMAN, reading(server), tmp_path, dataset="fashion_mnist", **options)
        assert (goal.max_parameters, goal.max_seconds) == (20_000, 30.0)
        with pytest.raises(GenlabError, match="--dataset is mnist"):
            read_goal(GERMAN, reading(server), tmp_path, dataset="mnist")
        text = "90 % Genauigkeit auf meinen Katzen"
        read_goal(text, reading(server), tmp_path, own_datasets=["cats"], dataset="cats")
        assert "dummy, cats;" in server.requests[-1].prompt


@pytest.mark.parametrize("backend", ["search", "replay", "embedded"])
def test_without_a_model_that_reads_the_parsers_reason_stays(backend: str, tmp_path: Path) -> None:
    with pytest.raises(GenlabError, match="'mindestens 90 % Genauigkeit' measures"):
        read_goal(GERMAN, agent_params(backend=backend), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_model_that_reads_nothing_leaves_the_parsers_reason(tmp_path: Path) -> None:
    with Server([good(NOTHING)]) as server, pytest.raises(GenlabError, match="Genauigkeit"):
        read_goal(GERMAN, reading(server), tmp_path)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    refused = pytest.raises(GenlabError, match="OPENAI_API_KEY")
    with Server([status(401, message="no such key")]) as server, refused:
        read_goal(GERMAN, reading(server), tmp_path)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("fünfundneunzig Prozent, siebzehn", [{95}, {17}]),
        ("soixante-dix-neuf, quatre-vingts, une demi-heure", [{79}, {80}, {0.5}]),
        ("treinta y dos, cien mil, media hora", [{32}, {100_000}, {0.5}]),
        ("cinquenta mil, vinte e quatro, meia hora", [{50_000}, {24}, {0.5}]),
        ("novantotto per cento e centomila, un quarto d'ora", [{98}, {100_000}, {0.25}]),
        ("two hundred and fifty thousand, three quarters", [{250_000}, {0.75}]),
        ("zwanzig dreißig", []),
        ("within an hour", [{1}]),
        ("a model", []),
        ("50.000", [{50, 50_000}]),
        ("50 000", [{50, 0, 50_000}]),
        ("0,25 and 2×10^4 and 3·10⁵", [{0.25}, {20_000}, {300_000}]),
        ("5 Mio. und 20k und 1h30", [{5, 5_000_000}, {20, 20_000}, {1}, {30}, {1_000_000}]),
    ],
)
def test_numbers_of_a_sentence(text: str, values: list[set[float]]) -> None:
    numbers = find_numbers(text)
    assert [{float(value) for value in number.values} for number in numbers] == values


@pytest.mark.parametrize("text", ["90 %", "90 percent", "neunzig Prozent", "90 por ciento"])
def test_percentages(text: str) -> None:
    assert [number.is_percentage for number in find_numbers(text)] == [True]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_parameters": 90},  # the percentage
        {"max_parameters": 50, "max_seconds": 50.0},  # one number twice; SmolLM2 has said both
        {"threshold": 0.91},
        {"metric": "val_loss", "direction": "at most", "threshold": 90.0},
    ],
)
def test_no_number_may_be_invented_or_used_twice(wrong: dict[str, Any], tmp_path: Path) -> None:
    text = f"{GERMAN} und höchstens 50.000 Parametern"
    refused = pytest.raises(GenlabError, match=r"as the planner reads it: .*(no number|two limits)")
    with Server([good(ANSWER | {"max_parameters": 50_000} | wrong)]) as server, refused:
        read_goal(text, reading(server), tmp_path)
