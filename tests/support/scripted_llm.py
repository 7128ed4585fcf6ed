"""A scripted expert behind a real endpoint on loopback: it plans and writes.

Its answers depend on the question alone, so that a run that was killed and resumes meets the same
model. In mode `tools` it answers by function calls. It checks the harness; it is no evidence about
language models.
"""

import json
import re
from typing import Any

from loopback import Reply, Request, Server
from replies import called, good

from genlab.agent.architecture.schema import parse_config
from genlab.agent.architecture.template import write_source

__all__ = ["EXPERT", "GENERATIVE", "Server", "answer", "join_messages", "name_schema", "reply"]

ATTEMPT = re.compile(r"^\d+ \((?:draft|improve|debug|tool)", re.MULTILINE)
IMAGES = re.compile(r"images of (\d+) x (\d+) x (\d+)")
CONTRACT = re.compile(r"of shape \(n, ([\d, ]+)\) in \[0, 1\].*?of shape \(n, (\d+)[,)]", re.DOTALL)


def conv(channels: int) -> list[dict[str, Any]]:
    """A convolution with batch normalisation and ReLU."""
    return [
        {"type": "Conv2d", "out_channels": channels, "kernel_size": 3, "padding": 1, "bias": False},
        {"type": "BatchNorm2d"},
        {"type": "ReLU"},
    ]


def residual(channels: int) -> list[dict[str, Any]]:
    """A residual block of two convolutions."""
    return [
        {"type": "Residual", "layers": [*conv(channels), *conv(channels)[:2]]},
        {"type": "ReLU"},
    ]


POOL = {"type": "MaxPool2d", "kernel_size": 2}
FLAT = {"type": "Flatten"}
PLAIN = [*conv(16), POOL, *conv(32), POOL, *conv(32)]
DEEP = [*conv(16), POOL, *conv(32), *residual(32), POOL, *conv(32), FLAT]
COSINE = {"schedule": "cosine", "warmup": 0.2}
EXPERT: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    (
        "A plain network of three convolutions, to see what the budget allows.",
        [*PLAIN, {"type": "AdaptiveMaxPool2d", "output_size": 3}],
        {"lr": 0.004, "batch_size": 64, **COSINE},
    ),
    (
        "Keep all positions of the last feature map, and halve the batch.",
        [*PLAIN, FLAT],
        {"lr": 0.004, "batch_size": 32, **COSINE},
    ),
    (
        "Add a residual block at 14 x 14, take more and smaller steps, and smooth the labels.",
        DEEP,
        {"lr": 0.003, "batch_size": 16, **COSINE, "weight_decay": 0.02, "label_smoothing": 0.05},
    ),
    (
        "The same with averaged weights.",
        DEEP,
        {"lr": 0.004, "batch_size": 16, **COSINE, "label_smoothing": 0.05, "ema": 0.99},
    ),
    (
        "A wider first layer.",
        [*conv(24), POOL, *conv(32), *residual(32), POOL, *conv(24), FLAT],
        {"lr": 0.003, "batch_size": 24, **COSINE},
    ),
]
"""Change, layers and training of each attempt at the default goal."""

ENCODER = [*conv(32), POOL, *conv(48), POOL, FLAT]
DOUBLE = [{"type": "Upsample", "scale_factor": 2}, *conv(32)]
GENERATIVE = [
    (
        "Two strided convolutions and their mirror image.",
        [*DOUBLE, *DOUBLE],
        {"lr": 0.003, "batch_size": 64, **COSINE},
    ),
    (
        "Smaller batches, and a residual block in the decoder.",
        [*DOUBLE, *residual(32), *DOUBLE],
        {"lr": 0.003, "batch_size": 32, **COSINE},
    ),
]
"""Change, decoder after its first maps, and training of each attempt at a generative goal."""


def unflatten(side: int) -> list[dict[str, Any]]:
    """The beginning of a decoder that ends in images of four times `side`."""
    return [
        {"type": "Linear", "out_features": 32 * side**2},
        {"type": "ReLU"},
        {"type": "Unflatten", "dim": 1, "unflattened_size": [32, side, side]},
    ]


