"""Who plans: a model on this machine, an endpoint, a transcript, or nobody (search).

Whatever asks a model is recorded in the workspace's `transcript.jsonl`, and answers from there what
was asked before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from genlab.agent import embedded, transcript
from genlab.agent.llm import (
    OPENAI_URL,
    Answer,
    Backend,
    Budget,
    Meter,
    OpenAIBackend,
    Patience,
    Price,
    Purpose,
    Question,
)
from genlab.agent.progress import Progress, Silent
from genlab.agent.transcript import Recording, Replay
from genlab.agent.workspace import Workspace
from genlab.core.errors import GenlabError
from genlab.core.params import AgentParams

TRANSCRIPT = "transcript.jsonl"
UNNAMED = "default"  # what an endpoint with a single model is asked for


def writes_code(params: AgentParams) -> bool:
    """Whether the tool LLM is asked for code at all.

    The embedded model's never ran, repairs included: it would cost minutes and end in the template
    all the same. A replay asks what its record asked.
    """
    if params.backend == "embedded":
        return bool(params.gguf)
    if params.backend == "replay":
        return any(line.purpose == "tools" for line in transcript.read(_recorded(params)))
    return params.backend == "openai"


def described(params: AgentParams) -> str:
    """The backend in a few words, for people."""
    if params.backend == "embedded":
        return f"embedded, {Path(params.gguf).name if params.gguf else embedded.MODEL}"
    if params.backend == "openai":
        names = dict.fromkeys((_model(params, "planning"), _model(params, "tools")))
        return f"openai, {' and '.join(names)}"
    if params.backend == "replay":
        return f"replay of {Path(params.transcript).name}"
    return "search, without an LLM"


def check(params: AgentParams) -> None:
    """Raises GenlabError of one line for what a person has to mend: a package, a key, a file."""
    if params.backend == "replay":
        transcript.read(_recorded(params))
    elif params.backend != "search":
        _asked(params, _meter(params, Silent()), 0)


@contextmanager
def opened(
    params: AgentParams, workspace: Workspace, say: Progress, *, seed: int = 0, start: int = 0
) -> Iterator[Backend | None]:
    """The backend of `params`, at place `start` of the transcript; None for search.

    Raises what `check` raises.
    """
    if params.backend == "search":
        yield None
        return
    if params.backend == "replay":
        yield Replay(_recorded(params), start=start, say=say.line)
        return
    meter = _meter(params, say)
    with ExitStack() as stack:
        backend = _asked(params, meter, seed)
        if isinstance(backend, _Embedded):
            stack.enter_context(backend)
        path = workspace.root / TRANSCRIPT
        yield stack.enter_context(Recording(backend, path, start=start, meter=meter, say=say.line))


def _asked(params: AgentParams, meter: Meter, seed: int) -> _Embedded | OpenAIBackend:
    if params.backend == "embedded":
        return _Embedded(params.gguf, meter, seed)
    return _endpoint(params, meter, seed)


class _Embedded(AbstractContextManager["_Embedded"]):
    """The model of this machine, served from the first question on: a finished run needs none."""

    def __init__(self, gguf: str, meter: Meter, seed: int) -> None:
        self._file = embedded.weights(gguf or None)
        if find_spec("xllamacpp") is None:
            raise GenlabError(f"the extra embedded is not installed: {embedded.EXTRA}")
        self._meter, self._seed = meter, seed
        self._name = self._file.stem
        self._backend: Backend | None = None
        self._served = ExitStack()

    def ask(self, question: Question) -> Answer:
        if self._backend is None:
            url = self._served.enter_context(embedded.serve(self._file, seed=self._seed))
            self._backend = OpenAIBackend(
                {"planning": self._name, "tools": self._name},
                base_url=url,
                api_key="none",
                meter=self._meter,
                seed=self._seed,
                patience=Patience(timeout=embedded.TIMEOUT),
                schema_body=embedded.COMPACT_JSON,
            )
        return self._backend.ask(question)

    def __exit__(self, *_: object) -> None:
        self._served.close()


def _endpoint(params: AgentParams, meter: Meter, seed: int) -> OpenAIBackend:
    models: dict[Purpose, str] = {
        "planning": _model(params, "planning"),
        "tools": _model(params, "tools"),
    }
    found = OpenAIBackend(models, base_url=params.base_url or None, meter=meter, seed=seed)
    theirs = urlsplit(found.base_url).hostname == urlsplit(OPENAI_URL).hostname
    if theirs and UNNAMED in models.values():
        raise GenlabError(
            f"agent.planning_model is empty, and {urlsplit(OPENAI_URL).hostname} has no default:"
            " name a model, such as --planning-model gpt-5-mini"
        )
    return found


def _model(params: AgentParams, purpose: Purpose) -> str:
    planning = params.planning_model or UNNAMED
    return planning if purpose == "planning" else params.tools_model or planning


def _meter(params: AgentParams, say: Progress) -> Meter:
    priced = params.price_in > 0 or params.price_out > 0
    if params.backend == "openai" and params.max_cost and not priced:
        say.line("agent.max_cost holds nothing back: agent.price_in and agent.price_out are 0")
    price = Price(params.price_in, params.price_out)
    budget = Budget(
        tokens=params.max_tokens or None,
        cost=params.max_cost if params.max_cost and priced else None,
        seconds=params.max_seconds or None,
    )
    return Meter(budget, {"planning": price, "tools": price})


def _recorded(params: AgentParams) -> Path:
    if not params.transcript:
        raise GenlabError(
            "agent.transcript is empty: name the transcript.jsonl that is replayed (--transcript)"
        )
    return Path(os.path.expanduser(params.transcript))
