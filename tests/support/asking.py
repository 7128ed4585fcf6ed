"""A model behind the server on loopback, and a small schema to ask it for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from loopback import Server
from pydantic import BaseModel, ConfigDict, Field

from genlab.core.params import load_params
from genlab.llm.chat import Budget, Endpoint
from genlab.llm.client import Retries

ROOT = Path(__file__).parents[2]
NOBODY = "http://127.0.0.1:9"  # a port on which nothing answers
GOOD = {"blocks": 2, "lr": 0.5}
ASKED: list[dict[str, Any]] = [{"role": "user", "content": "Design a net."}]
ADD: dict[str, Any] = {"type": "function", "function": {"name": "add", "parameters": {}}}


class Plan(BaseModel):
    """A small schema that is closed."""

    model_config = ConfigDict(extra="forbid")

    blocks: int = Field(ge=1, le=4)
    lr: float = 0.1


def endpoint(
    server: Server | str,
    budget: Budget | None = None,
    *,
    retries: int = 1,
    answered: bool = True,
    note: Callable[[str], None] = print,
    **changes: Any,
) -> Endpoint:
    """An endpoint in the middle of a run or, without `answered`, at its beginning."""
    url = server if isinstance(server, str) else server.url
    fixed = {"base_url": url, "model": "big", "timeout": 5.0}
    role = load_params(ROOT / "params.yaml").agent.planning.model_copy(update=fixed | changes)
    asker = Endpoint("planning", role, budget, seed=7, retries=Retries(retries, retries), note=note)
    asker.answered = answered
    return asker
