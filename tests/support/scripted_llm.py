"""A scripted expert behind a real endpoint on loopback: it plans models and writes their code.

Its answers depend on the question alone, so that a run that is killed and resumed gets the same
ones. In mode `tools` it answers by function calls. It checks the harness; it is no evidence about
language models. `benchmarks/agent_endpoint.py` also imports it from older commits, so EXPERT,
Server and reply keep their names.
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
    """Make a convolution with batch normalisation and ReLU."""
    return [
        {"type": "Conv2d", "out_channels": channels, "kernel_size": 3, "padding": 1, "bias": False},
        {"type": "BatchNorm2d"},
        {"type": "ReLU"},
    ]


def residual(channels: int) -> list[dict[str, Any]]:
    """Make a residual block of two convolutions."""
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
    """Make the first layers of a decoder whose images have four times this side."""
    return [
        {"type": "Linear", "out_features": 32 * side**2},
        {"type": "ReLU"},
        {"type": "Unflatten", "dim": 1, "unflattened_size": [32, side, side]},
    ]


def join_messages(request: Request) -> str:
    """Join all messages of the conversation."""
    return "\n".join(str(message.get("content") or "") for message in request.body["messages"])


def name_schema(request: Request) -> str:
    """Name the schema of the answer: Proposal, Code, Analysis, or Call in mode `tools`."""
    if request.body.get("tools"):
        return "Call"
    if request.structured:
        return str(request.body["response_format"]["json_schema"]["name"])
    prompt = join_messages(request)
    if "Write class " in prompt:
        return "Code"
    return "Analysis" if "You review PyTorch code" in prompt else "Proposal"


def propose(prompt: str, number: int) -> dict[str, Any]:
    """Propose attempt `number`, counted from 0."""
    images = IMAGES.search(prompt)
    assert images is not None
    size = [int(side) for side in images.groups()]
    if "`encoder`" in prompt:
        change, layers, training = GENERATIVE[number % len(GENERATIVE)]
        decoder = [*unflatten(size[1] // 4), *layers]
        config = {"name": "Net", "encoder": ENCODER, "decoder": decoder}
        config["latent_dim"] = 32 + 8 * (number // len(GENERATIVE))  # no repeated design
    else:
        change, layers, training = EXPERT[number % len(EXPERT)]
        widest = layers[0]["out_channels"] + 4 * (number // len(EXPERT))  # no repeated design
        config = {"name": "Net", "layers": [{**layers[0], "out_channels": widest}, *layers[1:]]}
    return {"change": change, "model_config": config, "input_size": size, "eval_config": training}


def remark(number: int) -> dict[str, Any]:
    """Review the latest of `number` attempts."""
    if not number:
        return {}
    return {
        "lesson": "It trains without trouble within the budget.",
        "strengths": "Few parameters.",
        "weaknesses": "The training loss is still falling.",
        "decision": "go on",
    }


def find_config(prompt: str) -> dict[str, Any]:
    """Find the config in a question for code."""
    line = next(line for line in prompt.splitlines() if line.startswith('{"'))
    config: dict[str, Any] = json.loads(line)
    return config


def write_code(prompt: str) -> dict[str, Any]:
    """Write the file of the config in a question."""
    stated = find_config(prompt)
    task = "generate" if stated.get("encoder") else "classify"
    contract = CONTRACT.search(prompt)
    assert contract is not None
    channels, height, width = map(int, contract[1].split(","))
    config = parse_config(stated, task)
    return {"code": write_source(config, (channels, height, width), int(contract[2]), task)}


def call_tool(request: Request) -> Reply:
    """Reply with the next call: assemble, summarise and evaluate one design after another."""
    messages = request.body["messages"]
    calls_so_far = sum(len(message.get("tool_calls") or ()) for message in messages)
    number, step = divmod(calls_so_far, 3)
    proposal = propose(join_messages(request), number)
    path = f"src/models/design_{number + 1}.py"
    target = {"model_script_path": path, "model_class_name": proposal["model_config"]["name"]}
    calls = (
        ("pytorch_model_assembler",
         {"model_config": proposal["model_config"], "output_script_path": path}),
        ("pytorch_model_summary", {**target, "input_size": proposal["input_size"]}),
        ("pytorch_quick_evaluator", {**target, "eval_config": proposal["eval_config"]}),
    )  # fmt: skip
    function, arguments = calls[step]
    text = proposal["change"] if step == 0 else ""
    return called(function, arguments, f"call_{calls_so_far}", text)


def answer(request: Request) -> dict[str, Any]:
    """Give a valid answer to any question of the loop."""
    name = name_schema(request)
    prompt = join_messages(request)
    analysis = {"analysis": "Its capacity lies in its convolutions."}
    if name == "Code":
        return write_code(prompt) | analysis
    if name == "Analysis":
        return analysis
    number = len(ATTEMPT.findall(prompt))
    return propose(prompt, number) | remark(number)


def reply(request: Request) -> Reply:
    """Reply as a model that makes no mistakes."""
    if name_schema(request) == "Call":
        return call_tool(request)
    return good(json.dumps(answer(request)))
