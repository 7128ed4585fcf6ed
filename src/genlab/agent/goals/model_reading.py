"""Let the planning model read goals that the parser cannot, in other languages or wordings.

Its reading passes the parser's checks, and each of its numbers stands in the sentence. Not
protected: it may take a number for another limit, or choose a dataset that was not meant, so a
person confirms the goal.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from genlab.agent.goals.goal import DATASETS, SHARES, Goal, write_number
from genlab.agent.goals.numbers import SECONDS, find_numbers
from genlab.agent.goals.parser import parse_goal
from genlab.agent.goals.words import LIMITS, UnreadError, refuse
from genlab.core.errors import GenlabError
from genlab.core.params import AgentParams
from genlab.core.text import make_printable
from genlab.llm.backends import open_backend, writes_code
from genlab.llm.chat import BudgetSpentError, LLMFailure

FOLDER = ".goals"  # of journals, one per sentence: no sentence is sent twice
MAX_QUOTE = 8  # words of a phrase that states one thing
PATH = "path:"
SYSTEM = """You read a sentence, in any language, that states the goal of training a neural network,
and answer with one JSON object that fits the schema. Take over what the sentence states and nothing
else: what it leaves open is null. Where two numbers could be meant, the field is null. A percentage
without the name of a metric is an accuracy."""
QUESTION = """Datasets: {datasets}; a path to files is path:PATH, as it is written.
Sentence: {sentence}"""

MetricName = Literal[
    "accuracy", "error_rate", "macro_f1", "val_loss", "bits_per_dim", "frechet_distance"
]


class StatedGoal(BaseModel):
    """What a sentence states of a goal."""

    dataset: str | None = Field(description="one of the datasets, or path:PATH")
    metric: MetricName | None = Field(description="what the threshold is about")
    direction: Literal["at least", "at most"] | None = Field(description="of the threshold")
    threshold: float | None = Field(description="as it is stated; a percentage as a share of 1")
    max_parameters: int | None = Field(description="most parameters or weights of the model")
    max_seconds: float | None = Field(description="most seconds of training")
    other_limit: str | None = Field(
        description="the words of a limit that no field above can hold, such as one of latency"
    )
    quotes: list[str] = Field(
        description="the words that state each field above, copied exactly, as few as possible"
    )


def read_goal(
    text: str,
    params: AgentParams,
    workspaces: Path,
    *,
    own_datasets: Collection[str] = (),
    seed: int = 0,
    note: Callable[[str], None] = print,
    **options: Any,
) -> tuple[Goal, bool]:
    """Parse a goal sentence; let the planning model of `params` read what the parser cannot.

    workspaces: the folder in which the answer is recorded. options: of `parse_goal`. Returns the
    goal, and whether the model has read it. Raises a GenlabError, with the parser's reason, for a
    sentence that neither can read, and for limits that cannot be enforced.
    """
    try:
        return parse_goal(text, own_datasets=own_datasets, **options), False
    except UnreadError as error:
        # A transcript answers the questions of its run alone; SmolLM2 is too weak to read.
        if params.backend == "replay" or not writes_code(params) or not find_numbers(text):
            raise
        refusal = str(error)
    words = " ".join(make_printable(text).split())
    journal = workspaces / FOLDER / f"{sha256(words.encode()).hexdigest()[:12]}.jsonl"
    datasets = (*DATASETS, *own_datasets)
    question = QUESTION.format(datasets=", ".join(datasets), sentence=words)
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    with open_backend(params, journal, seed=seed, note=note) as session:
        assert session is not None
        try:
            stated = session.ask("planning", messages, schema=StatedGoal).parsed
        except (BudgetSpentError, LLMFailure) as error:
            raise GenlabError(f"{refusal} (the planner does not read it: {error})") from error
    assert isinstance(stated, StatedGoal)
    if stated.threshold is not None and stated.metric in SHARES and stated.threshold > 1:
        share = float(Decimal(repr(stated.threshold)) / 100)  # a percentage, copied as it stands
        stated = stated.model_copy(update={"threshold": share})
    try:
        check_numbers(stated, words)
        sentence = write_sentence(stated, words, datasets)
        goal = parse_goal(sentence, own_datasets=own_datasets, **options)
    except GenlabError as error:
        reason = str(error).removeprefix("goal: ")
        raise GenlabError(f"{refusal} (as the planner reads it: {reason})") from error
    return replace(goal, text=words, quotes=find_quotes(stated.quotes, words)), True


def check_numbers(stated: StatedGoal, words: str) -> None:
    """Raise a GenlabError for a number that is not in the sentence, or a limit that no field holds.

    No two fields may take the same number of the sentence. A threshold may be a percentage there,
    which no other field may be; seconds may be one or two numbers of any unit of time.
    """
    if stated.other_limit and find_numbers(stated.other_limit):
        raise refuse(f"{make_printable(stated.other_limit)!r} cannot be enforced", LIMITS)
    numbers = find_numbers(words)
    plain = [set() if number.is_percentage else set(number.values) for number in numbers]
    times = [{value * unit for value in values for unit in SECONDS.values()} for values in plain]
    thresholds = plain
    if stated.metric in SHARES:
        thresholds = [
            values | {value / 100 for value in number.values}
            for values, number in zip(plain, numbers, strict=True)
        ]
    places = {
        "threshold": _find_places(stated.threshold, thresholds),
        "max_parameters": _find_places(stated.max_parameters, plain),
        "max_seconds": _find_places(stated.max_seconds, times, max_terms=2),
    }
    for name, choices in places.items():
        if not choices:
            reason = f"{name} {write_number(getattr(stated, name))} is no number of the sentence"
            raise refuse(reason, "write it in digits")
    for combination in product(*places.values()):
        positions = [*chain.from_iterable(combination)]
        if len(positions) == len(set(positions)):
            return
    raise refuse("a number of the sentence is taken for two limits", "write it in English")


def _find_places(
    value: float | None, numbers: Sequence[Collection[Decimal]], max_terms: int = 1
) -> list[Sequence[int]]:
    """Find the positions of numbers that may add up to a value; one empty choice for None."""
    if value is None:
        return [()]
    exact = Decimal(repr(value))
    matching = list[Sequence[int]]()
    for count in range(1, max_terms + 1):
        for positions in combinations(range(len(numbers)), count):
            terms = product(*(numbers[at] for at in positions))
            if exact in map(sum, terms):
                matching.append(positions)
    return matching


def write_sentence(stated: StatedGoal, words: str, datasets: Collection[str]) -> str:
    """Write what a model has read as a sentence for the parser."""
    phrases = list[str]()
    if stated.metric:
        phrases.append(stated.metric)
    if stated.threshold is not None:
        phrases.append(f"{stated.direction or ''} {write_number(stated.threshold)}")
    if name := stated.dataset:
        path = make_printable(name).removeprefix(PATH)
        if name.startswith(PATH) and path in words:
            name = f'"{PATH}{path}"'
        elif name not in datasets:
            raise refuse(f"{path!r} is no dataset of the sentence", "give --dataset")
        phrases.append(f"on {name}")
    if stated.max_parameters is not None:
        phrases.append(f", at most {stated.max_parameters} parameters")
    if stated.max_seconds is not None:
        phrases.append(f", within {write_number(stated.max_seconds)} s")
    return " ".join(phrases)


def find_quotes(quotes: Collection[str], words: str) -> tuple[str, ...]:
    """Find the quotes that are in a sentence, in its order, of at most MAX_QUOTE words."""
    phrases = list[tuple[int, str]]()
    for quote in quotes:
        phrase = " ".join(make_printable(quote).split())
        begin = words.lower().find(phrase.lower())
        if begin >= 0 and 0 < len(phrase.split()) <= MAX_QUOTE:
            phrases.append((begin, words[begin : begin + len(phrase)]))
    return tuple(phrase for _, phrase in sorted(phrases))
