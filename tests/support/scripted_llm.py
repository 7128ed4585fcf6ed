"""A scripted language model behind a real endpoint on loopback.

Its answers depend on the question alone, so that a run that was killed and resumes meets the same
model.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any

from llm_server import Reply, Request, Server, good

from genlab.agent.search import random_config
from genlab.agent.space import Input, ModelConfig, repaired
from genlab.agent.template import source

__all__ = ["IMAGES", "Server", "answer", "asked_for", "config_in", "everything", "fluent"]

MOST_PARAMETERS = 20_000
SHAPE = re.compile(r"shape \(batch, (\d+), (\d+), (\d+)\).*?\(batch, (\d+)\)", re.DOTALL)
IMAGES = re.compile(r"Images: (\d+) x (\d+) x (\d+), (\d+) classes")


def asked_for(request: Request) -> str:
    """The schema of the wanted answer: Proposal, Review, Code or Analysis."""
    if request.structured:
        return str(request.body["response_format"]["json_schema"]["name"])
    words = str(request.body["messages"])
    signs = {"Propose the next": "Proposal", "Assess the last": "Review", "Write class": "Code"}
    return next((name for sign, name in signs.items() if sign in words), "Analysis")


def everything(request: Request) -> str:
    """All messages of the conversation."""
    return "\n".join(str(message["content"]) for message in request.body["messages"])


def config_in(request: Request) -> tuple[ModelConfig, Input, int]:
    """The architecture to write, the shape of the images and the number of classes."""
    words = everything(request)
    line = next(line for line in words.splitlines() if line.startswith("{"))
    found = SHAPE.search(words)
    assert found is not None
    channels, height, width, classes = map(int, found.groups())
    return ModelConfig.model_validate_json(line), (channels, height, width), classes


def proposal(request: Request) -> dict[str, Any]:
    """A valid proposal, seeded by the question."""
    found = IMAGES.search(everything(request))
    assert found is not None
    channels, height, width, classes = map(int, found.groups())
    rng = random.Random(f":{everything(request)}")
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
    """A valid answer to any question of the loop."""
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
    """The reply of a model that makes no mistakes."""
    return good(json.dumps(answer(request)))
