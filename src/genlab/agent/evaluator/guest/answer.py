"""Answer with kept weights: logits or codes of items, or the parameters that codes decode to.

Reads inputs.npz (items uint8, or codes float32) and `what`: logits, encode or decode. Writes
answers.safetensors: `logits`, or `mean` and `logvar`, or `out`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from .module import Job, decode, encode, logits, prepare
from .run import ANSWERS

CHUNK = 250


@torch.no_grad()
def run(job: Job) -> None:
    folder, model = Path(job["folder"]), prepare(job).eval()
    with np.load(folder / "inputs.npz", allow_pickle=False) as arrays:
        inputs = torch.from_numpy(arrays["inputs"])
    rows = [reply(model, part.to(job["device"]), job) for part in torch.split(inputs, CHUNK)]
    columns = [torch.cat(column).cpu() for column in zip(*rows, strict=True)]
    named = dict(zip(ANSWERS[job["what"]], columns, strict=True))
    save_file(named, folder / "answers.safetensors")


def reply(model: nn.Module, given: Tensor, job: Job) -> tuple[Tensor, ...]:
    """The answers for some of the inputs."""
    if job["what"] == "decode":
        return (decode(model, given, job),)
    x = given.float() / job["scale"]
    return encode(model, x) if job["what"] == "encode" else (logits(model, x, job["classes"]),)
