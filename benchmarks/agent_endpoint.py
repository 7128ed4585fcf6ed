"""Serve a scripted language model until standard input ends; then print what it was asked.

    python benchmarks/agent_endpoint.py expert|engineer DESIGNS.json

It runs with the packages and tests/support of the tree whose agent asks, since prompts and answers
of two commits differ: names that it imports from there must exist in older commits. `expert`
answers an agent of genlab as that tree's scripted expert does. `engineer` answers aideml, which
needs a script per attempt. Both propose the designs of the file: change, layers and training of
each attempt. The first line of the output is the base URL. The second one is a list with a row per
request: characters of messages, characters of schemas and tools, and seconds of the answer.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import scripted_llm
from scripted_llm import Server

from genlab.agent.architecture.schema import parse_config
from genlab.agent.architecture.template import write_source

TASK = re.compile(r"images of (\d+) x (\d+) x (\d+), (\d+) classes; train on (\d+) examples")
LOSS = "validation loss:"
TRAINED = "trained for"
TRAIN = """
{source}

import math
import time
import numpy as np
import torch
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(0)
with np.load("./input/data.npz") as arrays:
    data = {{name: torch.from_numpy(arrays[name]) for name in arrays.files}}
steps, warmup = {examples} // {batch_size}, {warmup}
model = {name}()
optimiser = torch.optim.AdamW(
    model.parameters(), lr={lr}, weight_decay={weight_decay}, fused=True
)


def factor(step):
    share = step / steps
    if share < warmup:
        return max(share, 0.1 * warmup) / warmup
    return 0.5 * (1 + math.cos(math.pi * (share - warmup) / (1 - warmup)))


rate = torch.optim.lr_scheduler.LambdaLR(optimiser, factor)
begun = time.monotonic()
for rows in torch.randint(len(data["labels"]), (steps, {batch_size})):
    x = data["items"][rows].float() / 255
    loss = F.cross_entropy(model(x), data["labels"][rows], label_smoothing={label_smoothing})
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    rate.step()
print(f"{trained} {{time.monotonic() - begun:.6f}} s")
model.eval()
with torch.no_grad():
    logits = model(data["validation_items"].float() / 255)
print(f"{loss} {{F.cross_entropy(logits, data['validation_labels']):.6f}}")
"""
RECIPE = {"weight_decay": 0.01, "label_smoothing": 0.0}  # defaults of a design's training
Answer = Callable[[Any], Any]  # from a request to a reply, types of the tree's tests/support


def join_messages(request: Any) -> str:
    """Join all messages of the conversation; older commits have this under another name."""
    return "\n".join(str(message.get("content") or "") for message in request.body["messages"])


def make_engineer() -> Answer:
    """Make a model for aideml: it answers with a script for the next design, or with a review."""
    from replies import called, good  # older commits do not have them

    designs = cycle(scripted_llm.EXPERT)

    def reply(request: Any) -> Any:
        prompt = join_messages(request)
        if request.body.get("tools"):
            value = float(prompt.rpartition(LOSS)[2].split()[0])
            review = {"is_bug": False, "summary": "It trains without trouble.", "metric": value}
            return called("submit_review", review | {"lower_is_better": True})
        change, layers, training = next(designs)
        fence = f"```python\n{write_script(prompt, layers, training)}\n```"
        return good(f"{change}\n{fence}")

    return reply


def write_script(prompt: str, layers: list[dict[str, Any]], training: dict[str, Any]) -> str:
    """Write a script that trains a design for the task in the prompt, and prints its loss."""
    task = TASK.search(prompt)
    assert task is not None
    channels, height, width, classes, examples = map(int, task.groups())
    config = parse_config({"name": "Net", "layers": layers}, "classify")
    source = write_source(config, (channels, height, width), classes, "classify")
    fields = {"source": source, "name": "Net", "trained": TRAINED, "loss": LOSS}
    return TRAIN.format(**RECIPE | training | fields, examples=examples)


def main(script: str, designs: str) -> None:
    """Serve the model, then print what it was asked."""
    stored = json.loads(Path(designs).read_text(encoding="utf-8"))
    scripted_llm.EXPERT[:] = [tuple(design) for design in stored]
    answer = make_engineer() if script == "engineer" else scripted_llm.reply
    questions: list[tuple[int, int, float]] = []

    def record(request: Any) -> Any:
        started_at = time.perf_counter()
        reply = answer(request)
        seconds = time.perf_counter() - started_at
        schemas = 0
        for key in ("response_format", "tools"):
            if key in request.body:
                schemas += len(json.dumps(request.body[key]))
        questions.append((len(join_messages(request)), schemas, seconds))
        return reply

    with Server(record) as server:
        print(server.url, flush=True)
        sys.stdin.read()
    print(json.dumps(questions))


if __name__ == "__main__":
    main(*sys.argv[1:])
