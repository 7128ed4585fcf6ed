"""Parallel work over processes of this machine, or over a Ray cluster.

A function of a module is applied to pieces of work. Results come back in the order of the pieces,
and seeds belong to the pieces, so that any engine and any number of workers gives the same bytes.
The engine decides where a piece runs, and runs it again if its node goes down.
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

CONNECT_SECONDS = 5.0  # within which a cluster has to answer
PENDING_PER_WORKER = 2  # pieces that wait, or whose results wait in memory


def import_ray() -> Any:
    """Return the module ray. Raises a GenlabError that names the extra if it is not installed."""
    try:
        import ray
    except ImportError as error:
        fix = "pip install -e '.[ray]'"
        raise GenlabError(f"engine ray needs an extra: {fix}", key="engine", fix=fix) from error
    return ray


class RayExecutor(Executor):
    """An executor on a Ray cluster.

    address: of the cluster, as `ray start --head` prints it; if empty, a new cluster is started on
    this machine. Raises a GenlabError if Ray is not installed or no cluster answers.
    """

    def __init__(self, address: str = "") -> None:
        # The default of Ray's next version; this one warns without it.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray = import_ray()
        host, _, port = address.rpartition(":")
        try:
            if port.isdigit():  # tried first: if nothing answers, Ray ends this process
                socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
            # A new cluster needs no dashboard; an existing one has its own.
            options = {} if address else {"include_dashboard": False}
            ray.init(address or "local", log_to_driver=False, logging_level="error", **options)
        except (OSError, ValueError) as error:
            fix = "ray start --head"
            raise GenlabError(
                f"ray_address: no Ray cluster answers at {address!r}; start one with: {fix}",
                key="ray_address",
                fix=fix,
            ) from error
        self._ray = ray
        # The pieces of a node that goes down run on other nodes, however often that happens.
        self._call = ray.remote(max_retries=-1)(_call)

    @property
    def cores(self) -> int:
        """Number of cores of the cluster."""
        return int(self._ray.cluster_resources().get("CPU", 1))

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `function` on one core of the cluster."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # submitted work cannot be cancelled
        ray_future = self._call.remote(function, *args, **kwargs).future()
        ray_future.add_done_callback(lambda finished: _copy_outcome(finished, future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Disconnect from the cluster; stop it if it was started here."""
        self._ray.shutdown()


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function; Ray cannot call functions that are written in C."""
    return function(*args, **kwargs)


def _copy_outcome(source: Future[Any], target: Future[Any]) -> None:
    """Copy the result or error of a finished future to another.

    An error of Ray's is replaced by its cause: its own message is an entire traceback.
    """
    if error := source.exception():
        target.set_exception(getattr(error, "cause", None) or error)
    else:
        target.set_result(source.result())


def parallel_map(
    function: Callable[..., Any], pieces: Iterable[Any], params: Params
) -> Iterator[Any]:
    """Return `map(function, pieces)`, computed in parallel on the engine that the params name.

    function: defined at the top level of a module, since other processes import it by name. Raises
    its exceptions, and a GenlabError if a process was killed.
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
                if len(pending) >= PENDING_PER_WORKER * workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            raise GenlabError(
                "a worker process was killed, perhaps for lack of memory: set workers to fewer than"
                f" {workers} and run the command again",
                key="workers",
            ) from error
        finally:
            for future in pending:
                future.cancel()
