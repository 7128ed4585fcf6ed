"""The guard: a process between us and the guest, inside every layer but the last.

It forks a child for each job, which restricts itself by `lockdown`, and watches it. The guard is
the reaper of everything that the job leaves behind, and kills it all when the job ends, when the
caller asks for it, or when the caller is gone. Code of a guest never runs in the guard itself; a
guest cannot signal, trace or limit it (another uid or a Landlock domain, and seccomp), and does not
inherit its socket.

Protocol, one JSON packet per message over a socket pair: the caller sends the settings and receives
{"ready"}; then for each job it sends {"argv" or "script", "args", "env", "cwd", "limits"} with the
file descriptor of the job's output, and receives {"exit", "stopped", "cpu", "clean"} or {"error"};
{"stop"} ends the job.
"""

import atexit
import gc
import importlib
import json
import os
import resource
import runpy
import select
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import Any, NoReturn

from . import lockdown

PACKET = 1 << 18
MEASURE_EVERY = 0.2  # seconds between two measurements of the memory of a job's processes
KILL_SECONDS = 5.0  # in which killed processes must be gone
EXIT_NOT_FOUND = 127

Message = dict[str, Any]


def main() -> None:
    """Serve the socket whose number is the last argument until the caller closes it."""
    control = socket.socket(fileno=int(sys.argv[-1]))
    sys.argv[:] = ["guest"]
    settings: Message = json.loads(control.recv(PACKET))
    lockdown.prctl(lockdown.PR_SET_CHILD_SUBREAPER, 1)
    lockdown.prctl(lockdown.PR_SET_DUMPABLE, 0)  # no other process of our uid opens our /proc files
    if settings["uid"] is not None:
        capabilities = [lockdown.CAP_KILL, lockdown.CAP_SETUID, lockdown.CAP_SETGID]
        if settings["search"]:
            capabilities.append(lockdown.CAP_DAC_READ_SEARCH)
        lockdown.keep_capabilities(capabilities)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in (f"{__package__}.site.sitecustomize", *settings["preload"]):
        if name.endswith(".py"):  # a script of the caller
            runpy.run_path(name, run_name="preload")
        else:
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a child's collector must not copy all that was imported
    Guard(control, settings).serve()


