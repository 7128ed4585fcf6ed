"""Run one job in the sandbox: `python run.py JOB.json`.

JOB.json: `do` (start, describe, train or answer), `folder` (of model.py, inputs.npz and the job's
results), `class_name`, `task`, `shape` (channels, height, width), `classes`, `components` (channels
per mixture component), `scale`, `seed`, `device`, and what the action reads. A fault is the last
line of stderr, with exit code BROKEN. The guard has run this file as `preload` before.
"""

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

NAME = "evaluator_guest"
DISTRIBUTIONS = "genlab.distributions"
BROKEN = 3
ANSWERS = {"logits": ("logits",), "encode": ("mean", "logvar"), "decode": ("out",)}


def describe_error(error: BaseException, model: str) -> str:
    """Describe an error in one line, with the line of the generated file `model` if it has one."""
    if type(error).__name__ == "BrokenModelError":
        return " ".join(str(error).split())
    frames = reversed(traceback.extract_tb(error.__traceback__))
    line = next((frame.lineno for frame in frames if frame.filename == model), None)
    text = str(error)
    if isinstance(error, SyntaxError) and error.filename == model:
        line = error.lineno
        text = error.msg
    where = f" at line {line} of model.py" if line else ""
    return f"{type(error).__name__}{where}: {' '.join(text.split())}"


def preload() -> None:
    """Import the jobs in the guard, before any code of a guest runs.

    Only these two packages exist: sys.path is unchanged, and the rest of genlab is absent.
    """
    here = Path(__file__).resolve().parent
    for name, folder in ((NAME, here), (DISTRIBUTIONS, here.parents[2] / "distributions")):
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = [str(folder)]
    for module in (f"{NAME}.jobs", f"{DISTRIBUTIONS}.discretized_logistic"):
        importlib.import_module(module)


def main(path: str) -> str:
    """Run the job; return its fault, empty where there is none."""
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    try:
        getattr(sys.modules[f"{NAME}.jobs"], job["do"])(job)
    except BaseException as error:
        return describe_error(error, job["folder"] + "/model.py")
    return ""


if __name__ == "preload":
    preload()
if __name__ == "__main__":
    fault = main(sys.argv[1])
    sys.stdout.flush()
    if fault:
        print("\n" + fault, file=sys.stderr, flush=True)
    os._exit(BROKEN if fault else 0)  # what torch does when a process ends takes 0.15 s
