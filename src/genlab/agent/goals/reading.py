"""Goals that the parser cannot read, in other languages or wordings: the planning model reads them.

What it makes of a sentence passes the parser's checks, and every number of it stands in the
sentence. Not protected: a number that is taken for another limit, or a dataset that was not meant,
so a person confirms what was read.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from genlab.agent.goals.goal import DATASETS, SHARES, Goal, parse_goal, write_number
from genlab.agent.goals.numbers import SECONDS, find_numbers
from genlab.agent.goals.words import LIMITS, UnreadError, refuse
from genlab.core.errors import GenlabError
from genlab.core.params import AgentParams
from genlab.core.text import make_printable
from genlab.llm.backends import open_backend, writes_code
from genlab.llm.chat import BudgetSpentError, LLMFailure

FOLDER = ".goals"  # of journals, one per sentence: what was read once is not asked again
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
    own: Collection[str] = (),
    seed: int = 0,
    note: Callable[[str], None] = print,
    **options: Any,
) -> tuple[Goal, bool]:
    """Parse a goal sentence; what the parser cannot read, the planning model of `params` reads.

    options: of `parse_goal`. workspaces: the folder in which the answer is recorded. Returns the
    goal, and whether the model has read it. Raises a GenlabError for what nobody can read, with
    the parser's reason, and for what cannot be enforced.
    """
    try:
        return parse_goal(text, own=own, **options), False
    except UnreadError as error:
        # A transcript answers the questions of its run alone; SmolLM2 does not read.
        if params.backend == "replay" or not writes_code(params) or not find_numbers(text):
            raise
        refusal = str(error)
    words = " ".join(make_printable(text).split())
    journal = workspaces / FOLDER / f"{sha256(words.encode()).hexdigest()[:12]}.jsonl"
    question = QUESTION.format(datasets=", ".join((*DATASETS, *own)), sentence=words)
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    with open_backend(params, journal, seed=seed, note=note) as session:
        assert session is not None
        try:
            stated = session.ask("planning", messages, schema=StatedGoal).parsed
        except (BudgetSpentError, LLMFailure) as error:
            raise GenlabError(f"{refusal} (the planner does not read it: {error})") from error
    assert isinstance(stated, StatedGoal)
    if stated.threshold is not None and stated.metric in SHARES and stated.threshold > 1:
        share = float(Decimal(repr(stated.threshold)) / 100)  # a percentage that was left as it is
        stated = stated.model_copy(update={"threshold": share})
    try:
        check_numbers(stated, words)
        goal = parse_goal(write_sentence(stated, words, own), own=own, **options)
    except GenlabError as error:
        reason = str(error).removeprefix("goal: ")
        raise GenlabError(f"{refusal} (as the planner reads it: {reason})") from error
    return replace(goal, text=words, quotes=find_quotes(stated.quotes, words)), True


def check_numbers(stated: StatedGoal, words: str) -> None:
    """Raise a GenlabError for a number that is not in the sentence, or a limit that no field holds.

    Each is another number there: a threshold also as a percentage, which nothing else can be, and
    seconds as one or two numbers of any unit of time.
    """
    if stated.other_limit and find_numbers(stated.other_limit):
        raise refuse(f"{make_printable(stated.other_limit)!r} cannot be enforced", LIMITS)
    numbers = find_numbers(words)
    plain = [set() if each.is_percentage else set(each.values) for each in numbers]
    shares = [{value / 100 for value in each.values} for each in numbers]
    times = [{value * unit for value in each for unit in SECONDS.values()} for each in plain]
    is_share = stated.metric in SHARES
    thresholds = [
        known | share if is_share else known for known, share in zip(plain, shares, strict=True)
    ]
    places = {
        "threshold": _find_places(stated.threshold, thresholds),
        "max_parameters": _find_places(stated.max_parameters, plain),
        "max_seconds": _find_places(stated.max_seconds, times, most=2),
    }
    for name, found in places.items():
        if not found:
            reason = f"{name} {write_number(getattr(stated, name))} is no number of the sentence"
            raise refuse(reason, "write it in digits")
    choices = ([at for each in choice for at in each] for choice in product(*places.values()))
    if not any(len(choice) == len(set(choice)) for choice in choices):
        raise refuse("a number of the sentence is taken for two limits", "write it in English")


def _find_places(
    value: float | None, numbers: Sequence[Collection[Decimal]], most: int = 1
) -> list[Sequence[int]]:
    """Where the numbers are that may add up to a value, at most so many; nowhere for None."""
    if value is None:
        return [()]
    exact = Decimal(repr(value))
    counts = range(1, most + 1)
    chosen = chain.from_iterable(combinations(range(len(numbers)), count) for count in counts)
    return [each for each in chosen if exact in map(sum, product(*(numbers[at] for at in each)))]


def write_sentence(stated: StatedGoal, words: str, own: Collection[str]) -> str:
    """What a model has read, as a sentence for the parser."""
    parts = list[str]()
    if stated.metric:
        parts.append(stated.metric)
    if stated.threshold is not None:
        parts.append(f"{stated.direction or ''} {write_number(stated.threshold)}")
    if name := stated.dataset:
        path = make_printable(name).removeprefix(PATH)
        if name.startswith(PATH) and path in words:
            name = f'"{PATH}{path}"'
        elif name not in (*DATASETS, *own):
            raise refuse(f"{path!r} is no dataset of the sentence", "give --dataset")
        parts.append(f"on {name}")
    if stated.max_parameters is not None:
        parts.append(f", at most {stated.max_parameters} parameters")
    if stated.max_seconds is not None:
        parts.append(f", within {write_number(stated.max_seconds)} s")
    return " ".join(parts)


def find_quotes(quotes: Collection[str], words: str) -> tuple[str, ...]:
    """The phrases that are in a sentence, in its order, of at most MAX_QUOTE words."""
    found = list[tuple[int, str]]()
    for quote in quotes:
        phrase = " ".join(make_printable(quote).split())
        begin = words.lower().find(phrase.lower())
        if begin >= 0 and 0 < len(phrase.split()) <= MAX_QUOTE:
            found.append((begin, words[begin : begin + len(phrase)]))
    return tuple(phrase for _, phrase in sorted(found))
