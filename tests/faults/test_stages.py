"""Stages that are killed, short of disk or memory, or run twice at once lose nothing.

A fault happens to one stage of a tiny experiment. Then the stage runs again, undisturbed, and has
to end with the files of an experiment that nothing happened to.
"""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import tiny
from clones import find_files
from disks import mounted
from stage_runs import ROOT, Done, end, run_stage, start_stage, wait_for_epochs

STAGES = ("params", "generate", "split", "train", "evaluate", "failure_gallery")
FULL = 6  # faults of each kind that happen to each stage at full size
SMALL = "train"  # the one stage that each happens to once in the ordinary tests
PAGE = 4096  # bytes; what a file on a small disk is rounded up to
MIB = 1 << 20
# A stage whose memory is limited between its imports and its end. Arguments: how many bytes more;
# script. torch imports torch._dynamo late, at which Python itself fails short of memory, and more
# modules when the program exits.
LIMITED = """
import resource, runpy, sys
from pathlib import Path
import torch._dynamo
more, *sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0])
pages = int(Path("/proc/self/statm").read_text().split()[0])
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + int(more), hard))
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
"""


@dataclass(frozen=True)
class Calm:
    """An undisturbed experiment: the folder before each stage and its files after it.

    place: the folder after the last stage. bytes: that each stage adds to a disk. seconds: that it
    takes.
    """

    place: Path
    before: dict[str, Path]
    after: dict[str, dict[str, str]]
    bytes: dict[str, int]
    seconds: dict[str, float]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory, full_size: bool) -> Calm:
    folder = tmp_path_factory.mktemp("calm")
    place = folder / "place"
    calm_run = Calm(place, {}, {}, {}, {})
    place.mkdir()
    tiny.write_params(place, datasets=["arc_grids"])
    for stage in STAGES if full_size else STAGES[: STAGES.index(SMALL) + 1]:
        calm_run.before[stage] = Path(shutil.copytree(place, folder / stage))
        began = time.monotonic()
        timed = full_size or stage == SMALL  # the others need no process of their own
        done = end(start_stage(place, stage)) if timed else run_stage(place, stage)
        assert done.status == 0, done.stderr
        calm_run.seconds[stage] = time.monotonic() - began
        calm_run.after[stage] = find_files(place)
        calm_run.bytes[stage] = size(place) - size(calm_run.before[stage])
    return calm_run


# -- what happens to a stage in a place; each says what is wrong with how the stage ended


def refusal(done: Done) -> list[str]:
    """Nothing, where a stage ended well or with one line."""
    with suppress(AssertionError):
        if done.status == 0 or (done.status == 2 and done.line):
            return []
    return [f"exit {done.status}: {done.stderr[-500:]}"]


def kill(calm: Calm, stage: str, place: Path, rng: random.Random) -> list[str]:
    process = start_stage(place, stage)
    seconds = calm.seconds[stage]
    if stage == SMALL:  # of whose seconds four fifths are imports
        wait_for_epochs(place, process, 1)
        seconds /= 10
    time.sleep(rng.uniform(0, seconds))
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return []


def fill_the_disk(calm: Calm, stage: str, place: Path, rng: random.Random) -> list[str]:
    """The stage writes to a disk with room for a part of its files; then there is more room."""
    disk = place.with_name("disk")
    disk.mkdir(exist_ok=True)
    room = size(place) + int(rng.uniform(0, calm.bytes[stage]))
    with mounted(disk, f"size={room}"):
        shutil.copytree(place, disk, dirs_exist_ok=True)
        wrong = refusal(end(start_stage(disk, stage)))
        shutil.rmtree(place)
        shutil.copytree(disk, place)
    return wrong


def limit_memory(calm: Calm, stage: str, place: Path, rng: random.Random) -> list[str]:
    script = ROOT / "stages" / f"{stage}.py"
    more = str(int(MIB * 2 ** rng.uniform(0, 9)))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, more, str(script)],
        cwd=place, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    )  # fmt: skip
    if done.stderr.startswith("OpenBLAS error: Memory allocation"):
        return []  # the library says so itself, and ends the process
    aborted = done.returncode == -signal.SIGABRT and "std::bad_alloc" in done.stderr
    crashed = done.returncode == -signal.SIGSEGV and "genlab" not in done.stderr
    if aborted or crashed:
        return []  # a C++ library ends the process, too; what follows has to be as undisturbed
    return refusal(Done(done.returncode, done.stdout, done.stderr))


def run_twice(calm: Calm, stage: str, place: Path, rng: random.Random) -> list[str]:
    processes = [start_stage(place, stage), start_stage(place, stage)]
    return [fault for process in processes for fault in refusal(end(process))]


Fault = Callable[[Calm, str, Path, random.Random], list[str]]
FAULTS: dict[str, Fault] = {
    "killed": kill, "full_disk": fill_the_disk, "memory": limit_memory, "twice": run_twice,
}  # fmt: skip


def recover(calm: Calm, stage: str, place: Path, fault: str) -> list[str]:
    """Run the stage undisturbed; what differs from an experiment that nothing happened to."""
    done = run_stage(place, stage)
    if done.status:
        return [f"{stage} does not run again: {done.stderr[-500:]}"]
    files = find_files(place)
    expected = calm.after[stage]
    names = files.keys() | expected.keys()
    different = sorted(name for name in names if files.get(name) != expected.get(name))
    # An epoch that ends well while memory is short may leave other last bits: libraries seem to
    # take other kernels where they get no buffer. What the stage wrote may differ by that alone.
    if fault == "memory" and stage == "train" and files.keys() == expected.keys():
        best, calm_best = (
            json.loads((root / "results/arc_grids/training.json").read_text())["best"]
            for root in (place, calm.place)
        )
        written = names - find_files(calm.before[stage]).keys()
        if written.issuperset(different) and best == pytest.approx(calm_best, rel=1e-4):
            return []
    return different


def size(folder: Path) -> int:
    """Bytes that a folder takes on a small disk."""
    paths = [folder, *folder.rglob("*")]
    return sum(PAGE + path.stat().st_size // PAGE * PAGE for path in paths)


@pytest.mark.parametrize("name", FAULTS)
def test_a_disturbed_stage_ends_as_an_undisturbed_one(
    name: str, calm: Calm, full_size: bool, tmp_path: Path, record: Callable[..., None]
) -> None:
    rng = random.Random(name)
    faults: list[str] = []
    tried = 0
    failed = 0
    for stage in STAGES if full_size else [SMALL]:
        for number in range(FULL if full_size else 1):
            place = tmp_path / f"{stage}{number}"
            shutil.copytree(calm.before[stage], place)
            stage_faults = FAULTS[name](calm, stage, place, rng) + recover(calm, stage, place, name)
            faults += [f"{stage}: {fault}" for fault in stage_faults]
            failed += bool(stage_faults)
            tried += 1
    record(f"faults.{name}", failed, n=tried)
    assert faults == []
