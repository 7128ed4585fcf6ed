"""Answer with kept weights: logits or codes of items, or the parameters that codes decode to.

Reads items.npy (uint8) or codes.npy (float32) of the job's folder, and `scale`. Writes
answers.safetensors: `logits`, or `mean` and `logvar`, or `out`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from .module import Job, decode, encode, logits, prepare

CHUNK = 250


@torch.no_grad()
def run(job: Job) -> None:
    folder, model = Path(job["folder"]), prepare(job).eval()
    name = "codes.npy" if job["what"] == "decode" else "items.npy"
    inputs = torch.from_numpy(np.load(folder / name, allow_pickle=False))
    rows: list[tuple[Tensor, ...]] = []
    for part in torch.split(inputs, CHUNK):
        x = part.to(job["device"])
        if job["what"] == "decode":
            rows.append((decode(model, x, job),))
        elif job["what"] == "encode":
            rows.append(encode(model, x.float() / job["scale"]))
        else:
            rows.append((logits(model, x.float() / job["scale"], job["classes"]),))
    names = {"decode": ("out",), "encode": ("mean", "logvar"), "logits": ("logits",)}[job["what"]]
    columns = (torch.cat([each.cpu() for each in column]) for column in zip(*rows, strict=True))
    save_file(dict(zip(names, columns, strict=True)), folder / "answers.safetensors")
