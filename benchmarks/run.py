"""Start the benchmarks' command line: `python benchmarks/run.py NAME`, `--list` or `--all`.

Worker processes that a benchmark spawns import this file again, so that everything slow to import
stays below the guard.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.append(str(ROOT / "tests" / "support"))  # servers on loopback

if __name__ == "__main__":
    from benchmarks.harness import app, load_benchmarks
    from genlab.core.errors import run_cli

    load_benchmarks()
    run_cli(app)
