"""Attacks on the sandbox: what a guest might try, and whether it got anywhere.

An attack is a script of a guest. Most try one thing and must be refused: an exception prints
`refused`, coming through prints `BREACH`, and what would have changed outside is checked too. The
others must be stopped by a limit, or leave nothing for the next job and no result to read.
"""

import os
import socket
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

from genlab.agent.evaluator import sandbox as evaluator
from genlab.core.errors import GenlabError
from genlab.sandbox import JobResult, Limits, Sandbox, Worker, read_back
from genlab.sandbox.isolation import GUEST
from genlab.sandbox.readback import remove_tree

SECRET = "sk-attack-me"
QUICK = Limits(wall_seconds=20.0, cpu_seconds=20.0, processes=32)
SHORT = replace(QUICK, wall_seconds=0.6)

PRELUDE = """
import ctypes, errno, os, socket, stat, sys, time
libc = ctypes.CDLL(None, use_errno=True)
BASE, PARENT, SECRET = os.environ["BASE"], int(os.environ["PARENT"]), os.environ["NEEDLE"]
SECRET, SOURCE, GUARD = SECRET[::-1], os.environ["SOURCE"], os.environ["GUARD"]
def call(number, *arguments):
    if os.uname().machine != "x86_64":
        raise OSError(errno.ENOSYS, "numbers of x86_64")
    got = libc.syscall(number, *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got
def found(text):
    if SECRET not in text:
        raise PermissionError("no secret in it")
def read(path):
    with open(path, errors="replace") as file:
        return file.read()
def write(path, text="owned"):
    with open(path, "w") as file:
        file.write(text)
"""
ENDING = """
try:
    attack()
    print("BREACH", flush=True)
except BaseException as error:
    print(f"refused: {type(error).__name__}: {error}", flush=True)
"""


@dataclass(frozen=True)
class Target:
    """Where an attack takes place: `base` holds what it must not reach, beside the workspace."""

    base: Path
    sandbox: Sandbox
    worker: Worker
    torch: Worker
    models: evaluator.ModelSandbox

    @property
    def workspace(self) -> Path:
        return self.sandbox.workspace

    def guest(self, code: str, limits: Limits = QUICK, *, start: str = "cold") -> JobResult:
        """Run `code` as a guest's script: cold, or by a warm worker.

        start: cold, warm, torch (a worker that holds it) or model (the judge's worker).
        """
        workers = {"torch": self.torch, "model": self.models}
        worker = workers.get(start, self.worker)
        if start == "model":
            self.models.renew()
        script = worker.folder / "guest.py"
        script.unlink(missing_ok=True)
        script.write_text(code)
        if start == "cold":
            return self.sandbox.run(["python", script.name], env=self.environ, limits=limits)
        return worker.run(script.name, env=self.environ, limits=limits)

    @property
    def environ(self) -> dict[str, str]:
        """What an attack knows of its surroundings."""
        return {
            "BASE": str(self.base),
            "PARENT": str(os.getpid()),
            "NEEDLE": SECRET[::-1],
            "SOURCE": str(GUEST.parents[3]),
            "GUARD": str(GUEST / "guard.py"),
        }


@dataclass(frozen=True)
class Attack:
    """An attack; `judge` gives "" where it was stopped by `layer`, else what went wrong."""

    name: str
    layer: str
    code: str
    start: str = "warm"

    def judge(self, target: Target) -> str:
        """It must raise in the guest and leave everything outside as it was."""
        done = target.guest(self.script, start=self.start)
        if "BREACH" in done.output or SECRET in done.output:
            return f"came through: {done.output}"
        if "refused" not in done.output:
            return f"did not run: {done}"
        return "" if intact(target) else "changed a file outside"

    @property
    def script(self) -> str:
        body = textwrap.indent(textwrap.dedent(self.code).strip(), "    ")
        return f"{PRELUDE}def attack():\n{body}\n{ENDING}"


