"""The guard: a process between us and the guest, inside every layer but the last.

It forks a child for each job, lets it give up all that `lockdown` names, and watches it: it is the
reaper of everything the job leaves behind, and kills it all when the job ends, when it is asked to,
or when the caller is gone. Code of a guest never runs in the guard itself; a guest cannot signal,
trace or limit it (another uid or a Landlock domain, and seccomp), nor does it inherit its socket.

Protocol, one JSON packet each over a socket pair: the caller sends the config, and gets {"ready"};
then for each job {"argv" or "script", "args", "env", "cwd", "limits"} with the file descriptor
of its output, and gets {"exit", "stopped", "cpu", "clean"} or {"error"}; {"stop"} ends the job.
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
LOOK_EVERY = 0.2  # seconds between two looks at the memory of all processes of a job
SWEEP_FOR = 5.0  # seconds in which killed processes must be gone
EXIT_NOT_FOUND = 127

Message = dict[str, Any]


def main() -> None:
    """Serve the socket whose number is the last argument until the caller closes it."""
    control = socket.socket(fileno=int(sys.argv[-1]))
    sys.argv[:] = ["guest"]
    config: Message = json.loads(control.recv(PACKET))
    lockdown.prctl(lockdown.PR_SET_CHILD_SUBREAPER, 1)
    lockdown.prctl(lockdown.PR_SET_DUMPABLE, 0)  # nobody of the same uid opens our /proc files
    if config["uid"] is not None:
        kept = [lockdown.CAP_KILL, lockdown.CAP_SETUID, lockdown.CAP_SETGID]
        search = [lockdown.CAP_DAC_READ_SEARCH] if config["search"] else []
        lockdown.keep_capabilities([*kept, *search])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in (f"{__package__}.site.sitecustomize", *config["preload"]):
        if name.endswith(".py"):  # a script of the caller
            runpy.run_path(name, run_name="preload")
        else:
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a child's collector must not copy all that was imported
    Guard(control, config).serve()


class Guard:
    """One job at a time."""

    def __init__(self, control: socket.socket, config: Message) -> None:
        self.control, self.config = control, config
        self.untouched = self.stamps()

    def serve(self) -> None:
        self.control.send(b'{"ready": true}')
        while True:
            packet, handles, _, _ = socket.recv_fds(self.control, PACKET, 1)
            if not packet:
                self.remove_private()
                return
            message = json.loads(packet)
            if "stop" not in message:
                self.control.send(json.dumps(self.job(message, handles)).encode())

    def job(self, message: Message, handles: list[int]) -> Message:
        fault_read, fault_write = os.pipe()
        child = os.fork()
        if child == 0:
            self.become_guest(message, handles, fault_write)
        for handle in (*handles, fault_write):
            os.close(handle)
        with os.fdopen(fault_read, "rb") as pipe:
            error = pipe.read().decode(errors="replace")
        stopped = "" if error else self.watch(child, message["limits"])
        gone = self.sweep(child)
        if error:
            return {"error": error}
        if gone is None:  # it outlived SIGKILL: the caller ends this guard and all below it
            return {"error": "a process of the guest could not be killed"}
        status, cpu, all_cpu = gone
        code = os.waitstatus_to_exitcode(status)
        limit = message["limits"]["cpu_seconds"]
        # The limit counts whole ticks: on a busy machine it strikes before the clock says so.
        ended = code == -signal.SIGXCPU and cpu >= limit / 2
        if not stopped and (ended or (code == -signal.SIGKILL and cpu >= limit - 0.1)):
            stopped = "time"
        clean = self.stamps() == self.untouched
        return {"exit": code, "stopped": stopped or None, "cpu": all_cpu, "clean": clean}

    def stamps(self) -> list[int]:
        """When the folders that a guest may own last changed; no guest can set these times."""
        return [os.stat(folder).st_ctime_ns for folder in self.config["watched"]]

    def remove_private(self) -> None:
        """Remove the guest's private folder, as the guest's user; also after the caller was killed.

        In bubblewrap it is a mount that ends with this process.
        """
        if self.config["private"] is None:
            return
        cleaner = os.fork()
        if cleaner == 0:
            try:
                signal.alarm(round(SWEEP_FOR))
                if self.config["uid"] is not None:
                    lockdown.drop_privileges(self.config["uid"], search=self.config["search"])
                shutil.rmtree(self.config["private"], ignore_errors=True)
            finally:
                os._exit(0)
        os.waitpid(cleaner, 0)

    def watch(self, child: int, limits: Message) -> str:
        """Wait for the job's first process to end; why it must be stopped, or ""."""
        ended = os.pidfd_open(child)
        watched: list[Any] = [self.control, ended]
        try:
            while True:
                ready, _, _ = select.select(watched, [], [], LOOK_EVERY)
                if self.control in ready:
                    packet = self.control.recv(PACKET)
                    if not packet:
                        self.sweep(child)
                        self.remove_private()
                        os._exit(1)
                    return str(json.loads(packet).get("stop", "time"))
                if ended in ready:
                    return ""
                if sum(memory_of(pid) for pid in descendants()) > limits["memory_bytes"]:
                    return "memory"
        finally:
            os.close(ended)

    def sweep(self, child: int) -> tuple[int, float, float] | None:
        """Kill and reap all that the job started; returns None where a process lives on.

        Otherwise the status of `child`, its CPU seconds and those of all processes.
        """
        status = 0
        cpu = all_cpu = 0.0
        until = time.monotonic() + SWEEP_FOR
        while True:
            if self.config["bubblewrap"]:
                with suppress(ProcessLookupError):
                    os.kill(-1, signal.SIGKILL)  # all at once: a fork bomb cannot run away
            else:
                for pid in descendants():
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
            if time.monotonic() > until:
                return None
            time.sleep(0.001)

    def become_guest(self, message: Message, handles: list[int], fault_write: int) -> NoReturn:
        """In the child: take the job's streams, give everything up, run it, end."""
        guard, group = os.getppid(), os.getpgid(0)
        protected = (guard, -guard, 1, *([-group] if group > 1 else []))
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
            config, landlock = self.config, not self.config["bubblewrap"]
            alone = landlock and config["uid"] is None
            lockdown.set_limits(message["limits"], threads_of(os.getuid()) if alone else 0)
            ruleset = lockdown.Ruleset(config["readable"], config["writable"], files=landlock)
            lockdown.drop_privileges(config["uid"], search=config["search"])
            os.chdir(message["cwd"])
            forks = message["limits"]["forks"]
            lockdown.restrict(ruleset, protected, alone=alone, driver=config["driver"], forks=forks)
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


def run_script(script: str, args: list[str]) -> int:
    """Run a Python file as `__main__`, as the interpreter would: its exit status."""
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


def descendants() -> list[int]:
    """Ids of all processes below this one."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", errors="replace") as file:  # its name is its own
                    parent = int(file.read().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(name))
    found = list(parents.get(os.getpid(), []))
    for pid in found:  # it grows while it is read: breadth first
        found += parents.get(pid, [])
    return found


def memory_of(pid: int) -> int:
    """Bytes of a process's memory, with what it shares; files that it maps are not counted."""
    try:
        with open(f"/proc/{pid}/status", errors="replace") as file:
            counted = [line for line in file if line.startswith(("RssAnon:", "RssShmem:"))]
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in counted)


def threads_of(uid: int) -> int:
    """Threads that a user already has: RLIMIT_NPROC counts these too."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count
