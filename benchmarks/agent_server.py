"""A language model that is a script: a real endpoint on loopback that answers in good order.

What it answers depends on the question alone, so that a run that was killed and goes on meets the
same model. The server is the one that the tests use.
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
import llm_server
from llm_server import Reply, Request, Server, good

from genlab.agent.search import random_config
from genlab.agent.space import Input, ModelConfig, repaired
from genlab.agent.template import source

__all__ = [
    "IMAGES", "Reply", "Request", "Server", "answer", "asked_for", "config_in", "everything",
    "fluent", "good", "llm_server",
]  # fmt: skip

MOST_PARAMETERS = 20_000
SHAPE = re.compile(r"shape \(batch, (\d+), (\d+), (\d+)\).*?\(batch, (\d+)\)", re.DOTALL)
IMAGES = re.compile(r"Images: (\d+) x (\d+) x (\d+), (\d+) classes")


def asked_for(request: Request) -> str:
    """The schema of the answer that is wanted: Proposal, Review, Code or Analysis."""
    if request.structured:
        return str(request.body["response_format"]["json_schema"]["name"])
    words = str(request.body["messages"])
    signs = {"Propose the next": "Proposal", "Assess the last": "Review", "Write class": "Code"}
    return next((name for sign, name in signs.items() if sign in words), "Analysis")


def everything(request: Request) -> str:
    """All that was said so far."""
    return "\n".join(str(message["content"]) for message in request.body["messages"])


def config_in(request: Request) -> tuple[ModelConfig, Input, int]:
    """The architecture that code is asked for, the images' shape and the classes."""
    words = everything(request)
    line = next(line for line in words.splitlines() if line.startswith("{"))
    found = SHAPE.search(words)
    assert found is not None
    channels, height, width, classes = map(int, found.groups())
    return ModelConfig.model_validate_json(line), (channels, height, width), classes


def proposal(request: Request, seed: str = "") -> dict[str, Any]:
    """A sound proposal, drawn by the question."""
    found = IMAGES.search(everything(request))
    assert found is not None
    channels, height, width, classes = map(int, found.groups())
    rng = random.Random(f"{seed}:{everything(request)}")
    drawn = random_config(rng, (channels, height, width)).model_dump(exclude={"name"})
    config = repaired(drawn, (channels, height, width), classes, MOST_PARAMETERS).config
    return {
        "branch_from": None,
        "modifications": f"drawn by the script: {len(config.blocks)} blocks",
        "architecture": config.model_dump(mode="json", exclude={"name"}),
        "calls": {
            "input_size": [channels, height, width],
            "eval_config": {"lr": 0.005, "batch_size": 32, "optimiser": "adamw"},
        },
    }


def answer(request: Request) -> dict[str, Any]:
    """A sound answer to any question of the loop."""
    wanted = asked_for(request)
    if wanted == "Proposal":
        return proposal(request)
    if wanted == "Code":
        config, shape, classes = config_in(request)
        return {"code": source(config, shape, classes)}
    if wanted == "Review":
        return {"assessment": "Measured, not guessed.", "strengths": ["small"],
                "weaknesses": ["brief"], "decision": "iterate", "revised_goal": ""}  # fmt: skip
    return {"analysis": "Its capacity lies in its convolutions."}


def fluent(request: Request) -> Reply:
    """A whole answer of a model that makes no mistake."""
    return good(json.dumps(answer(request)))
