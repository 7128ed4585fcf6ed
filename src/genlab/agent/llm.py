"""Questions to a language model behind any OpenAI-compatible endpoint: retries, budgets, schemas.

What an endpoint may do wrong (limits of rate, torn, hung, empty, refused, cut-off or misshapen
answers) ends either in a good answer or in one `LLMFailure`; never in a hang or another exception.
What a person has to mend (a key, an address, a model's name) is a `GenlabError`. Not protected:
an answer that is well formed and wrong, an endpoint that sends its headers byte by byte, and a
question that was paid for but not answered before the process was killed. A backend serves one
thread.
"""

from __future__ import annotations

from genlab.agent.answers import MAX_TEXT, MalformedError, parse
from genlab.agent.budget import Budget, Meter, Price
from genlab.agent.connection import MAX_BODY, OPENAI_URL
from genlab.agent.endpoint import OpenAIBackend, Patience
from genlab.agent.messages import (
    Answer,
    Backend,
    BudgetSpent,
    LLMFailure,
    Message,
    Purpose,
    Question,
    UnansweredError,
)
from genlab.agent.redact import EXCERPT, excerpt, redact

__all__ = [
    "EXCERPT",
    "MAX_BODY",
    "MAX_TEXT",
    "OPENAI_URL",
    "Answer",
    "Backend",
    "Budget",
    "BudgetSpent",
    "LLMFailure",
    "MalformedError",
    "Message",
    "Meter",
    "OpenAIBackend",
    "Patience",
    "Price",
    "Purpose",
    "Question",
    "UnansweredError",
    "excerpt",
    "parse",
    "redact",
]
