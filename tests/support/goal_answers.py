"""A planning model on loopback that reads the goal sentences of the sets as the sets say."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agent_runs import agent_params
from judged import read_set
from loopback import Reply, Request, Server
from replies import good

from genlab.agent.goals.model_reading import StatedGoal
from genlab.core.params import AgentParams

SETS = ("goals", "goals_wordings")
NOTHING: dict[str, Any] = {**dict.fromkeys(StatedGoal.model_fields), "quotes": []}


def reply(request: Request) -> Reply:
    """What the sets say that a model answers to a question's sentence; nothing to all others."""
    sentence = request.prompt.rpartition("Sentence: ")[2]
    entries = (entry for name in SETS for entry in read_set(name))
    answers = [
        entry["answer"] for entry in entries if entry["goal"] == sentence and "answer" in entry
    ]
    return good(NOTHING | (answers[0] if answers else {}))


@contextmanager
def open_reader() -> Iterator[AgentParams]:
    """Serve the model; holds parameters of a run that asks it."""
    with Server(reply) as server:
        yield agent_params(backend="openai", base_url=server.url)
