"""Event loops for runs, whose threads a tool may block for ever."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


class DaemonThreads(ThreadPoolExecutor):
    """Executor with a daemon thread per call: a call that hangs blocks neither others nor the exit.

    A pool would have to be large, and the process would wait for its threads at exit.
    """

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        future: Future[Result] = Future()

        def call() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        future.set_running_or_notify_cancel()
        Thread(target=call, daemon=True).start()
        return future


def make_loop() -> asyncio.AbstractEventLoop:
    """Create an event loop for runs, which shares no threads with other loops."""
    loop = asyncio.new_event_loop()
    loop.set_default_executor(DaemonThreads())
    return loop


def complete(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine, as `asyncio.run` does, in an event loop for runs."""
    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(work)
