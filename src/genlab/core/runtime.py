"""Pools of processes that end when they are told to."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor


def end(pool: ProcessPoolExecutor) -> None:
    """End a pool, whatever its processes do.

    One that hangs or works on would hold up the end of this program; the executor has no word for
    killing its processes before Python 3.14.
    """
    processes = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
