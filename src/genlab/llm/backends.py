"""Backends: an embedded model, an endpoint, the replay of a journal, or none (search)."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from genlab.core.errors import GenlabError
from genlab.core.params import AgentParams, RoleParams
from genlab.core.paths import resolve_beside
from genlab.llm import embedded
from genlab.llm.chat import Budget, Endpoint, Role
from genlab.llm.journal import Journal, read_entries
from genlab.llm.transport import is_loopback

SCRIPTED = "scripted"  # the model's name where a script answers: in tests and benchmarks
SMALL_OUTPUT_TOKENS = 1024  # SmolLM2 rambles on to any limit
EMBEDDED = {
    "timeout": 900.0,  # a model may write one token per second
    "reasoning_effort": "",
    "price_in": 0.0,
    "price_out": 0.0,
    "key": "NO_KEY",  # a variable that nobody sets: nothing secret is sent
}


@contextmanager
def open_backend(
    params: AgentParams, path: Path, *, seed: int = 0, note: Callable[[str], None] = print
) -> Iterator[Journal | None]:
    """Open the backend of `params`, which records its answers in `path`; yields None for search.

    Raises what `check_backend` raises.
    """
    if params.backend == "search":
        yield None
        return
    if params.backend == "replay":
        with Journal(_find_transcript(params), note=note) as journal:
            yield journal
        return
    budget = Budget(params.max_tokens, params.max_cost, params.max_seconds)
    secrets = [os.environ.get(role.key, "") for role in (params.planning, params.tools)]
    with ExitStack() as stack:
        roles = resolve_roles(params)
        extra = None
        if params.backend == "embedded":
            extra = embedded.COMPACT_JSON
            embedded_params = stack.enter_context(_serve_embedded(params, seed))
            roles = dict.fromkeys(roles, embedded_params)
        endpoints = {
            role: Endpoint(role, role_params, budget, seed=seed, extra=extra, note=note)
            for role, role_params in roles.items()
        }
        for role, endpoint in endpoints.items():
            free = not endpoint.params.price_in + endpoint.params.price_out
            if params.max_cost and free and not is_loopback(endpoint.client.base_url):
                note(f"agent.max_cost does not limit agent.{role}, whose prices are 0")
        journal = stack.enter_context(Journal(path, endpoints, note=note, secrets=secrets))
        budget.spent.update(journal.sum_spent())
        # In a resumed run, a role that has answered before needs no set-up.
        answers = [e for e in journal.entries if e.value.get("outcome") == "answer"]
        answered = {entry.request.get("role") for entry in answers}
        nothing_to_set_up = params.backend == "embedded" and not params.gguf
        for role, endpoint in endpoints.items():
            endpoint.answered = nothing_to_set_up or role in answered
        yield journal


@contextmanager
def _serve_embedded(params: AgentParams, seed: int) -> Iterator[RoleParams]:
    """Serve the embedded model within the block; yields the params of its endpoint."""
    file = embedded.find_weights(params.gguf)
    tokens = SMALL_OUTPUT_TOKENS
    context = embedded.CONTEXT
    if params.gguf:
        tokens = params.planning.max_output_tokens
        context = params.max_prompt_tokens + tokens
    with embedded.serve(file, seed=seed, context=context) as url:
        changes = {**EMBEDDED, "max_output_tokens": tokens, "base_url": url, "model": file.stem}
        yield params.planning.model_copy(update=changes)


def check_backend(params: AgentParams) -> None:
    """Raise a GenlabError for what a person has to correct: a package, a key, a file.

    It sends no request: `genlab doctor --endpoints` does that.
    """
    if params.backend == "replay":
        Journal(_find_transcript(params), note=lambda line: None).__exit__()
    elif params.backend == "embedded":
        embedded.find_weights(params.gguf)
    elif params.backend == "openai":
        for role, role_params in resolve_roles(params).items():
            Endpoint(role, role_params)


def describe_backend(params: AgentParams) -> str:
    """Describe who plans a run, for people: a language model, recorded answers, or search."""
    if params.backend == "embedded":
        default = f"{embedded.MODEL}, a language model of {embedded.PARAMETERS}"
        return f"embedded: {Path(params.gguf).name or default}"
    if params.backend == "openai":
        names = [role.model or "the endpoint's default" for role in resolve_roles(params).values()]
        return f"openai: {_join_models(names)}"
    if params.backend == "replay":
        transcript = _find_transcript(params)
        names = [str(entry.value.get("model", "")) for entry in read_entries(transcript)]
        return f"replay of {transcript.name}: recorded answers of {_join_models(names)}"
    return "search, without a language model"


def _join_models(names: Iterable[str]) -> str:
    """Join the different names of models; a script is called one."""
    unique = dict.fromkeys(filter(None, names))
    script = "a script in the place of a language model"
    return " and ".join(script if name == SCRIPTED else name for name in unique)


def writes_code(params: AgentParams) -> bool:
    """Whether the run asks the tools' model for code.

    It does not ask SmolLM2, whose code never ran, repairs included. A replay asks what its journal
    answers.
    """
    if params.backend == "replay":
        entries = read_entries(_find_transcript(params))
        return any(entry.request.get("role") == "tools" for entry in entries)
    return params.backend == "openai" or (params.backend == "embedded" and bool(params.gguf))


def resolve_roles(params: AgentParams) -> dict[Role, RoleParams]:
    """Resolve both roles: tools without model and address have planning's model and prices."""
    planning = params.planning
    tools = params.tools
    if not tools.model and tools.base_url in ("", planning.base_url):
        shared = ("base_url", "model", "key", "price_in", "price_out")
        tools = tools.model_copy(update={name: getattr(planning, name) for name in shared})
    return {"planning": planning, "tools": tools}


def _find_transcript(params: AgentParams) -> Path:
    if not params.transcript:
        raise GenlabError("agent.transcript is empty; name the journal to replay (--transcript)")
    return resolve_beside(Path(), params.transcript)
