"""Failures of a question to a language model, and what a person has to correct."""

from typing import Any

from genlab.core.errors import GenlabError
from genlab.llm.redaction import excerpt
from genlab.llm.transport import EndpointError

ZERO_USAGE: dict[str, Any] = {"tokens_in": 0, "tokens_out": 0, "seconds": 0.0, "cost": 0.0}
FIXES = {
    **dict.fromkeys(
        ("not_found", "retired"),
        "model {model!r} is not there; correct agent.{role}.model, or agent.{role}.base_url (it"
        " often ends in /v1)",
    ),
    "wrong_key": "{key} is rejected; set a valid key",
    "forbidden": "{key} may not use model {model!r}; choose another key or model",
    "quota": "{key} has no quota left; add credit",
    "cut": "raise agent.{role}.max_output_tokens (it is fixed for the embedded model without"
    " agent.gguf), or use another model",
    "full": "start it with a larger context, or lower agent.max_prompt_tokens",
    "no_tools": "use a model whose chat template knows tools (llama.cpp: --jinja), or mode loop",
    "unreachable": "start the endpoint, or correct agent.{role}.base_url or OPENAI_BASE_URL",
    "redirected": "set agent.{role}.base_url to {target}",
    "proxy": "correct that variable, or name the endpoint's host in NO_PROXY",
    "rate_limited": "try again later, or use another model",
    "unavailable": "see the endpoint's log, and try again later",
    "timeout": "raise agent.{role}.timeout, or use a faster model",
}
"""What a person has to correct, by the kind of the endpoint's error."""
DEFAULT_FIX = "correct agent.{role}, which genlab doctor --endpoints checks with short questions"


class UnansweredError(Exception):
    """A question was not answered.

    reason: one line. spent: what it cost nevertheless: tokens_in, tokens_out, seconds and cost.
    """

    def __init__(self, reason: str, **spent: float) -> None:
        super().__init__(reason)
        self.reason = reason
        self.spent = ZERO_USAGE | spent


class LLMFailure(UnansweredError):  # noqa: N818 (an outcome of a run, no bug)
    """The model or its endpoint failed, retries included; the run goes on without the answer."""


class SetupError(GenlabError):
    """A person has to correct a key, an address or a name before a model can answer."""


class BudgetSpentError(UnansweredError):
    """A limit of the run is reached: the run ends without a further question."""


def find_fix(error: EndpointError, role: str, key: str, model: str) -> str:
    """Return the fix for the kind of an error, or "" where there is no special one.

    key: name of the environment variable that holds the key.
    """
    return FIXES.get(error.kind, "").format(
        key=excerpt(key),
        model=model,
        role=role,
        target=excerpt(error.target.removesuffix("/chat/completions")),
    )
