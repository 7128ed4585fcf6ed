"""Locks between processes, which say what to do where another process holds them."""

from contextlib import AbstractContextManager

from filelock import BaseFileLock, Timeout

from genlab.core.errors import GenlabError


def acquire(lock: BaseFileLock, fault: str) -> AbstractContextManager[BaseFileLock]:
    """Acquire a file lock; leaving the returned context releases it.

    Raises a GenlabError with `fault` if another process holds the lock for longer than its timeout.
    """
    try:
        return lock.acquire()
    except Timeout as error:
        raise GenlabError(fault) from error
