"""What an HTTP status of an endpoint stands for."""

from __future__ import annotations

import openai

from genlab.agent.connection import Connection, RetryError, retry_after
from genlab.agent.messages import LLMFailure, Purpose
from genlab.agent.redact import excerpt
from genlab.core.errors import GenlabError

FILTERS = ("content_filter", "content_policy_violation")


def is_filter(error: openai.APIStatusError) -> bool:
    """Whether a content filter stopped the question."""
    return _code(error) in FILTERS


def fault_of(
    error: openai.APIStatusError,
    connection: Connection,
    purpose: Purpose,
    model: str,
    *,
    known: bool,
) -> Exception:
    """A person's fault (GenlabError), a failure (LLMFailure), or a reason to wait (RetryError).

    known: whether this model has answered before; then its name and the key are right.
    """
    status, broke = error.status_code, _code(error) == "insufficient_quota"
    said = f"HTTP {status}: {connection.excerpt(str(error.message))}"
    if is_filter(error):
        return LLMFailure(f"the endpoint's content filter stopped the question: {said}")
    if not known and (status in (401, 403, 404) or broke):
        at = excerpt(connection.base_url)
        return GenlabError(_to_mend(status, said, at, purpose, model))
    if not broke and (status in (408, 409, 429) or status >= 500):
        return RetryError(said, wait=retry_after(error.response.headers))
    return LLMFailure(said)


def _to_mend(status: int, said: str, at: str, purpose: Purpose, model: str) -> str:
    """The line for a person, with the fix."""
    if status == 401:
        return f"OPENAI_API_KEY is refused at {at} ({said}); set a valid one"
    if status == 403:
        what = f"OPENAI_API_KEY may not use model {model!r} at {at}"
        return f"{what} ({said}); take another key or model"
    if status == 404:
        return (
            f"model {model!r} for {purpose} is not at OPENAI_BASE_URL {at} ({said}); correct the"
            " model's name, or the address (it often ends in /v1)"
        )
    return f"OPENAI_API_KEY has no quota left at {at} ({said}); add credit or take another"


def _code(error: openai.APIStatusError) -> str:
    return str(error.code or error.type or "")
