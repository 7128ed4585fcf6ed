"""Who answers: a model on this machine, an endpoint, a recorded journal, or nobody (search)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from genlab.core.params import AgentParams
from genlab.llm.chat import Backend
from genlab.llm.journal import Journal


@dataclass(frozen=True)
class Session:
    """A backend whose answers are recorded, and its journal."""

    backend: Backend
    journal: Journal

    @property
    def spent(self) -> dict[str, float]:
        """questions, tokens_in, tokens_out, seconds and cost of the answers so far."""
        raise NotImplementedError


@contextmanager
def open_backend(
    params: AgentParams, path: Path, *, seed: int = 0, note: Callable[[str], None] = print
) -> Iterator[Session | None]:
    raise NotImplementedError
    yield None


def check_backend(params: AgentParams) -> None:
    raise NotImplementedError


def describe_backend(params: AgentParams) -> str:
    raise NotImplementedError


def writes_code(params: AgentParams) -> bool:
    raise NotImplementedError