@dataclass(frozen=True)
class Stopped(Attack):
    """It must be ended by a limit (`by`; "": or be refused) and leave no process."""

    by: tuple[str, ...] = ("time",)
    limits: Limits = QUICK

    def judge(self, target: Target) -> str:
        began = time.monotonic()
        done = target.guest(self.script, self.limits, start=self.start)
        if time.monotonic() - began > self.limits.wall_seconds + 8:
            return f"was not ended in time: {done.seconds:.1f} s"
        if "BREACH" in done.output:
            return f"came through: {done.output[:200]}"
        if done.stopped_by not in self.by and not ("" in self.by and "refused" in done.output):
            return f"not stopped: {replace(done, output=done.output[-300:])}"
        return left_alive(target) or ("" if intact(target) else "changed a file outside")


@dataclass(frozen=True)
class NextJob(Attack):
    """What it leaves must not be seen by `look`, the next job, which prints `expected`."""

    look: str = ""
    expected: str = ""

    def judge(self, target: Target) -> str:
        first = target.guest(PRELUDE + textwrap.dedent(self.code), start=self.start)
        done = target.guest(self.look, start=self.start)
        ok = first.exit_code == 0 and done.output == self.expected and intact(target)
        return left_alive(target) if ok else f"{first} {done}"


@dataclass(frozen=True)
class FakeResult(Attack):
    """What it leaves as a result must be refused by `read_back`."""

    result: str = "result.json"

    def judge(self, target: Target) -> str:
        done = target.guest(PRELUDE + self.code, start=self.start)
        if done.exit_code != 0:
            return f"did not run: {done}"
        try:
            held = read_back(target.workspace, self.result, limit=1000)
        except GenlabError:
            return ""
        return f"was read: {held[:40]!r}"


FILES = "mount namespace / Landlock"
NET = "seccomp, network namespace"
OTHERS = "seccomp, pid namespace, uid"
KERNEL = "seccomp, no capabilities"
DEVICES = "private /dev, uid"

