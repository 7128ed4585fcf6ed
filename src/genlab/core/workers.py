"""Work spread over processes of this machine, or over a Ray cluster.

What is spread is a function of a module and its arguments. Results come back in their order, and
seeds belong to the pieces of work, so that any engine and any number of workers gives the same
bytes. Where a piece runs, and that it runs again when its node goes down, is the engine's business.
"""

import multiprocessing
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from genlab.core import runtime
from genlab.core.errors import GenlabError
from genlab.core.params import Params

CONNECT_SECONDS = 5.0  # within which a cluster answers
AHEAD = 2  # pieces per worker that wait or lie finished in memory


def import_ray() -> Any:
    """The module ray. Raises a GenlabError that names the extra where it is not installed."""
    try:
        import ray
    except ImportError as error:
        fix = "pip install -e '.[ray]'"
        raise GenlabError(f"engine ray needs an extra: {fix}", key="engine", fix=fix) from error
    return ray


class RayExecutor(Executor):
    """An executor on a Ray cluster.

    address: of the cluster, as `ray start --head` prints it; empty for a new one on this machine.
    Raises a GenlabError where Ray is not installed or no cluster answers.
    """

    def __init__(self, address: str = "") -> None:
        os.environ.setdefault(
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"
        )  # the next version's default
        ray = import_ray()
        host, _, port = address.rpartition(":")
        try:
            if port.isdigit():  # asked first: where nothing answers, Ray ends the whole process
                socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
            # A new cluster needs no dashboard; an existing one has its own.
            new = {} if address else {"include_dashboard": False}
            ray.init(address or "local", log_to_driver=False, logging_level="error", **new)
        except (OSError, ValueError) as error:
            fix = "ray start --head"
            raise GenlabError(
                f"ray_address: no Ray cluster answers at {address!r}; start one with: {fix}",
                key="ray_address",
                fix=fix,
            ) from error
        self._ray = ray
        # A node that goes down gives its pieces to others, however often that happens.
        self._call = ray.remote(max_retries=-1)(_call)

    @property
    def cores(self) -> int:
        """Cores of the whole cluster."""
        return int(self._ray.cluster_resources().get("CPU", 1))

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `function` somewhere on the cluster, on one core."""
        found: Future[Any] = Future()
        found.set_running_or_notify_cancel()  # what was sent is not cancelled
        sent = self._call.remote(function, *args, **kwargs).future()
        sent.add_done_callback(lambda done: _hand_on(done, found))
        return found

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster; one that was started here ends."""
        self._ray.shutdown()


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; Ray itself takes none that is written in C."""
    return function(*args, **kwargs)


def _hand_on(done: Future[Any], to: Future[Any]) -> None:
    """Settle a future like another; the message of an error of Ray's is a whole traceback."""
    if error := done.exception():
        to.set_exception(getattr(error, "cause", None) or error)
    else:
        to.set_result(done.result())


def parallel_map(
    function: Callable[..., Any], pieces: Iterable[Any], params: Params
) -> Iterator[Any]:
    """`map(function, pieces)` on the engine that the params name, in the order of the pieces.

    function: of a module, for its name is what another process gets. Raises what it raises, and a
    GenlabError where a process was killed.
    """
    if params.engine == "local" and params.workers == 1:
        yield from map(function, pieces)
        return
    executor: Executor
    if params.engine == "ray":
        executor = RayExecutor(params.ray_address)
        workers = params.workers or executor.cores
    else:
        workers = params.workers or os.cpu_count() or 1
        context = multiprocessing.get_context("spawn")
        executor = ProcessPoolExecutor(workers, context, runtime.follow_parent)
    with executor:
        pending: deque[Future[Any]] = deque()
        try:
            for piece in pieces:
                pending.append(executor.submit(function, piece))
                if len(pending) >= AHEAD * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise GenlabError(
                "a worker process was killed, for lack of memory perhaps: set workers to fewer than"
                f" {workers} and run the command again",
                key="workers",
            ) from error
        finally:
            for future in pending:
                future.cancel()
