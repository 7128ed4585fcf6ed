"""Lifetimes: a stage ends with dvc and records what it took; processes of a pool end on request."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

STAGES_LOG = Path("runs/stages.jsonl")
DVC = "GENLAB_DVC"  # set by scripts/python: the process of dvc
STAGE = "DVC_STAGE"  # set by dvc
POLL = 0.5  # seconds between two looks at the parent
ENDED = b"genlab: dvc has ended, so this stage ends; `dvc repro` resumes from its finished files\n"
IMPORTED = time.time()
# Of `read_status`; CPU_FIELDS are the process's own times and CHILDREN_FIELDS.
PARENT_FIELD, CPU_FIELDS, CHILDREN_FIELDS, START_FIELD = 0, slice(10, 14), slice(12, 14), 18
PATIENCE = 5.0  # seconds for a pool's own thread to see that its processes are dead


@contextmanager
def dvc_stage() -> Iterator[None]:
    """End with dvc, where dvc started this process; on leaving, append a line to `STAGES_LOG`.

    A line is a JSON object: `stage`, `dataset` (null where the stage has none), `started` (seconds
    since the epoch), `seconds` (wall time since the process started, imports included) and
    `cpu_seconds` (of this process and of all that it started). A stage that fails leaves none.
    Nothing happens in a process that `scripts/python` did not start for dvc.
    """
    dvc = os.environ.pop(DVC, "")  # not for processes that are started here
    if not dvc:
        yield
        return
    if _find_dvc() != int(dvc):  # it ended while modules were imported
        _end_stage()
    Thread(target=_follow, args=(int(dvc),), daemon=True).start()
    yield
    with suppress(OSError):  # the stage itself is finished
        _append_line()


def _follow(dvc: int) -> None:
    """Exit when dvc has ended, however it did.

    Linux can send a signal then, but would send it when the *thread* ends that started the stage.
    """
    while _find_dvc() == dvc:
        time.sleep(POLL)
    _end_stage()


def _end_stage() -> None:
    with suppress(OSError):
        os.write(2, ENDED)
    os._exit(1)


def _find_dvc() -> int:
    """Return the nearest ancestor that dvc did not start for the stage.

    Some shells (dash, fish) wait for the command that dvc gave them instead of becoming it. Where
    there is no /proc, such a shell counts as dvc.
    """
    process = os.getppid()
    with suppress(OSError):
        while f"\0{STAGE}=".encode() in b"\0" + Path(f"/proc/{process}/environ").read_bytes():
            process = read_status(process)[PARENT_FIELD]
    return process


def read_status(process: int | str) -> list[int]:
    """Return the numbers of /proc/PROCESS/stat that follow its name and state (see proc(5))."""
    status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    return [int(field) for field in status.rpartition(")")[2].split()[1:]]


def _append_line() -> None:
    name, _, dataset = os.environ[STAGE].rpartition(":")[2].partition("@")
    usage = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    ended = sum(used.ru_utime + used.ru_stime for used in usage)
    started = _find_start()
    line = {
        "stage": name,
        "dataset": dataset or None,
        "started": round(started, 2),
        "seconds": round(time.time() - started, 2),
        "cpu_seconds": round(ended + _measure_children("self"), 2),
    }
    STAGES_LOG.parent.mkdir(exist_ok=True)
    with STAGES_LOG.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _measure_children(process: int | str) -> float:
    """Return CPU seconds of the running descendants of a process and of those they waited for.

    The server that forks processes for a pool is such a child. Without /proc it is 0.
    """
    seconds = 0.0
    for thread in Path(f"/proc/{process}/task").glob("*"):
        with suppress(OSError):  # it has just ended
            for child in map(int, (thread / "children").read_text(encoding="ascii").split()):
                ticks = sum(read_status(child)[CPU_FIELDS])
                seconds += ticks / os.sysconf("SC_CLK_TCK") + _measure_children(child)
    return seconds


def _find_start() -> float:
    """Return when this process started, in seconds since the epoch.

    Without /proc it is the time at which this module was imported.
    """
    with suppress(OSError):
        booted = read_status("self")[START_FIELD] / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - booted
        return time.time() - age
    return IMPORTED


def follow_parent() -> None:
    """Exit when the parent process ends: for the processes of a pool, at their start.

    They would wait for work that nobody sends.
    """
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(0)

    Thread(target=follow, daemon=True).start()


def kill_pool(pool: ProcessPoolExecutor) -> None:
    """End a pool, whatever its processes do.

    One that hangs or works on would hold up the end of this program; the executor has no word for
    killing its processes before Python 3.14. Its thread is waited for: at the end of the program
    the interpreter would wake it through a pipe that it is just closing.
    """
    processes = list((getattr(pool, "_processes", None) or {}).values())
    thread = getattr(pool, "_executor_manager_thread", None)
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
    if thread is not None:
        thread.join(PATIENCE)
