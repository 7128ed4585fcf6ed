"""Answer with kept weights: logits or codes of items, or the parameters that codes decode to.

Reads inputs.npz (items uint8, or codes float32) and `what`: logits, encode or decode. Writes
answers.safetensors: `logits`, or `mean` and `logvar`, or `out`.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from .module import Job, decode, encode, logits, prepare, read_inputs
from .run import ANSWERS

CHUNK = 250


@torch.no_grad()
def run(job: Job) -> None:
    (inputs,), model, what = read_inputs(job, "inputs"), prepare(job).eval(), job["what"]

    def reply(part: Tensor) -> tuple[Tensor, ...]:
        if what == "decode":
            return (decode(model, part, job),)
        x = part.float() / job["scale"]
        return encode(model, x) if what == "encode" else (logits(model, x, job),)

    rows = [reply(part) for part in torch.split(inputs, CHUNK)]
    columns = [torch.cat(column).cpu() for column in zip(*rows, strict=True)]
    named = dict(zip(ANSWERS[what], columns, strict=True))
    save_file(named, Path(job["folder"], "answers.safetensors"))