# layer -> name -> script; those of WARM run in a fork of a warm worker, of COLD in a new process
WARM = {
    FILES: {
        "reads a key in the home folder": 'found(read(BASE + "/home/key"))',
        "reads a key through /proc/self/cwd": 'found(read("/proc/self/cwd/../home/key"))',
        "reads /proc/1/environ": 'found(read("/proc/1/environ"))',
        "reads another workspace": 'found(read(BASE + "/other/secret"))',
        "reads the password hashes": 'read("/etc/shadow")',
        "writes outside of the workspace": 'write(BASE + "/outside")',
        "makes a file beside the workspace": 'write(BASE + "/new")',
        "writes outside by ..": 'write("../outside")',
        "writes through a symlink": 'os.symlink(BASE + "/outside", "way-out"); write("way-out")',
        "reads through a symlink": 'os.symlink(BASE + "/home", "way-in"); found(read("way-in/key"))',
        "makes a hard link to a key": 'os.link(BASE + "/home/key", "hard"); found(read("hard"))',
        "moves a file out of the workspace": 'write("mine"); os.rename("mine", BASE + "/moved")',
        "truncates a file outside": 'os.truncate(BASE + "/outside", 0)',
        "moves the workspace's root": 'os.rename(os.getcwd(), os.getcwd() + "-gone")',
        "overwrites the interpreter": 'write(os.path.realpath(sys.executable), "")',
        "plants a module in site-packages": """
            import sysconfig
            write(sysconfig.get_path("purelib") + "/planted.pth")""",
        "plants a sitecustomize": """
            import sysconfig
            write(sysconfig.get_path("stdlib") + "/sitecustomize.py")""",
        "writes a system program": 'write("/usr/bin/owned")',
        "imports the evaluator": "sys.path.append(SOURCE); import genlab.evaluation",
        "edits the evaluator": 'write(SOURCE + "/genlab/evaluation/__init__.py", "")',
        "edits the guard": "write(GUARD)",
    },
    "mount namespace, uid / seccomp": {
        "changes the mode of a file outside": 'os.chmod(BASE + "/home/key", 0o600)',
        "changes the date of a file outside": 'os.utime(BASE + "/home/key", (0, 0))',
    },
    "uid / dumpable, Landlock": {
        "reads the memory of the guard": 'open(f"/proc/{os.getppid()}/mem", "rb")',
    },
    "pid namespace, uid": {
        "reads files through /proc/<parent>/root": """
            found(read(f"/proc/{PARENT}/root{BASE}/home/key"))""",
    },
    NET: {
        "TCP": 'socket.create_connection(("127.0.0.1", int(read("port"))), 2)',
        "UDP": """
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))""",
        "listens": 'socket.create_server(("127.0.0.1", 0))',
        "a unix socket by path": 'socket.socket(socket.AF_UNIX).connect(BASE + "/socket")',
        "an abstract unix socket": 'socket.socket(socket.AF_UNIX).connect("\\0genlab-attack")',
        "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
        "a raw socket": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
        "a packet socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)",
        "DNS": 'socket.getaddrinfo("example.org", 80)',
    },
    OTHERS: {
        "signals its guard": "os.kill(os.getppid(), 9)",
        "signals the caller": "os.kill(PARENT, 0); os.kill(PARENT, 10)",
        "signals the guard's group": "os.killpg(os.getpgid(os.getppid()), 9)",
        "signals everybody": "os.kill(-1, 9)",
    },
    "seccomp": {
        "opens a file by its handle": "call(304, -100, 0, 0)",
        "sockets through io_uring": "call(425, 4, ctypes.create_string_buffer(256))",
        "an internet socket pair": "socket.socketpair(socket.AF_INET)",
        "a datagram by a socket pair": """
            one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            one.sendto(b"x", BASE + "/letters")""",
        "signals by the owner of a file": """
            import fcntl
            fcntl.fcntl(0, 10, 9); fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())""",
        "limits its guard": """
            import resource
            resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))""",
        "pins its guard to a core": "os.sched_setaffinity(os.getppid(), {0})",
        "reads another process's memory": "call(310, os.getppid(), 0, 0, 0, 0, 0)",
        "takes a file of another process": "call(438, call(434, os.getppid(), 0), 3, 0)",
        "sets an extended attribute": 'os.setxattr(".", "user.secret", b"owned")',
        "hides memory in a memfd": 'os.memfd_create("x")',
        "hides memory in SysV segments": "call(29, 0, 1 << 20, 0o1666)",
        "types for another terminal": 'import fcntl; fcntl.ioctl(0, 0x5412, b"x")',
    },
    KERNEL: {
        "becomes root": "os.setuid(0)",
        "mount": 'call(165, b"none", b".", b"tmpfs", 0, 0)',
        "chroot": 'os.chroot(".")',
        "a user namespace by unshare": "call(272, 0x10000000)",
        "a user namespace by clone": "call(56, 0x10000000 | 17, 0, 0, 0, 0) or os._exit(0)",
        "a user namespace by clone3": "call(435, ctypes.create_string_buffer(64), 64)",
        "bpf": "call(321, 0, ctypes.create_string_buffer(64), 64)",
        "perf": "call(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)",
        "keyctl": "call(250, 0, -3, 1)",
        "kexec": "call(246, 0, 0, 0, 0)",
        "loads a kernel module": 'call(175, b"", 0, b"")',
        "userfaultfd": "call(323, 1)",
        "sets the clock": "time.clock_settime(time.CLOCK_REALTIME, 0)",
        "makes a device": 'os.mknod("disk", stat.S_IFBLK | 0o666, os.makedev(254, 0))',
    },
    DEVICES: {
        "opens /dev/mem": 'open("/dev/mem", "rb")',
        "opens /dev/kmsg": 'open("/dev/kmsg", "rb")',
        "opens the disk": 'open("/dev/vda", "rb")',
    },
    "files closed": {
        "uses an inherited file": """
            extra = []
            for number in range(3, 512):
                try: extra.append((number, os.readlink(f"/proc/self/fd/{number}"))); os.fstat(number)
                except OSError: pass
            extra = [held for held in extra if not held[1].endswith("guest.py")]
            if not extra: raise PermissionError("none")
            print(extra)""",
    },
    "rlimits": {
        "dumps core": """
            import resource
            if os.fork() == 0: os.abort()
            if not os.WCOREDUMP(os.wait()[1]): raise PermissionError("no core")""",
        "raises its limits": """
            import resource
            resource.setrlimit(resource.RLIMIT_AS, (-1, -1))""",
        "allocates 50 GB": "bytearray(50 << 30)",
        "writes a huge file": """
            import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            os.posix_fallocate(os.open("huge", os.O_CREAT | os.O_WRONLY), 0, 2 << 30)""",
        "a thread bomb": """
            import threading
            for _ in range(200): threading.Thread(target=time.sleep, args=(30,), daemon=True).start()""",
    },
}
COLD = {
    "clean environment, uid": {
        "reads a key in the environment": "found(repr(os.environ))",
        "reads /proc/self/environ": 'found(read("/proc/self/environ"))',
        "reads the environment of its parents": """
            texts = []
            for pid in [os.getppid(), PARENT, *range(2, 40)]:
                try: texts.append(read(f"/proc/{pid}/environ"))
                except OSError: pass
            found("".join(texts))""",
    },
    OTHERS: {"ptrace": "call(101, 16, os.getppid(), 0, 0)"},
    "no_new_privs": {
        "gains privileges by a setuid program": """
            if "NoNewPrivs:\\t1" in read("/proc/self/status"): raise PermissionError("none")""",
    },
    "no capabilities": {
        "has a capability that changes anything": """
            held = int(read("/proc/self/status").split("CapEff:")[1].split()[0], 16)
            if not held & ~4: raise PermissionError("none")""",
    },
}
LIMITED = [
    Stopped("a system call of x32", "seccomp", "call(0x40000000 + 39)", by=("signal",)),
    Stopped(
        "a loop past its CPU time",
        "rlimits",
        "while True: pass",
        limits=replace(QUICK, cpu_seconds=1.0),
    ),
    Stopped(
        "a loop that ignores SIGTERM",
        "wall clock",
        """
        import signal
        for number in range(1, 64):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True: pass""",
        limits=SHORT,
    ),
    Stopped(
        "a fork bomb",
        "rlimits, kill of all",
        """
        while True:
            try: os.fork()
            except OSError: pass""",
        "cold",
        by=("time", "memory"),
        limits=SHORT,
    ),
    Stopped(
        "many small processes fill the memory",
        "guard's sum",
        """
        for _ in range(6):
            if os.fork() == 0:
                hoard = bytearray(b"x") * (100 << 20); time.sleep(60)
        time.sleep(60)""",
        by=("memory",),
        limits=replace(QUICK, memory_bytes=300 << 20),
    ),
    Stopped(
        "shared memory",
        "guard's sum",
        """
        import mmap
        hoard = mmap.mmap(-1, 300 << 20)
        for place in range(0, 300 << 20, 4096): hoard[place] = 1
        time.sleep(2)""",
        by=("memory",),
        limits=replace(QUICK, memory_bytes=100 << 20),
    ),
    Stopped(
        "memory of a process whose name is no text",
        "guard's sum",
        """
        libc.prctl(15, b"\\xff")
        hoard = bytearray(b"x") * (300 << 20); time.sleep(2)""",
        by=("memory",),
        limits=replace(QUICK, memory_bytes=100 << 20),
    ),
    Stopped(
        "shuts its workspace to the caller",
        "look at the workspace",
        "os.chmod('.', 0); write('fill')",
        by=("files", ""),
    ),
    Stopped(
        "fills the disk in a shut folder",
        "look at the workspace",
        """
        os.mkdir("shut", 0o333)
        for n in range(30): write(f"shut/fill{n}", "x" * (2 << 20)); time.sleep(0.1)""",
        by=("files",),
        limits=replace(QUICK, disk_bytes=50 << 20),
    ),
    Stopped(
        "endless output",
        "output limit",
        'while True: os.write(1, b"y" * 65536)',
        by=("output",),
        limits=replace(QUICK, output_bytes=10_000),
    ),
    Stopped(
        "many files",
        "look at the workspace",
        """
        os.mkdir("many")
        for n in range(10_000_000):
            os.close(os.open(f"many/{n}", os.O_CREAT | os.O_WRONLY))""",
        by=("files", ""),
        limits=replace(QUICK, files=500),
    ),
    Stopped(
        "files that fill the disk",
        "look at the workspace",
        """
        for n in range(10_000):
            with open(f"fill{n}", "wb") as file: file.write(bytes(10 << 20))
            time.sleep(0.02)""",
        by=("files",),
        limits=replace(QUICK, disk_bytes=50 << 20),
    ),
]
PLANT = """
for name in ("json.py", "random.py", "sitecustomize.py", "usercustomize.py", "x.pth"):
    for folder in (".", os.environ["HOME"], os.environ["HOME"] + "/.local/lib"):
        os.makedirs(folder, exist_ok=True)
        write(folder + "/" + name, "import os; print('PLANTED')\\n")
os.environ["PYTHONPATH"] = os.getcwd()
"""
IMPORT = "import json, random; print('clean')"
TRACE = """
from contextlib import suppress
def leave(change, *arguments):
    with suppress(OSError): change(*arguments)
for place in (".", "..", "../..", os.environ["HOME"], "/dev/shm"):
    leave(write, place + "/secret")
    leave(os.setxattr, place, "user.secret", b"owned")
    leave(os.utime, place, (5, 5))
"""
LOOK = """
import os
from contextlib import suppress
for place in (".", "..", "../..", os.environ["HOME"], "/dev/shm"):
    with suppress(OSError): print(*(f for f, _, names in os.walk(place) if "secret" in names))
    if os.listxattr(place) or os.stat(place).st_mtime == 5: print(place)
"""
LOSS = "torch.nn.functional.cross_entropy"
AFTER = [
    NextJob("modules planted for a warm job", "-P, -I", PLANT, look=IMPORT, expected="clean\n"),
    NextJob("modules planted for a job", "-P, -I", PLANT, "cold", IMPORT, "clean\n"),
    NextJob(
        "a home left for the next job",
        "private folders emptied",
        'home = os.environ["HOME"]; write(home + "/.cache"); os.mkdir(home + "/deep")',
        look="""import os; print({".cache", "deep"} & set(os.listdir(os.environ["HOME"])))""",
        expected="set()\n",
    ),
    NextJob(
        "a shut folder for the judge's next job",
        "a new folder for each job",
        "os.mkdir('kept', 0o333); write('kept/secret')",
        "model",
        LOOK,
        "\n" * 5,
    ),
    NextJob(
        "traces for the judge's next job",
        "a new folder for each job",
        TRACE,
        "model",
        LOOK,
        "\n" * 5,
    ),
    NextJob(
        "replaces its own script",
        "the caller writes it again",
        'os.unlink("guest.py"); os.symlink(BASE + "/outside", "guest.py")',
        "cold",
        "print('mine')",
        "mine\n",
    ),
    NextJob(
        "empties its workspace",
        "its own to lose",
        "import shutil; shutil.rmtree(os.getcwd(), ignore_errors=True)",
        "cold",
        "print('still here')",
        "still here\n",
    ),
    NextJob(
        "changes torch's loss for the next job",
        "a fork for each job",
        f"import torch; {LOSS} = lambda *a, **k: torch.zeros(())\n",
        "torch",
        f"import torch; print(float({LOSS}(torch.zeros(1, 4), torch.tensor([1]))) > 1)",
        "True\n",
    ),
    FakeResult(
        "a symlink as a result", "read_back", 'os.symlink(BASE + "/home/key", "result.json")'
    ),
    FakeResult(
        "a folder as a result", "read_back", 'os.symlink(BASE + "/home", "r")', result="r/key"
    ),
    FakeResult("a fifo as a result", "read_back", 'os.mkfifo("result.json")'),
    FakeResult("a huge result", "read_back", 'write("result.json", "x" * 2000)'),
    FakeResult("a printed result", "results are files", "print('{\"accuracy\": 1.0}')"),
    NextJob(
        "a grandchild that outlives its job",
        "guard reaps all",
        """
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.setsid()
                for number in range(3):
                    os.close(number)
                while True:
                    time.sleep(0.05)
                    with open("heart", "a") as file:
                        file.write("beat")
            os._exit(0)
        while not os.path.exists("heart"):
            time.sleep(0.01)
        """,
        "cold",
        "import os, time; n = os.stat('heart').st_size; time.sleep(0.2); "
        "print(os.stat('heart').st_size - n)",
        "0\n",
    ),
]
ATTACKS: list[Attack] = [
    *(Attack(name, layer, WARM[layer][name]) for layer in WARM for name in WARM[layer]),
    *(Attack(name, layer, COLD[layer][name], "cold") for layer in COLD for name in COLD[layer]),
    *LIMITED,
    *AFTER,
]


