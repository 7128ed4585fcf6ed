"""Run one job in the sandbox: `python run.py JOB.json`.

JOB.json: `do` (describe, train, answer), `model` (path of the generated file), `class_name`,
`task`, `shape` (channels, height, width), `classes`, `components` (channels of a mixture component,
of a generative task), `folder` (for inputs and outputs), `seed`, `threads`, `device`, and what the
action reads. What breaks is reported as the last line of stderr, with exit code BROKEN.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import traceback
from pathlib import Path
from typing import Any

NAME = "evaluator_guest"
BROKEN = 3  # the model broke, and not the judge's code
LONGEST = 300  # characters of a reason


def load_package() -> Any:
    """The package of this file, under another name and without a change of `sys.path`."""
    folder = Path(__file__).resolve().parent
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[NAME] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


def describe_error(error: BaseException, model: str) -> str:
    """What broke in one line, with the line of the generated file `model` if it is involved."""
    if isinstance(error, SyntaxError) and error.filename == model:
        line: int | None = error.lineno
        text = error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((f.lineno for f in reversed(frames) if f.filename == model), None)
        text = str(error)
    where = f" at line {line} of {Path(model).name}" if line else ""
    return f"{type(error).__name__}{where}: {' '.join(text.split())[:LONGEST]}"


def main(path: str) -> int:
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    reason = ""
    try:
        load_package()
        importlib.import_module(f"{NAME}.{job['do']}").run(job)
    except BaseException as error:
        reason = describe_error(error, job["model"])
        if type(error).__name__ == "BrokenModelError":
            reason = str(error)
    if not reason:
        return 0
    sys.stdout.flush()
    print(f"\n{reason}", file=sys.stderr, flush=True)
    return BROKEN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