def join_messages(request: Request) -> str:
    """Join all messages of the conversation."""
    return "\n".join(str(message.get("content") or "") for message in request.body["messages"])


def name_schema(request: Request) -> str:
    """Name the schema of the question: Proposal, Code, Analysis, or Call in mode `tools`."""
    if request.body.get("tools"):
        return "Call"
    if request.structured:
        return str(request.body["response_format"]["json_schema"]["name"])
    words = join_messages(request)
    signs = {"Write class ": "Code", "You review PyTorch code": "Analysis"}
    return next((name for sign, name in signs.items() if sign in words), "Proposal")


def propose(words: str, number: int) -> dict[str, Any]:
    """The proposal for attempt `number`, from 0."""
    shape = IMAGES.search(words)
    assert shape is not None
    size = [int(side) for side in shape.groups()]
    if "`encoder`" in words:
        change, layers, training = GENERATIVE[number % len(GENERATIVE)]
        decoder = [*unflatten(size[1] // 4), *layers]
        config = {"name": "Net", "encoder": ENCODER, "decoder": decoder}
        config["latent_dim"] = 32 + 8 * (number // len(GENERATIVE))  # none comes twice
    else:
        change, layers, training = EXPERT[number % len(EXPERT)]
        widest = layers[0]["out_channels"] + 4 * (number // len(EXPERT))  # none comes twice
        config = {"name": "Net", "layers": [{**layers[0], "out_channels": widest}, *layers[1:]]}
    return {"change": change, "model_config": config, "input_size": size, "eval_config": training}


def remark(number: int) -> dict[str, Any]:
    """What the expert says of the latest of `number` attempts."""
    if not number:
        return {}
    return {
        "lesson": "It trains without trouble within the budget.",
        "strengths": "Few parameters.",
        "weaknesses": "The training loss is still falling.",
        "decision": "go on",
    }


def asked_config(words: str) -> dict[str, Any]:
    """The config in a question about code."""
    config: dict[str, Any] = json.loads(next(x for x in words.splitlines() if x.startswith('{"')))
    return config


def code(words: str) -> dict[str, Any]:
    """The file of the config in the question."""
    raw = asked_config(words)
    task = "generate" if raw.get("encoder") else "classify"
    contract = CONTRACT.search(words)
    assert contract is not None
    channels, height, width = map(int, contract[1].split(","))
    config = parse_config(raw, task)
    return {"code": write_source(config, (channels, height, width), int(contract[2]), task)}


def call_tool(request: Request) -> Reply:
    """The next call of mode `tools`: assemble, summarise and evaluate one design after another."""
    messages = request.body["messages"]
    words = join_messages(request)
    done = sum(len(message.get("tool_calls") or ()) for message in messages)
    number, step = divmod(done, 3)
    proposal = propose(words, number)
    path = f"src/models/design_{number + 1}.py"
    name = proposal["model_config"]["name"]
    target = {"model_script_path": path, "model_class_name": name}
    calls = (
        ("pytorch_model_assembler",
         {"model_config": proposal["model_config"], "output_script_path": path}),
        ("pytorch_model_summary", {**target, "input_size": proposal["input_size"]}),
        ("pytorch_quick_evaluator", {**target, "eval_config": proposal["eval_config"]}),
    )  # fmt: skip
    function, arguments = calls[step]
    return called(function, arguments, f"call_{done}", proposal["change"] if step == 0 else "")


def answer(request: Request) -> dict[str, Any]:
    """A valid answer to any question of the loop."""
    schema = name_schema(request)
    words = join_messages(request)
    analysis = {"analysis": "Its capacity lies in its convolutions."}
    if schema == "Code":
        return code(words) | analysis
    if schema == "Analysis":
        return analysis
    number = len(ATTEMPT.findall(words))
    return propose(words, number) | remark(number)


def reply(request: Request) -> Reply:
    """The reply of a model that makes no mistakes."""
    if name_schema(request) == "Call":
        return call_tool(request)
    return good(json.dumps(answer(request)))