class Guard:
    """Run the caller's jobs, one at a time."""

    def __init__(self, control: socket.socket, settings: Message) -> None:
        self.control = control
        self.settings = settings
        self.initial_times = self.read_change_times()

    def serve(self) -> None:
        """Answer the caller's messages until it closes the socket."""
        self.control.send(b'{"ready": true}')
        while True:
            packet, handles, _, _ = socket.recv_fds(self.control, PACKET, 1)
            if not packet:
                self.remove_private()
                return
            message = json.loads(packet)
            if "stop" not in message:
                report = self.run_job(message, handles)
                self.control.send(json.dumps(report).encode())

    def run_job(self, message: Message, handles: list[int]) -> Message:
        """Run a job in a child process and wait for its end; returns the report to the caller."""
        fault_read, fault_write = os.pipe()
        child = os.fork()
        if child == 0:
            self.become_guest(message, handles, fault_write)
        for handle in (*handles, fault_write):
            os.close(handle)
        with os.fdopen(fault_read, "rb") as pipe:
            error = pipe.read().decode(errors="replace")
        stopped = "" if error else self.watch(child, message["limits"])
        usage = self.kill_all(child)
        if error:
            return {"error": error}
        if usage is None:  # it outlived SIGKILL: the caller ends this guard and all below it
            return {"error": "a process of the guest could not be killed"}
        status, cpu, all_cpu = usage
        code = os.waitstatus_to_exitcode(status)
        limit = message["limits"]["cpu_seconds"]
        # The kernel counts whole ticks: on a busy machine it strikes before the clock says so.
        warned = code == -signal.SIGXCPU and cpu >= limit / 2
        killed = code == -signal.SIGKILL and cpu >= limit - 0.1
        if not stopped and (warned or killed):
            stopped = "time"
        clean = self.read_change_times() == self.initial_times
        return {"exit": code, "stopped": stopped or None, "cpu": all_cpu, "clean": clean}

    def read_change_times(self) -> list[int]:
        """Read when the folders that a guest may own last changed; no guest can set these times."""
        return [os.stat(folder).st_ctime_ns for folder in self.settings["watched"]]

    def remove_private(self) -> None:
        """Remove the guest's private folder as the guest's user, even after the caller was killed.

        In bubblewrap it is a mount that ends with this process.
        """
        if self.settings["private"] is None:
            return
        cleaner = os.fork()
        if cleaner == 0:
            try:
                signal.alarm(round(KILL_SECONDS))
                if self.settings["uid"] is not None:
                    lockdown.drop_privileges(self.settings["uid"], search=self.settings["search"])
                shutil.rmtree(self.settings["private"], ignore_errors=True)
            finally:
                os._exit(0)
        os.waitpid(cleaner, 0)

    def watch(self, child: int, limits: Message) -> str:
        """Wait for the job's first process to end; returns why it must be stopped, or ""."""
        ended = os.pidfd_open(child)
        watched: list[Any] = [self.control, ended]
        try:
            while True:
                ready, _, _ = select.select(watched, [], [], MEASURE_EVERY)
                if self.control in ready:
                    packet = self.control.recv(PACKET)
                    if not packet:
                        self.kill_all(child)
                        self.remove_private()
                        os._exit(1)
                    return str(json.loads(packet).get("stop", "time"))
                if ended in ready:
                    return ""
                if sum(measure_memory(pid) for pid in list_descendants()) > limits["memory_bytes"]:
                    return "memory"
        finally:
            os.close(ended)

    def kill_all(self, child: int) -> tuple[int, float, float] | None:
        """Kill and reap all that the job started.

        Returns the status of `child`, its CPU seconds and those of all processes; None where a
        process lives on.
        """
        status = 0
        cpu = all_cpu = 0.0
        deadline = time.monotonic() + KILL_SECONDS
        while True:
            if self.settings["bubblewrap"]:
                with suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGKILL)  # all at once: a fork bomb cannot run away
            else:
                for pid in list_descendants():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            while True:
                try:
                    pid, ended, used = os.wait4(-1, os.WNOHANG)
                except ChildProcessError:
                    return status, cpu, all_cpu
                if pid == 0:
                    break
                all_cpu += used.ru_utime + used.ru_stime  # with those that it waited for
                if pid == child:
                    status = ended
                    cpu = used.ru_utime + used.ru_stime
            if time.monotonic() > deadline:
                return None
            time.sleep(0.001)

    def become_guest(self, message: Message, handles: list[int], fault_write: int) -> NoReturn:
        """Restrict this process, the child of a fork, run the job in it, and exit."""
        guard = os.getppid()
        group = os.getpgid(0)
        protected = [guard, -guard, 1]
        if group > 1:
            protected.append(-group)
        try:
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(handles[0], 1)
            os.dup2(handles[0], 2)
            os.dup2(fault_write, 3, inheritable=False)
            fault_write = 3
            os.closerange(4, 65536)
            self.lock_in(message, tuple(protected))
        except BaseException as error:
            os.write(fault_write, f"{type(error).__name__}: {error}".encode() or b"?")
            os._exit(1)
        os.environ.clear()
        os.environ.update(message["env"])
        if "argv" in message:
            try:
                os.execvpe(message["argv"][0], message["argv"], message["env"])
            except (OSError, ValueError) as error:
                os.write(2, f"{message['argv'][0]}: {error}\n".encode())
            os._exit(EXIT_NOT_FOUND)
        os.close(fault_write)
        os._exit(run_script(message["script"], message["args"]))

    def lock_in(self, message: Message, protected: tuple[int, ...]) -> None:
        """Restrict this process to what the job may do; see `lockdown`."""
        settings = self.settings
        limits = message["limits"]
        landlock = not settings["bubblewrap"]
        alone = landlock and settings["uid"] is None
        lockdown.set_limits(limits, count_threads(os.getuid()) if alone else 0)
        ruleset = lockdown.Ruleset(settings["readable"], settings["writable"], files=landlock)
        lockdown.drop_privileges(settings["uid"], search=settings["search"])
        os.chdir(message["cwd"])
        lockdown.restrict(
            ruleset, protected, alone=alone, driver=settings["driver"], forks=limits["forks"]
        )


def run_script(script: str, args: list[str]) -> int:
    """Run a Python file as `__main__`, as the interpreter would; returns its exit status."""
    sys.argv[:] = [script, *args]
    if "tempfile" in sys.modules:  # a preload may have chosen a folder that only the guard can use
        sys.modules["tempfile"].tempdir = None  # type: ignore[attr-defined]
    status = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        if isinstance(stop.code, int):
            status = stop.code & 0xFF
        elif stop.code is not None:
            print(stop.code, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    with suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    return status


def list_descendants() -> list[int]:
    """List the ids of all processes below this one."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # A process chooses its own name, which may hold any byte, brackets included.
                with open(f"/proc/{name}/stat", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    descendants = list(children.get(os.getpid(), []))
    for pid in descendants:  # the list grows while it is read: breadth first
        descendants += children.get(pid, [])
    return descendants


def measure_memory(pid: int) -> int:
    """Measure a process's memory in bytes, shared memory included and mapped files excluded."""
    try:
        with open(f"/proc/{pid}/status", errors="replace") as file:
            lines = [line for line in file if line.startswith(("RssAnon:", "RssShmem:"))]
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines)


def count_threads(uid: int) -> int:
    """Count the threads that a user already has: RLIMIT_NPROC counts these too."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count
