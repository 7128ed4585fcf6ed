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

FULL, SMALL = 40, 2
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
    rng, wrong = random.Random(0), list[str]()
    acknowledged = tmp_path / "acknowledged.txt"
    store = tmp_path / "store" / "genlab.sqlite3"
    store.parent.mkdir()
    with acknowledged.open("w") as lines:
        rater = subprocess.Popen([sys.executable, "-c", RATER, str(store)], stdout=lines)
    try:
        deadline = time.monotonic() + DEADLINE
        while not acknowledged.stat().st_size:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for number in range(count := FULL if full_size else SMALL):
            time.sleep(rng.uniform(0, 0.5))
            rater.send_signal(signal.SIGSTOP)  # so that the store's files are of one moment
            copy = shutil.copytree(store.parent, tmp_path / f"copy{number}")
            known = acknowledged.read_text().splitlines()
            rater.send_signal(signal.SIGCONT)
            with Store(copy / store.name) as found:
                kept = {rating.subject_hash for rating in found.ratings()}
            lost = {f"{int(line):064x}" for line in known} - kept
            wrong += [f"copy {number} lost {len(lost)} of {len(known)}"] if lost else []
    finally:
        rater.kill()
        rater.wait()
    record("faults.store_copies", len(wrong), n=count)
    assert wrong == []
