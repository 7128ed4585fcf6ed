"""What a model is, measured behind the walls, and what an LLM makes of it.

Structure, shapes, parameters and multiply-adds come from torchinfo, run in the sandbox on the built
model. The tool LLM adds words; where a number in them is another than the measured one, the
measured one is put in its place, and that is noted.

Not protected: a model's file runs in the process that describes it, and could lie about itself. It
gains nothing that counts: what decides are marks, and those are made elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genlab.agent import guest, summary_guest
from genlab.agent.claims import corrected
from genlab.agent.coder import Probed
from genlab.agent.llm import Backend, LLMFailure, Message, Question
from genlab.agent.quick_evaluator import LONGEST, emptied, failure_of
from genlab.agent.space import Input
from genlab.core.errors import GenlabError
from genlab.core.io import write_text
from genlab.sandbox.limits import MIB, Limits
from genlab.sandbox.readback import read_back
from genlab.sandbox.worker import Worker

MODEL, GUEST, SCRIPT, JOB, OUTPUT = (
    "model.py", "guest.py", "summary_guest.py", "job.json", "summary.json"
)  # fmt: skip
LIMITS = Limits(wall_seconds=60.0)
LONGEST_ANSWER = 4 * MIB
MOST_SIDE, MOST_CELLS = 4096, 1 << 24
ANSWER_TOKENS = 400


@dataclass(frozen=True)
class Summary:
    """A model as it was measured; `failure` says in a line why it was not.

    output: shape of what forward gives, its batch included; multiply_adds: for one input; layers:
    name, kind, output and parameters of each that has none below it; table: torchinfo's.
    """

    parameters: int = 0
    trainable: int = 0
    multiply_adds: int = 0
    output: tuple[int, ...] = ()
    layers: list[dict[str, Any]] = field(default_factory=list)
    table: str = ""
    failure: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As summary.json holds it."""
        return {**asdict(self), "output": list(self.output)}


class _Layer(BaseModel):
    name: str
    kind: str
    output: list[int]
    parameters: int


class _Told(BaseModel):
    """What the guest leaves; its word on types is not taken."""

    model_config = ConfigDict(extra="forbid")

    parameters: int = Field(ge=0)
    trainable: int = Field(ge=0)
    multiply_adds: int = Field(ge=0)
    shape: list[int]
    layers: list[_Layer] = Field(max_length=summary_guest.MOST_LAYERS)
    table: str = Field(max_length=summary_guest.LONGEST_TABLE)


class Inspector:
    """Builds models in the sandbox of `worker`, such as an `Evaluator`'s: torch is imported once.

    The worker's workspace is emptied before and after each job.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def probe(self, source: str, class_name: str, shape: Input) -> Probed:
        """Whether the class builds, answers a batch of two and can be trained on it."""
        found = self._measured(source, class_name, (2, *shape), training=True)
        return Probed(found.parameters, found.output, found.failure)

    def summary(self, source: str, class_name: str, input_size: tuple[int, ...]) -> Summary:
        """The model for inputs of `input_size`: channels, height, width, perhaps a batch before.

        Raises GenlabError where that is no such size; what the model does ends in `failure`.
        """
        return self._measured(source, class_name, checked_size(input_size), training=False)

    def _measured(
        self, source: str, class_name: str, size: tuple[int, ...], *, training: bool
    ) -> Summary:
        room = self.worker.sandbox.workspace
        emptied(room)
        try:
            write_text(room / MODEL, source)
            for name, module in ((GUEST, guest), (SCRIPT, summary_guest)):
                write_text(room / name, Path(str(module.__file__)).read_text(encoding="utf-8"))
            job = {
                "guest": str(room / GUEST),
                "model": str(room / MODEL),
                "class_name": class_name,
                "size": list(size),
                "training": training,
                "output": str(room / OUTPUT),
            }
            write_text(room / JOB, json.dumps(job))
            done = self.worker.run(SCRIPT, [str(room / JOB)], limits=LIMITS)
            if reason := failure_of(done):
                return Summary(failure=" ".join(reason.split())[:LONGEST])
            return _read(room, size[0])
        finally:
            emptied(room)


def _read(room: Path, batch: int) -> Summary:
    """What the guest left, as far as it can be one."""
    try:
        told = _Told.model_validate_json(read_back(room, OUTPUT, limit=LONGEST_ANSWER))
    except (GenlabError, ValidationError, ValueError):
        return Summary(failure="it ended without a summary of itself")
    return Summary(
        parameters=told.parameters,
        trainable=told.trainable,
        multiply_adds=told.multiply_adds // batch,
        output=tuple(told.shape),
        layers=[layer.model_dump() for layer in told.layers],
        table=told.table,
    )


def checked_size(given: Sequence[int]) -> tuple[int, ...]:
    """`given` with its batch. Raises GenlabError where it is no size of images."""
    fix = "give channels, height, width, such as (1, 28, 28)"
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise GenlabError(f"input_size must be a row of numbers, got {given!r}; {fix}")
    sides = tuple(given)
    if not all(isinstance(side, int) and not isinstance(side, bool) for side in sides):
        raise GenlabError(f"input_size must hold whole numbers, got {_shown(given)}; {fix}")
    if len(sides) not in (3, 4):
        raise GenlabError(f"input_size has {len(sides)} numbers, not 3 (or 4 with batch); {fix}")
    sides = sides if len(sides) == 4 else (1, *sides)
    cells = 1
    for side in sides:
        if not 1 <= side <= MOST_SIDE:
            raise GenlabError(
                f"input_size: each side must be 1 to {MOST_SIDE}, got {_shown(given)}; {fix}"
            )
        cells *= side
    if cells > MOST_CELLS:
        raise GenlabError(
            f"input_size: {_shown(given)} are {cells} cells, more than {MOST_CELLS}; {fix}"
        )
    return sides


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Analysis(BaseModel):
    """What the tool LLM answers with."""

    analysis: str = Field("", max_length=1500, description="two or three sentences")


def analysed(summary: Summary, backend: Backend | None) -> dict[str, Any]:
    """The summary with `analysis`, the tool LLM's words, and `overruled`, a line a wrong number.

    Without a backend, or where it gives no answer, the words are empty; `BudgetSpent` comes out.
    """
    told = summary.as_dict()
    words, overruled, silence = "", list[str](), ""
    if backend is not None and not summary.failure:
        try:
            answer = backend.ask(Question("tools", _asked(summary), Analysis, ANSWER_TOKENS))
        except LLMFailure as error:
            silence = error.reason
        else:
            assert isinstance(answer.parsed, Analysis)
            words, overruled = corrected(answer.parsed.analysis, told)
    found = {**told, "analysis": words, "overruled": overruled}
    return {**found, "no_analysis": silence} if silence else found


def _asked(summary: Summary) -> list[Message]:
    layers = "\n".join(
        f"{each['name']} {each['kind']} -> {tuple(each['output'])}, {each['parameters']} parameters"
        for each in summary.layers[:40]
    )
    told = (
        f"A classifier of images, measured: {summary.parameters} parameters,"
        f" {summary.multiply_adds} multiply-adds an image, output {summary.output}.\n{layers}\n"
        "Say in two or three sentences where its capacity lies, and what it may lack."
    )
    return [
        {"role": "system", "content": "You review neural networks. You answer in JSON alone."},
        {"role": "user", "content": told},
    ]
