"""The caller's side of a guard: it sends jobs, watches the time and limits the output.

The guard is warm: torch is imported once, and each job is a fresh fork of that process.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from genlab.core.errors import GenlabError
from genlab.core.text import make_printable
from genlab.sandbox.isolation import SandboxConfig
from genlab.sandbox.limits import JobResult, Limits
from genlab.sandbox.readback import remove_tree

PACKET = 1 << 18
START_SECONDS = 180.0  # for a preload of torch on a busy machine
STOP_SECONDS = 10.0  # for a guard to kill what it watches; then it is killed itself
MEASURE_EVERY = 0.5  # seconds between two measurements of the workspace
MAX_PRINTED = 16  # a job that prints this many times what is kept is stopped
Order = tuple[Sequence[str], dict[str, Any], "Future[subprocess.Popen[Any]]"]
MARK = "\n[... output cut at {} bytes ...]\n"


class Worker(AbstractContextManager["Worker"]):
    """Run jobs in `sandbox` by a guard that has imported `preload`, for one thread at a time.

    The guard starts with the first job, and again when it is gone or a job changed its private
    folders. It holds the imports and runs no code of a guest: a job is a fork of it that locks
    itself in before it reads its script, so patches of torch or the clock reach no other job.
    Results are files in the workspace, read by `read_back`.

    preload: names of modules, and paths of the caller's own scripts, which import more; a script is
    run as `preload`, and has to be readable in the sandbox.
    cancelled: once another thread sets it, the job under way ends as after Ctrl-C, in a
    KeyboardInterrupt, and no other one begins.
    """

    def __init__(
        self,
        sandbox: SandboxConfig,
        preload: Sequence[str] = ("torch",),
        cancelled: Event | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.preload = tuple(preload)
        self.cancelled = cancelled or Event()
        self.folder = sandbox.workspace  # in which the next job starts, and which it owns
        self.clean = False  # whether the last job left the guard's private folders as they were
        self.process: subprocess.Popen[bytes]
        self._stack = ExitStack()

    def start(self) -> None:
        """Start the guard before the first job needs it. Raises a GenlabError where it fails."""
        if self.clean and self.process.poll() is None:
            return
        self.close()
        with ExitStack() as stack:
            private = None
            if self.sandbox.mode == "landlock":
                private = os.path.realpath(tempfile.mkdtemp(prefix="genlab-guest-"))
                stack.callback(remove_tree, private)
            argv, self._environment, settings = self.sandbox.describe_guard(self.preload, private)
            self._uid: int | None = settings["uid"]
            complaints = stack.enter_context(tempfile.TemporaryFile())
            self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stack.enter_context(self.control)
            try:
                with theirs:
                    self.process = start_process(
                        [*argv, str(theirs.fileno())],
                        # bubblewrap's own environment can be read in /proc: it must hold no secret
                        env=self._environment,
                        cwd=self.sandbox.workspace,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=complaints,
                        pass_fds=[theirs.fileno()],
                        start_new_session=True,
                    )
                stack.callback(self._end)
                self.control.settimeout(START_SECONDS)
                self.control.send(json.dumps(settings).encode())
                if not self.control.recv(PACKET):
                    raise OSError("it ended at once")
            except OSError as error:
                complaints.seek(0)
                lines = complaints.read(4096).decode(errors="replace").split("\n")
                reason = next((line for line in reversed(lines) if line.strip()), str(error))
                name = Path(argv[0]).name
                raise GenlabError(f"sandbox: {name} did not start: {reason}") from error
            self.clean = True
            self._stack = stack.pop_all()

    def _end(self) -> None:
        self.control.close()  # the guard then kills all that it started
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the guard and everything below it at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """End the guard and everything below it."""
        self.clean = False
        self._stack.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        script: str | Path,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> JobResult:
        """Run the Python file `script`, relative to the job's folder, as `__main__`.

        Its folder is not on `sys.path`: a module planted beside it would be imported by the next.
        Raises a GenlabError where the sandbox itself fails.
        """
        path = self.folder / script
        job = {"script": str(path), "args": list(map(str, args))}
        try:
            return self.run_job(job, env, limits)
        except GenlabError:  # the guard died between two jobs: try again with a new one
            return self.run_job(job, env, limits)

    def run_job(
        self, job: Mapping[str, Any], env: Mapping[str, str] | None, limits: Limits | None
    ) -> JobResult:
        """Run one job to its end. Raises a GenlabError where the sandbox itself fails."""
        self.start()
        limits = limits or self.sandbox.limits
        if self._uid is not None:
            change_owner(self.folder, self._uid)
        environment = {**self._environment, **(env or {})}
        message = {"env": environment, "cwd": str(self.folder), "limits": asdict(limits)}
        packet = json.dumps({**job, **message}).encode()
        if len(packet) >= PACKET // 2:
            raise GenlabError("sandbox: the command line is too long; pass it as a file")
        output, theirs = os.pipe()
        try:
            socket.send_fds(self.control, [packet], [theirs])
        except OSError as error:
            os.close(output)
            self.close()
            raise GenlabError("sandbox: the guard is gone; start it again") from error
        finally:
            os.close(theirs)
        try:
            return _Job(self, limits, output).follow()
        except BaseException:
            self.close()  # Ctrl-C must not leave a guest behind, which the guard alone can find
            raise
        finally:
            os.close(output)


@dataclass
class _Job:
    """A job that is running; `output` is the end of the pipe that it prints to."""

    worker: Worker
    limits: Limits
    output: int
    saved: bytearray = field(default_factory=bytearray)
    printed: int = 0
    stopped: str | None = None  # why the guard was asked to stop it
    stop_time: float | None = None  # when it was asked
    report: dict[str, Any] | None = None

    def follow(self) -> JobResult:
        began = time.monotonic()
        end = began + self.limits.wall_seconds
        next_check = began + MEASURE_EVERY
        os.set_blocking(self.output, False)
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.output, selectors.EVENT_READ)
            waiting.register(self.worker.control, selectors.EVENT_READ)
            while self.report is None:
                if self.worker.cancelled.is_set():
                    raise KeyboardInterrupt
                now = time.monotonic()
                if now >= end:
                    self._stop("time")
                if now >= next_check:
                    next_check = now + MEASURE_EVERY
                    if self._exceeds_disk_limits():
                        self._stop("files")
                if self.stop_time is not None and now > self.stop_time + STOP_SECONDS:
                    self.worker.kill()
                timeout = 0.2
                if self.stop_time is None:
                    timeout = max(0.01, min(end, next_check) - now)
                for key, _ in waiting.select(timeout):
                    if key.fd == self.output:
                        if not self._read():
                            waiting.unregister(self.output)
                    else:
                        self._receive_report()
            while self._read(may_stop=False):
                pass
        return self._make_result(time.monotonic() - began)

    def _receive_report(self) -> None:
        try:
            packet = self.worker.control.recv(PACKET)
        except OSError:
            packet = b""
        # Everything in the sandbox ends with its guard.
        self.report = json.loads(packet) if packet else {"exit": -signal.SIGKILL, "stopped": None}
        if not packet:
            self.worker.kill()

    def _read(self, *, may_stop: bool = True) -> bool:
        """Read what was printed; returns False at its end."""
        try:
            chunk = os.read(self.output, 1 << 16)
        except BlockingIOError:
            return may_stop
        self.printed += len(chunk)
        self.saved += chunk[: max(0, self.limits.output_bytes - len(self.saved))]
        if may_stop and self.printed > MAX_PRINTED * self.limits.output_bytes:
            self._stop("output")
        return bool(chunk)

    def _stop(self, reason: str) -> None:
        if self.stop_time is None:
            self.stopped = reason
            self.stop_time = time.monotonic()
            with suppress(OSError):
                self.worker.control.send(json.dumps({"stop": reason}).encode())

    def _exceeds_disk_limits(self) -> bool:
        """Whether the workspace holds more than it may; files that vanish meanwhile do not count.

        So does a folder that the guest has closed to us, since it could hold anything.
        """

        def refuse_closed(error: OSError) -> None:
            if isinstance(error, PermissionError):
                raise error

        files = 0
        size = 0
        workspace = self.worker.sandbox.workspace
        try:
            for _, folders, names, handle in os.fwalk(workspace, onerror=refuse_closed):
                files += len(folders) + len(names)
                if files > self.limits.files:
                    return True
                for name in names:
                    with suppress(OSError):
                        size += os.stat(name, dir_fd=handle, follow_symlinks=False).st_blocks * 512
        except (OSError, RecursionError):  # a folder that is closed, or too many levels of folders
            return True
        return size > self.limits.disk_bytes

    def _make_result(self, seconds: float) -> JobResult:
        report = self.report or {}
        if "error" in report:
            raise GenlabError(f"sandbox: a job could not be locked in: {report['error']}")
        self.worker.clean = bool(report.get("clean", False))
        text = make_printable(self.saved.decode(errors="replace"))
        code = int(report["exit"])
        reason = self.stopped or report["stopped"]
        tail = text[-2000:]
        lacked_memory = "MemoryError" in tail or "can't allocate memory" in tail
        if reason is None and code != 0 and lacked_memory:
            reason = "memory"  # not our limit, but it tells people what happened
        if reason is None and code < 0:
            reason = "signal"
        if reason is None and self._exceeds_disk_limits():
            reason = "files"
        if self.printed > len(self.saved):
            text += MARK.format(self.limits.output_bytes)
        return JobResult(text, code, seconds, reason, float(report.get("cpu", math.nan)))


def start_process(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Call `subprocess.Popen` in a thread that lasts as long as this process.

    Linux ends a guard together with the thread that started it (PR_SET_PDEATHSIG).
    """
    started: Future[subprocess.Popen[Any]] = Future()
    _start_thread(os.getpid()).put((argv, options, started))
    return started.result()


@cache
def _start_thread(process: int) -> SimpleQueue[Order]:
    """Start the thread of `start_process`; returns its queue. A fork needs another: `process`."""
    orders: SimpleQueue[Order] = SimpleQueue()

    def serve_orders() -> None:
        while True:
            argv, options, started = orders.get()
            try:
                started.set_result(subprocess.Popen(argv, **options))
            except BaseException as error:
                started.set_exception(error)

    Thread(target=serve_orders, name=f"sandbox-{process}", daemon=True).start()
    return orders


def change_owner(folder: Path, uid: int) -> None:
    """Give a job's folder and all in it to the user `uid`; only root can.

    Links are not followed, and a file with a second name elsewhere is left alone.
    """
    for _, folders, files, handle in os.fwalk(folder, follow_symlinks=False):
        if os.fstat(handle).st_uid != uid:
            os.fchown(handle, uid, uid)
        for name in (*folders, *files):
            state = os.stat(name, dir_fd=handle, follow_symlinks=False)
            if state.st_uid != uid and (stat.S_ISDIR(state.st_mode) or state.st_nlink == 1):
                os.chown(name, uid, uid, dir_fd=handle, follow_symlinks=False)
