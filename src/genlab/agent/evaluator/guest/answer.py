"""Answer with kept weights: logits or codes of items, or the parameters that codes decode to.

Reads inputs.npz (items uint8, or codes float32) and `what`: logits, encode or decode. Writes
answers.safetensors: `logits`, or `mean` and `logvar`, or `out`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from .module import Job, decode, encode, logits, prepare

CHUNK = 250


@torch.no_grad()
def run(job: Job) -> None:
    folder, model, rows = Path(job["folder"]), prepare(job).eval(), []
    with np.load(folder / "inputs.npz", allow_pickle=False) as arrays:
        inputs = torch.from_numpy(arrays["codes" if job["what"] == "decode" else "items"])
    for part in torch.split(inputs, CHUNK):
        x = part.to(job["device"]).float()
        if job["what"] == "decode":
            rows.append({"out": decode(model, x, job)})
        elif job["what"] == "encode":
            rows.append(dict(zip(("mean", "logvar"), encode(model, x / job["scale"]), strict=True)))
        else:
            rows.append({"logits": logits(model, x / job["scale"], job["classes"])})
    columns = {name: torch.cat([row[name].cpu() for row in rows]) for name in rows[0]}
    save_file(columns, folder / "answers.safetensors")
