"""What runs inside the sandbox: train a model that was written by a stranger, hand in its logits.

    python guest.py JOB.json

It imports nothing of ours: the sandbox shows the interpreter, this file and the job's folder alone.
JOB.json: `model`, `class_name`, `input` (an .npz of train items and labels, and of the items that
are to be answered), `output` (a folder), `scale`, `epochs`, `batch_size`, `lr`, `optimiser`,
`weight_decay`, `seconds`, `seed`, `device`, and `weights`: where given, nothing is trained.

It leaves `logits.safetensors` (of `train_probe` and `answer`), `weights.safetensors` and
`told.json` in the output's folder. Nothing in them is believed: who reads them marks the logits,
with labels that were never in here, and takes the time with a clock of its own. What breaks is told
on stderr in a line that names the line of the stranger's file.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

OPTIMISERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
MOMENTUM = 0.9
CHUNK = 500
BROKEN = 3  # exit code: the stranger's code broke, and not ours


class BrokenModelError(Exception):
    """The stranger's model does not do what a model must."""


def load(path: str, class_name: str) -> nn.Module:
    """The class of the file, built without arguments."""
    spec = importlib.util.spec_from_file_location("stranger", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, class_name, None)
    if not isinstance(found, type) or not issubclass(found, nn.Module):
        raise BrokenModelError(f"there is no nn.Module called {class_name} in it")
    model = found()
    assert isinstance(model, nn.Module)
    return model


def batches(items: Tensor, scale: float, size: int) -> Any:
    """Parts of the items as floats."""
    return (part.float() / scale for part in torch.split(items, size))


def train(model: nn.Module, x: Tensor, y: Tensor, job: dict[str, Any]) -> dict[str, Any]:
    """Train for `epochs`, or for `seconds`; a cosine schedule over what the epochs would take."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        return {"epochs": 0, "updates": 0}
    more = {"momentum": MOMENTUM} if job["optimiser"] == "sgd" else {}
    optimiser = OPTIMISERS[job["optimiser"]](
        trained, lr=job["lr"], weight_decay=job["weight_decay"], **more
    )
    size, started, updates, epoch = job["batch_size"], time.monotonic(), 0, 0
    total = job["epochs"] * max(1, len(x) // size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, total)
    model.train()
    for epoch in range(1, job["epochs"] + 1):
        for rows in torch.split(torch.randperm(len(x)), size):
            if len(rows) < min(size, len(x)):
                continue  # batch normalisation cannot train on a last batch of one
            logits = model(x[rows].float() / job["scale"])
            loss = F.cross_entropy(logits, y[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if updates < total - 1:
                schedule.step()
            updates += 1
            if time.monotonic() - started > job["seconds"]:
                return {"epochs": epoch, "updates": updates, "stopped": "time"}
    return {"epochs": epoch, "updates": updates}


@torch.no_grad()
def logits(model: nn.Module, items: Tensor, scale: float) -> Tensor:
    """What the model answers, (n, classes) float32 on the CPU."""
    model.eval()
    parts = []
    for part in batches(items, scale, CHUNK):
        answer = model(part)
        if not isinstance(answer, Tensor) or answer.ndim != 2 or len(answer) != len(part):
            shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
            raise BrokenModelError(f"forward gives {shape} for {len(part)} images, not logits")
        parts.append(answer.float().cpu())
    return torch.cat(parts)


def main(job_path: str) -> None:
    job = json.loads(Path(job_path).read_text(encoding="utf-8"))
    torch.manual_seed(job["seed"])
    device = torch.device(job["device"])
    with np.load(job["input"], allow_pickle=False) as arrays:
        x, probe, answer = (
            torch.from_numpy(arrays[name]).to(device) for name in ("train", "train_probe", "answer")
        )
        y = torch.from_numpy(arrays["labels"]).to(device)
    model = load(job["model"], job["class_name"]).to(device)
    if job.get("weights"):
        model.load_state_dict(load_file(job["weights"]))
        done: dict[str, Any] = {"epochs": 0, "updates": 0}
    else:
        done = train(model, x, y, job)
    output = Path(job["output"])
    found = {
        "train_probe": logits(model, probe, job["scale"]),
        "answer": logits(model, answer, job["scale"]),
    }
    save_file(found, output / "logits.safetensors")
    state = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    save_file(state, output / "weights.safetensors")
    (output / "told.json").write_text(json.dumps(done), encoding="utf-8")


def in_a_line(error: BaseException, model: str) -> str:
    """What broke, and where in the stranger's file `model`, if there."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next((frame for frame in reversed(frames) if frame.filename == model), frames[-1])
    text = " ".join(str(error).split())[:300]
    where = f"line {place.lineno} of {Path(place.filename).name}"
    return f"{type(error).__name__} at {where}: {text}"


def told(reason: object) -> NoReturn:
    """End with a reason as the last line, behind whatever the stranger printed."""
    sys.stdout.flush()
    print(reason, file=sys.stderr)
    sys.exit(BROKEN)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except BrokenModelError as error:
        told(error)
    except Exception as error:
        told(in_a_line(error, json.loads(Path(sys.argv[1]).read_text())["model"]))
