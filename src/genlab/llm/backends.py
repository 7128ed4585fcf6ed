"""Who answers: a model on this machine, an endpoint, a recorded journal, or nobody (search)."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from genlab.core.errors import GenlabError
from genlab.core.params import AgentParams, RoleParams
from genlab.core.paths import resolve_beside
from genlab.llm import embedded
from genlab.llm.chat import Budget, Endpoint, Role
from genlab.llm.journal import Journal, read_entries
from genlab.llm.transport import is_loopback

SMALL_OUTPUT_TOKENS = 1024  # SmolLM2 rambles on to any limit
EMBEDDED = {
    "timeout": 900.0,  # a model was seen to write one token per second
    "reasoning_effort": "",
    "price_in": 0.0,
    "price_out": 0.0,
    "key": "NO_KEY",  # a variable that nobody sets: nothing secret is sent
}


@contextmanager
def open_backend(
    params: AgentParams, path: Path, *, seed: int = 0, note: Callable[[str], None] = print
) -> Iterator[Journal | None]:
    """Open the backend of `params`, whose answers are recorded in `path`; None for search.

    Raises what `check_backend` raises.
    """
    if params.backend == "search":
        yield None
        return
    if params.backend == "replay":
        with Journal(_recorded(params), note=note) as journal:
            yield journal
        return
    budget = Budget(params.max_tokens, params.max_cost, params.max_seconds)
    secrets = [os.environ.get(role.key, "") for role in (params.planning, params.tools)]
    with ExitStack() as stack:
        roles, extra = resolve_roles(params), None
        if params.backend == "embedded":
            file, extra = embedded.find_weights(params.gguf), embedded.COMPACT_JSON
            tokens, context = SMALL_OUTPUT_TOKENS, embedded.CONTEXT
            if params.gguf:
                tokens = params.planning.max_output_tokens
                context = params.max_prompt_tokens + tokens
            url = stack.enter_context(embedded.serve(file, seed=seed, context=context))
            fixed = {**EMBEDDED, "max_output_tokens": tokens, "base_url": url, "model": file.stem}
            roles = dict.fromkeys(roles, params.planning.model_copy(update=fixed))
        endpoints = {
            role: Endpoint(role, each, budget, seed=seed, extra=extra, note=note)
            for role, each in roles.items()
        }
        for role, endpoint in endpoints.items():
            free = not endpoint.params.price_in + endpoint.params.price_out
            if params.max_cost and free and not is_loopback(endpoint.client.base_url):
                note(f"agent.max_cost does not limit agent.{role}, whose prices are 0")
        journal = stack.enter_context(Journal(path, endpoints, note=note, secrets=secrets))
        budget.spent.update(journal.sum_spent())
        # Of a run that goes on, what was answered once can be again.
        known = [e for e in journal.entries if e.value.get("outcome") == "answer"]
        answered = {entry.request.get("role") for entry in known}
        nothing_to_set_up = params.backend == "embedded" and not params.gguf
        for role, endpoint in endpoints.items():
            endpoint.answered = nothing_to_set_up or role in answered
        yield journal


def check_backend(params: AgentParams) -> None:
    """Raise a GenlabError for what a person has to correct: a package, a key, a file.

    Nothing is asked: `genlab doctor --endpoints` does that.
    """
    if params.backend == "replay":
        Journal(_recorded(params), note=lambda line: None).__exit__()
    elif params.backend == "embedded":
        embedded.find_weights(params.gguf)
    elif params.backend == "openai":
        for role, each in resolve_roles(params).items():
            Endpoint(role, each)


def describe_backend(params: AgentParams) -> str:
    """The backend in a few words, for people."""
    if params.backend == "embedded":
        return f"embedded, {Path(params.gguf).name or embedded.MODEL}"
    if params.backend == "openai":
        names = [role.model or "the endpoint's default" for role in resolve_roles(params).values()]
        return f"openai, {' and '.join(dict.fromkeys(names))}"
    if params.backend == "replay":
        return f"replay of {Path(params.transcript).name}"
    return "search, without a language model"


def writes_code(params: AgentParams) -> bool:
    """Whether the tools' model is asked for code.

    SmolLM2's never ran, repairs included. A replay asks what its journal answers.
    """
    if params.backend == "replay":
        return any(each.request.get("role") == "tools" for each in read_entries(_recorded(params)))
    return params.backend == "openai" or (params.backend == "embedded" and bool(params.gguf))


def resolve_roles(params: AgentParams) -> dict[Role, RoleParams]:
    """Both roles; tools without a model, and no other address, have planning's model and prices."""
    planning, tools = params.planning, params.tools
    if not tools.model and tools.base_url in ("", planning.base_url):
        shared = ("base_url", "model", "key", "price_in", "price_out")
        tools = tools.model_copy(update={name: getattr(planning, name) for name in shared})
    return {"planning": planning, "tools": tools}


def _recorded(params: AgentParams) -> Path:
    if not params.transcript:
        raise GenlabError("agent.transcript is empty; name the journal to replay (--transcript)")
    return resolve_beside(Path(), params.transcript)