def intact(target: Target) -> bool:
    """Whether all that lies outside of the workspace is as it was made."""
    ours = {"workspace", "models"}
    paths = (path for path in target.base.rglob("*") if not ours.intersection(path.parts))
    names = sorted(str(path.relative_to(target.base)) for path in paths)
    key = target.base / "home/key"
    return (
        names == ["home", "home/key", "letters", "other", "other/secret", "outside", "socket"]
        and (target.base / "outside").read_text() == "untouched"
        and key.read_text() == SECRET
        and key.stat().st_mode & 0o777 == 0o666
        and key.stat().st_mtime > 0
    )


def count_filters(process: str) -> int:
    """Seccomp filters of a process: a guest has one more than its guard, whose name it shares."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next((line[16:] for line in lines if line.startswith("Seccomp_filters:")), "0"))


def left_alive(target: Target) -> str:
    """Processes that still work in the workspace, shortly after a job."""
    alive: list[str] = []
    for _ in range(20):
        alive = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with suppress(OSError):
                    if os.readlink(f"/proc/{name}/cwd") == str(target.workspace):
                        words = Path(f"/proc/{name}/cmdline").read_bytes()
                        ours = b"guard.main()" in words or b"bwrap" in words
                        if words and (not ours or count_filters(name) > count_filters("self")):
                            alive.append(name)
        if not alive:
            return ""
        time.sleep(0.05)
    return f"left processes: {', '.join(alive)}"


@contextmanager
def make_target(mode: str) -> Iterator[Target]:
    """A folder with a key, another workspace and open sockets beside the sandbox's workspace."""
    with (
        tempfile.TemporaryDirectory(prefix="genlab-attacks-", ignore_cleanup_errors=True) as folder,
        patch.dict(os.environ, OPENAI_API_KEY=SECRET),
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as path,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as letters,
    ):
        base = Path(folder).resolve()
        base.chmod(0o755)  # nothing here is kept by the modes of files
        for name, text in (
            ("home/key", SECRET),
            ("other/secret", SECRET),
            ("outside", "untouched"),
        ):
            (base / name).parent.mkdir(exist_ok=True)
            (base / name).write_text(text)
            (base / name).chmod(0o666)
        path.bind(str(base / "socket"))
        path.listen()
        letters.bind(str(base / "letters"))
        for name in ("socket", "letters"):
            (base / name).chmod(0o777)
        workspace = base / "workspace"
        workspace.mkdir()
        (workspace / "port").write_text(str(tcp.getsockname()[1]))
        (base / "models").mkdir()
        (base / "models").chmod(0o1777)  # as the system's folder for temporary files
        sandbox = Sandbox(workspace, QUICK, mode=mode)
        with (
            patch.object(evaluator, "PRELOAD", ("json",)),
            patch.object(tempfile, "tempdir", str(base / "models")),
            Worker(sandbox, ("json",)) as worker,
            Worker(sandbox) as heavy,
            evaluator.ModelSandbox(mode, "cpu") as models,
        ):
            yield Target(base, sandbox, worker, heavy, models)


def judge(attack: Attack, target: Target) -> str:
    """Run one attack in a workspace without traces of others: "" where it was stopped."""
    target.workspace.chmod(0o755)
    for path in target.workspace.iterdir():
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        elif path.name != "port":
            path.unlink()
    return attack.judge(target)


if __name__ == "__main__":  # run as an ordinary user, without torch; argument: a mode
    faults = {}
    with make_target(sys.argv[1]) as target:
        for attack in ATTACKS:
            if attack.start != "torch":
                faults[attack.name] = judge(attack, target)
    print(f"{len(faults)} attacks were tried")
    sys.exit("\n".join(f"{name}: {fault}" for name, fault in faults.items() if fault) or 0)
