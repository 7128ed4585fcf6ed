"""Lifetimes of processes: a stage ends with dvc and logs its time; a pool ends on request."""

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
DVC_PID_VARIABLE = "GENLAB_DVC"  # set by scripts/python: the id of dvc's process
STAGE_VARIABLE = "DVC_STAGE"  # set by dvc: the address of the stage
POLL = 0.5  # seconds between two checks of the parent
ENDED = b"genlab: dvc has ended, so this stage ends; `dvc repro` resumes from its finished files\n"
IMPORTED = time.time()
# Indices into what `read_status` returns.
PARENT_FIELD = 0
CPU_FIELDS = slice(10, 14)  # of the process itself, and of its children that have ended
CHILDREN_FIELDS = slice(12, 14)  # of the latter alone
START_FIELD = 18
JOIN_SECONDS = 5.0  # within which a pool's thread notices that its processes are dead


@contextmanager
def dvc_stage() -> Iterator[None]:
    """End this process when dvc ends; on success, append a line to `STAGES_LOG`.

    A line is a JSON object: `stage`, `dataset` (null if the stage has none), `started` (seconds
    since the epoch), `seconds` (wall time since the process started, imports included) and
    `cpu_seconds` (of this process and all its descendants). A stage that fails leaves no line.
    Nothing happens in a process that `scripts/python` did not start for dvc.
    """
    stated = os.environ.pop(DVC_PID_VARIABLE, "")  # processes started from here are not stages
    if not stated:
        yield
        return
    dvc_pid = int(stated)
    if _find_dvc_pid() != dvc_pid:  # it ended while modules were imported
        _end_stage()
    Thread(target=_end_with_dvc, args=(dvc_pid,), daemon=True).start()
    yield
    with suppress(OSError):  # the stage itself is finished
        _append_line()


def _end_with_dvc(dvc_pid: int) -> None:
    """Exit when the process of dvc has ended, for whatever reason.

    A parent-death signal of Linux would come too early: when the *thread* that started the stage
    ends.
    """
    while _find_dvc_pid() == dvc_pid:
        time.sleep(POLL)
    _end_stage()


def _end_stage() -> None:
    with suppress(OSError):
        os.write(2, ENDED)
    os._exit(1)


def _find_dvc_pid() -> int:
    """Return the process id of dvc, the nearest ancestor whose environment names no stage.

    dvc runs the stage's command by a shell, and sets the stage's variable for both. Some shells
    (dash, fish) stay as a process between dvc and the stage; they are skipped. Without /proc, such
    a shell counts as dvc.
    """
    process = os.getppid()
    with suppress(OSError):
        while (
            f"\0{STAGE_VARIABLE}=".encode() in b"\0" + Path(f"/proc/{process}/environ").read_bytes()
        ):
            process = read_status(process)[PARENT_FIELD]
    return process


def read_status(process: int | str) -> list[int]:
    """Return the numbers in /proc/PROCESS/stat that follow name and state, see proc(5)."""
    status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    return [int(field) for field in status.rpartition(")")[2].split()[1:]]


def _append_line() -> None:
    name, _, dataset = os.environ[STAGE_VARIABLE].rpartition(":")[2].partition("@")
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu_seconds = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    started = _find_start()
    line = {
        "stage": name,
        "dataset": dataset or None,
        "started": round(started, 2),
        "seconds": round(time.time() - started, 2),
        "cpu_seconds": round(cpu_seconds + _measure_running_children("self"), 2),
    }
    STAGES_LOG.parent.mkdir(exist_ok=True)
    with STAGES_LOG.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _measure_running_children(process: int | str) -> float:
    """Return the CPU seconds of the running descendants of a process; 0 without /proc.

    The server that forks the processes of a pool is such a child.
    """
    seconds = 0.0
    for thread in Path(f"/proc/{process}/task").glob("*"):
        with suppress(OSError):  # it has just ended
            for child in map(int, (thread / "children").read_text(encoding="ascii").split()):
                ticks = sum(read_status(child)[CPU_FIELDS])
                seconds += ticks / os.sysconf("SC_CLK_TCK") + _measure_running_children(child)
    return seconds


def _find_start() -> float:
    """Return the time at which this process started, in seconds since the epoch.

    Without /proc, the time at which this module was imported.
    """
    with suppress(OSError):
        booted = read_status("self")[START_FIELD] / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - booted
        return time.time() - age
    return IMPORTED


def follow_parent() -> None:
    """Exit this process when its parent ends; an initialiser for processes of a pool.

    Otherwise they would wait forever for work.
    """
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(0)

    Thread(target=follow, daemon=True).start()


def kill_pool(pool: ProcessPoolExecutor) -> None:
    """Kill the processes of a pool and wait for its thread.

    A process that hangs or goes on working would delay the end of this program, and before Python
    3.14 an executor cannot kill its processes. Its thread has to end now: at the end of the program
    the interpreter would wake it through a pipe that it is just closing.
    """
    processes = list((getattr(pool, "_processes", None) or {}).values())
    thread = getattr(pool, "_executor_manager_thread", None)
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
    if thread is not None:
        thread.join(JOIN_SECONDS)
