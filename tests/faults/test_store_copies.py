"""A copy of the store at any moment opens and holds every rating that was acknowledged by then."""

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from genlab.benchmark.store.repository import Store

FULL = 40
SMALL = 2
DEADLINE = 60  # seconds
# Rates items under new names until it is ended; a line of stdout acknowledges a rating.
RATER = """
import itertools, sys
from genlab.benchmark.store.repository import Store
with Store(sys.argv[1]) as store:
    for number in itertools.count():
        store.rate("run_item", f"{number:064x}", "ann", 5, "blind", session="s")
        print(number, flush=True)
"""


def test_copies_at_random_moments(
    tmp_path: Path, full_size: bool, record: Callable[..., None]
) -> None:
    rng = random.Random(0)
    faults: list[str] = []
    acknowledged = tmp_path / "acknowledged.txt"
    store = tmp_path / "store" / "genlab.sqlite3"
    store.parent.mkdir()
    with acknowledged.open("w") as stdout:
        rater = subprocess.Popen([sys.executable, "-c", RATER, str(store)], stdout=stdout)
    try:
        deadline = time.monotonic() + DEADLINE
        while not acknowledged.stat().st_size:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for number in range(count := FULL if full_size else SMALL):
            time.sleep(rng.uniform(0, 0.5))
            rater.send_signal(signal.SIGSTOP)  # so that the store's files are of one moment
            copy = shutil.copytree(store.parent, tmp_path / f"copy{number}")
            lines = acknowledged.read_text().splitlines()
            rater.send_signal(signal.SIGCONT)
            with Store(copy / store.name) as store_copy:
                rated = {rating.subject_hash for rating in store_copy.ratings()}
            lost = {f"{int(line):064x}" for line in lines} - rated
            faults += [f"copy {number} lost {len(lost)} of {len(lines)}"] if lost else []
    finally:
        rater.kill()
        rater.wait()
    record("faults.store_copies", len(faults), n=count)
    assert faults == []
