"""Limits of a job, and its result."""

import math
from dataclasses import dataclass

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits of one job; exceeding one stops the job or makes a call fail, never only slows it.

    `wall_seconds`, `cpu_seconds` (of one process); `address_space` in bytes of one process (torch
    maps 4 GB before it does anything); `memory_bytes` of all its processes together;
    `processes`, threads counted; `file_bytes` of one file; `output_bytes` that are kept of what it
    prints; `files` and `disk_bytes` in the workspace whenever they are counted. Without `forks` it
    may start threads but no process, so that `cpu_seconds` bounds all that it computes.
    """

    wall_seconds: float = 600.0
    cpu_seconds: float = 1200.0
    address_space: int = 8 * GIB
    memory_bytes: int = 6 * GIB
    processes: int = 64
    file_bytes: int = 1 * GIB
    output_bytes: int = 256 * 1024
    files: int = 20_000
    disk_bytes: int = 4 * GIB
    forks: bool = True


@dataclass(frozen=True)
class JobResult:
    """How a job ended, and what it printed.

    output: both streams, cut at the limit with a mark, without control, escape and bidirectional
    characters. exit_code: as in subprocess (minus the signal's number). seconds: wall time.
    stopped_by: None where it ended by itself, else "time", "memory", "output", "files" or "signal".
    cpu_seconds: as the kernel counted them for all its processes, but for those whose parent
    ignored their end (`Limits.forks` excludes them); nan where its guard died. Nothing in the
    output can be trusted: a job can print anything.
    """

    output: str
    exit_code: int
    seconds: float
    stopped_by: str | None = None
    cpu_seconds: float = math.nan
