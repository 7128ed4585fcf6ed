"""Answers are read whatever surrounds them, and no text breaks the reading."""

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from genlab.llm.answers import MAX_TEXT, MalformedError, parse
from genlab.llm.dialects import strip_thoughts


class Plan(BaseModel):
    """A small schema with an alias and a default."""

    model_config = ConfigDict(populate_by_name=True)

    blocks: int = Field(ge=1, le=4)
    rate: float = Field(0.1, alias="lr")
    arguments: dict[str, Any] = {}


class Lenient(BaseModel):
    """Everything has a default: any object fits."""

    sentence: str = ""


GOOD = {"blocks": 2, "lr": 0.5}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        '```json\n{"blocks": 2, "lr": 0.5,}\n```',
        'Sure, {as you like}:\n```json\n{"blocks": 2, "lr": 0.5}\n```\nand so on',
        'He said "no,} and {"blocks": 2, "lr": 0.5,}',
        '<think>{"blocks": 1}?</think>{"blocks": 2, "lr": 0.5}',
        'Perhaps {"blocks": 1}? No.</think>\n{"blocks": 2, "lr": 0.5}',
        'First {"blocks": 77}, no: {"blocks": 2, "lr": 0.5}',
        "{'blocks': 2, 'lr': 0.5}",
        "x" * 20_000 + json.dumps(GOOD),
    ],
)
def test_json_is_found_in_what_surrounds_it(text: str) -> None:
    assert parse(text, Plan) == Plan.model_validate(GOOD)


def test_thoughts_are_removed_and_code_that_names_them_is_not() -> None:
    assert strip_thoughts("<think>hm</think>yes") == "yes"
    assert strip_thoughts("<think>cut off") == ""
    for text in ('{"code": "</think>"}', "A <think> tag ends with </think>."):
        assert strip_thoughts(text) == text
    long = json.dumps({"sentence": "x" * 20_000 + "\n"}).replace("\\n", "\n")
    assert parse(long, Lenient) == Lenient(sentence="x" * 20_000 + "\n")


def test_a_part_of_an_object_is_no_answer() -> None:
    assert parse('{"sentence": "go on", "more": {"a": 1},}', Lenient) == Lenient(sentence="go on")
    with pytest.raises(MalformedError):
        parse('{"config": {"layers": [], }, }', Lenient)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ['"lr": {}', '"arguments": {{"a": [{}]}}'])
def test_numbers_that_are_none_are_refused(number: str, field: str) -> None:
    with pytest.raises(MalformedError):
        parse(f'Here: {{"blocks": 1, {field.format(number)}}}', Plan)


def test_strings_are_printable() -> None:
    plan = parse('{"blocks": 1, "arguments": {"a": "\\u001b[31mred\\u202e \\ud800"}}', Plan)
    assert isinstance(plan, Plan)
    assert plan.arguments == {"a": "red ?"}


@settings(max_examples=60)
@given(st.text(alphabet=st.sampled_from(list('{}[]",:\\`\n\t 01eE-.nNaflsu\ud800')), max_size=80))
def test_no_text_breaks_the_parser(text: str) -> None:
    with suppress(MalformedError):
        assert isinstance(parse(text, Plan), Plan)


@pytest.mark.parametrize("piece", ['{"a":', "<think>", '{"a":[1,', ",  ", '{"a', "["])
def test_a_hostile_answer_costs_seconds_at_most(piece: str) -> None:
    started = time.process_time()
    for size in (1 << 14, MAX_TEXT):
        with pytest.raises(MalformedError):
            parse((piece * size)[:size], Plan)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("levels", [41, 400, 900, 5000])
def test_an_answer_that_nests_too_deeply_is_malformed(levels: int) -> None:
    with pytest.raises(MalformedError, match=r"deep|no JSON"):
        parse('{"arguments": ' + "[" * levels + "1" + "]" * levels + "}", Plan)
