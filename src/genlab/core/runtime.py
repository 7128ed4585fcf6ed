"""Pools of processes that end on request."""

from concurrent.futures import ProcessPoolExecutor

PATIENCE = 5.0  # seconds for a pool's own thread to see that its processes are dead


def end(pool: ProcessPoolExecutor) -> None:
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
