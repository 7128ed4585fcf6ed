"""How long the checks of every change take, from a clean clone on."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import ROOT, Result, benchmark
from genlab.core.errors import GenlabError

SET_BY_MAKE = ("PYTHONPATH", "VIRTUAL_ENV", "OMP_NUM_THREADS")
"""Variables that the clone chooses itself."""


@benchmark("ci.minutes")
def ci() -> Iterator[Result]:
    """Run .ci/run in a clone of the last commit: set-up, style, documentation and tests."""
    environment = {name: v for name, v in os.environ.items() if name not in SET_BY_MAKE}
    with tempfile.TemporaryDirectory(prefix="genlab-ci-") as folder:
        clone = Path(folder, "genlab")
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        started = time.monotonic()
        done = subprocess.run([clone / ".ci" / "run"], cwd=clone, env=environment)
        minutes = (time.monotonic() - started) / 60
    if done.returncode:
        raise GenlabError(f"ci: .ci/run ended with {done.returncode} in a clean clone: see above")
    yield Result("ci.minutes", minutes)
