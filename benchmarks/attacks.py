"""Attacks on the sandbox: what a guest might try, and whether it got anywhere.

Each attack is a small script of a guest. Most try one thing and must be refused: an exception
prints `refused`, coming through prints `BREACH`, and what would have changed outside is looked at
too. The others must be stopped by a limit, or must not reach the next job. `tests/sandbox/test_runner.py`
runs the same list, in both modes, as root and as an ordinary user.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from genlab.core.errors import GenlabError, run_cli
from genlab.sandbox import Finished, Limits, Sandbox, Worker, read_back
from genlab.sandbox.runner import GUEST

SECRET = "sk-attack-me"
COMMAND = "python benchmarks/attacks.py"
GIB = 1 << 30
QUICK = Limits(wall_seconds=20.0, cpu_seconds=20.0, processes=32)

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
def attack():
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

    @property
    def workspace(self) -> Path:
        return self.sandbox.workspace

    def guest(
        self, code: str, limits: Limits = QUICK, *, warm: bool = False, torch: bool = False
    ) -> Finished:
        """Run `code` as a guest's script: cold, by a worker, or by one that holds torch."""
        script = self.workspace / "guest.py"
        with suppress(FileNotFoundError):
            script.unlink()
        script.write_text(code)
        known = {
            "BASE": str(self.base),
            "PARENT": str(os.getpid()),
            "NEEDLE": SECRET[::-1],
            "SOURCE": str(GUEST.parents[3]),
            "GUARD": str(GUEST / "guard.py"),
        }
        if torch:
            return self.torch.run(script.name, env=known, limits=limits)
        if warm:
            return self.worker.run(script.name, env=known, limits=limits)
        return self.sandbox.run(["python", script.name], env=known, limits=limits)


Judge = Callable[[Target], str]


@dataclass(frozen=True)
class Attack:
    """`judge` gives "" where the attack was stopped, else what went wrong."""

    name: str
    layer: str
    judge: Judge
    torch: bool = False  # it needs a worker that has imported torch


ATTACKS: list[Attack] = []


def refused(name: str, layer: str, body: str, *, warm: bool = True) -> None:
    """An attack that must raise in the guest and leave everything outside as it was."""
    code = PRELUDE + textwrap.indent(textwrap.dedent(body).strip(), "    ") + ENDING

    def judge(room: Target) -> str:
        done = room.guest(code, warm=warm)
        if "BREACH" in done.output or SECRET in done.output:
            return f"came through: {done.output}"
        if "refused" not in done.output:
            return f"did not run: {done}"
        return "" if intact(room) else "changed a file outside"

    ATTACKS.append(Attack(name, layer, judge))


def stopped(
    name: str,
    layer: str,
    body: str,
    by: tuple[str, ...],
    limits: Limits,
    *,
    warm: bool = True,
) -> None:
    """An attack that must be ended by a limit and leave no process."""
    code = PRELUDE + textwrap.indent(textwrap.dedent(body).strip(), "    ") + ENDING

    def judge(room: Target) -> str:
        began = time.monotonic()
        done = room.guest(code, limits, warm=warm)
        if time.monotonic() - began > limits.wall_seconds + 8:
            return f"was not ended in time: {done.seconds:.1f} s"
        if "BREACH" in done.output:
            return f"came through: {done.output[:200]}"
        if done.stopped_by not in by and not ("" in by and "refused" in done.output):
            return f"not stopped: {replace(done, output=done.output[-300:])}"
        return left_alive(room) or ("" if intact(room) else "changed a file outside")

    ATTACKS.append(Attack(name, layer, judge))


def special(name: str, layer: str, *, torch: bool = False) -> Callable[[Judge], Judge]:
    def register(judge: Judge) -> Judge:
        ATTACKS.append(Attack(name, layer, judge, torch))
        return judge

    return register


def intact(room: Target) -> bool:
    """Whether all that lies outside of the workspace is as it was made."""
    paths = (path for path in room.base.rglob("*") if "workspace" not in path.parts)
    names = sorted(str(path.relative_to(room.base)) for path in paths)
    return (
        names == ["home", "home/key", "other", "other/secret", "outside", "socket"]
        and (room.base / "outside").read_text() == "untouched"
        and (room.base / "home/key").read_text() == SECRET
        and (room.base / "home/key").stat().st_mode & 0o777 == 0o666
        and (room.base / "home/key").stat().st_mtime > 0
    )


def left_alive(room: Target) -> str:
    """Processes that still work in the workspace, shortly after a job."""
    alive: list[str] = []
    for _ in range(20):
        alive = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with suppress(OSError):
                    if os.readlink(f"/proc/{name}/cwd") == str(room.workspace):
                        words = Path(f"/proc/{name}/cmdline").read_bytes()
                        if words and b"guard.main()" not in words and b"bwrap" not in words:
                            alive.append(name)
        if not alive:
            return ""
        time.sleep(0.05)
    return f"left processes: {', '.join(alive)}"


# fmt: off
FILES = "mount namespace / Landlock"
refused("reads a key in the home folder", FILES, 'found(read(BASE + "/home/key"))')
refused("reads a key through /proc/self/cwd", FILES, 'found(read("/proc/self/cwd/../home/key"))')
refused("reads a key in the environment", "clean environment", "found(repr(os.environ))", warm=False)
refused("reads /proc/1/environ", "pid namespace / Landlock", 'found(read("/proc/1/environ"))')
refused("reads /proc/self/environ", "clean environment", 'found(read("/proc/self/environ"))', warm=False)
refused("reads the environment of its parents", "clean environment, uid", """
    texts = [read("/proc/self/environ")]
    for pid in [os.getppid(), PARENT, *range(2, 40)]:
        try: texts.append(read(f"/proc/{pid}/environ"))
        except OSError: pass
    found("".join(texts))""", warm=False)
refused("reads the memory of the guard", "uid / dumpable, Landlock", 'open(f"/proc/{os.getppid()}/mem", "rb")')
refused("reads files through /proc/<parent>/root", "pid namespace, uid", 'found(read(f"/proc/{PARENT}/root{BASE}/home/key"))')
refused("reads another workspace", FILES, 'found(read(BASE + "/other/secret"))')
refused("reads the password hashes", FILES, 'read("/etc/shadow")')
refused("writes outside of the workspace", FILES, 'write(BASE + "/outside")')
refused("makes a file beside the workspace", FILES, 'write(BASE + "/new")')
refused("writes outside by ..", FILES, 'write("../outside")')
refused("writes through a symlink", FILES, 'os.symlink(BASE + "/outside", "way-out"); write("way-out")')
refused("reads through a symlink", FILES, 'os.symlink(BASE + "/home", "way-in"); found(read("way-in/key"))')
refused("makes a hard link to a key", FILES, 'os.link(BASE + "/home/key", "hard"); found(read("hard"))')
refused("moves a file out of the workspace", FILES, 'write("mine"); os.rename("mine", BASE + "/moved")')
refused("truncates a file outside", FILES, 'os.truncate(BASE + "/outside", 0)')
refused("changes the mode of a file outside", "mount namespace, uid / seccomp", 'os.chmod(BASE + "/home/key", 0o600)')
refused("changes the date of a file outside", "mount namespace, uid / seccomp", 'os.utime(BASE + "/home/key", (0, 0))')
refused("deletes the workspace's root", FILES, 'os.rmdir(os.getcwd()) if not os.listdir() else os.rename(os.getcwd(), os.getcwd() + "-gone")')
refused("overwrites the interpreter", FILES, 'write(os.path.realpath(sys.executable), "")')
refused("plants a module in site-packages", FILES, 'import sysconfig; write(sysconfig.get_path("purelib") + "/planted.pth")')
refused("plants a sitecustomize", FILES, 'import sysconfig; write(sysconfig.get_path("stdlib") + "/sitecustomize.py")')
refused("writes a system program", FILES, 'write("/usr/bin/owned")')
refused("imports the evaluator to change it", FILES, "sys.path.append(SOURCE); import genlab.evaluation")
refused("edits the evaluator", FILES, 'write(SOURCE + "/genlab/evaluation/__init__.py", "")')
refused("edits the guard", FILES, 'write(GUARD)')
refused("opens a file by its handle", "seccomp", "call(304, -100, 0, 0)")

NET = "seccomp, network namespace"
refused("TCP", NET, 'socket.create_connection(("127.0.0.1", int(read("port"))), 2)')
refused("UDP", NET, 'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))')
refused("listens", NET, 'socket.create_server(("127.0.0.1", 0))')
refused("a unix socket by path", NET, 'socket.socket(socket.AF_UNIX).connect(BASE + "/socket")')
refused("an abstract unix socket", NET, 'socket.socket(socket.AF_UNIX).connect("\\0genlab-attack")')
refused("netlink", NET, "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)")
refused("a raw socket", NET, "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)")
refused("a packet socket", NET, "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)")
refused("DNS", NET, 'socket.getaddrinfo("example.org", 80)')
refused("sockets through io_uring", "seccomp", "call(425, 4, ctypes.create_string_buffer(256))")
refused("an internet socket pair", "seccomp", "socket.socketpair(socket.AF_INET)")

OTHERS = "seccomp, pid namespace, uid"
refused("ptrace", OTHERS, "call(101, 16, os.getppid(), 0, 0)", warm=False)
refused("signals its guard", OTHERS, "os.kill(os.getppid(), 9)")
refused("signals the caller", OTHERS, "os.kill(PARENT, 0); os.kill(PARENT, 10)")
refused("signals the guard's group", OTHERS, "os.killpg(os.getpgid(os.getppid()), 9)")
refused("signals everybody", OTHERS, "os.kill(-1, 9)")
refused("signals by the owner of a file", "seccomp", """
    import fcntl
    fcntl.fcntl(0, 10, 9); fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())""")
refused("limits its guard", "seccomp", "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))")
refused("reads another process's memory", "seccomp", "call(310, os.getppid(), 0, 0, 0, 0, 0)")
refused("takes a file of another process", "seccomp", "call(438, call(434, os.getppid(), 0), 3, 0)")

KERNEL = "seccomp, no capabilities"
refused("becomes root", KERNEL, "os.setuid(0)")
refused("gains privileges by a setuid program", "no_new_privs", """
    if "NoNewPrivs:\\t1" in read("/proc/self/status"): raise PermissionError("no new privileges")""", warm=False)
refused("has a capability that changes anything", "no capabilities", """
    held = int(read("/proc/self/status").split("CapEff:")[1].split()[0], 16)
    if not held & ~4: raise PermissionError("none")""", warm=False)
refused("mount", KERNEL, 'call(165, b"none", b".", b"tmpfs", 0, 0)')
refused("chroot", KERNEL, 'os.chroot(".")')
refused("a user namespace by unshare", KERNEL, "call(272, 0x10000000)")
refused("a user namespace by clone", KERNEL, "call(56, 0x10000000 | 17, 0, 0, 0, 0) or os._exit(0)")
refused("a user namespace by clone3", KERNEL, "call(435, ctypes.create_string_buffer(64), 64)")
refused("bpf", KERNEL, "call(321, 0, ctypes.create_string_buffer(64), 64)")
refused("perf", KERNEL, "call(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)")
refused("keyctl", KERNEL, "call(250, 0, -3, 1)")
refused("kexec", KERNEL, "call(246, 0, 0, 0, 0)")
refused("loads a kernel module", KERNEL, 'call(175, b"", 0, b"")')
refused("userfaultfd", KERNEL, "call(323, 1)")
refused("sets the clock", KERNEL, "time.clock_settime(time.CLOCK_REALTIME, 0)")
refused("opens /dev/mem", "private /dev, uid", 'open("/dev/mem", "rb")')
refused("opens /dev/kmsg", "private /dev, uid", 'open("/dev/kmsg", "rb")')
refused("opens the disk", "private /dev, uid", 'open("/dev/vda", "rb")')
refused("makes a device", "no capabilities", 'os.mknod("disk", stat.S_IFBLK | 0o666, os.makedev(254, 0))')
refused("TIOCSTI", "seccomp, new session", 'import fcntl; fcntl.ioctl(0, 0x5412, b"x")')
refused("uses an inherited file", "files closed", """
    extra = []
    for number in range(3, 512):
        try: extra.append((number, os.readlink(f"/proc/self/fd/{number}"))); os.fstat(number)
        except OSError: pass
    extra = [held for held in extra if not held[1].endswith("guest.py")]
    if not extra: raise PermissionError("none")
    print(extra)""")
refused("dumps core", "rlimits", """
    import resource
    if os.fork() == 0: os.abort()
    if not os.WCOREDUMP(os.wait()[1]): raise PermissionError("no core")""")
refused("raises its limits", "rlimits", "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1))")
refused("hides memory in a memfd", "seccomp", 'os.memfd_create("x")')
refused("hides memory in SysV segments", "seccomp", "call(29, 0, 1 << 20, 0o1666)")
refused("allocates 50 GB", "rlimits", "bytearray(50 << 30)")
refused("writes a huge file", "rlimits", """
    import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    os.posix_fallocate(os.open("huge", os.O_CREAT | os.O_WRONLY), 0, 2 << 30)""")
refused("a thread bomb", "rlimits", """
    import threading
    for _ in range(200): threading.Thread(target=time.sleep, args=(30,), daemon=True).start()""")

SHORT = replace(QUICK, wall_seconds=0.6)
stopped("a fork bomb", "rlimits, kill of all", """
    while True:
        try: os.fork()
        except OSError: pass""", ("time", "memory"), SHORT, warm=False)
stopped("a system call of x32", "seccomp", "call(0x40000000 + 39)", ("signal",), QUICK)
stopped("an endless loop", "wall clock", "while True: pass", ("time",), SHORT, warm=False)
stopped("a loop that ignores SIGTERM", "wall clock", """
    import signal
    for number in range(1, 64):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass
    while True: pass""", ("time",), SHORT)
stopped("a loop past its CPU time", "rlimits", "while True: pass", ("time",), replace(QUICK, cpu_seconds=1.0))
stopped("many small processes fill the memory", "guard's sum", """
    for _ in range(6):
        if os.fork() == 0:
            hoard = bytearray(b"x") * (100 << 20); time.sleep(60)
    time.sleep(60)""", ("memory",), replace(QUICK, memory_bytes=300 << 20))
stopped("endless output", "output limit", """
    while True: os.write(1, b"y" * 65536)""", ("output",), replace(QUICK, output_bytes=10_000))
stopped("many files", "look at the workspace", """
    os.mkdir("many")
    for n in range(10_000_000):
        os.close(os.open(f"many/{n}", os.O_CREAT | os.O_WRONLY))""", ("files", ""), replace(QUICK, files=500))
stopped("files that fill the disk", "look at the workspace", """
    for n in range(10_000):
        with open(f"fill{n}", "wb") as file: file.write(bytes(10 << 20))
        time.sleep(0.02)""", ("files",), replace(QUICK, disk_bytes=50 << 20))
# fmt: on


@special("a grandchild that outlives its job", "guard reaps all")
def _daemon(room: Target) -> str:
    code = (
        PRELUDE
        + "    pass\n"
        + textwrap.dedent("""
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
        """)
    )
    done = room.guest(code)
    if done.exit_code != 0:
        return f"did not run: {done}"
    before = (room.workspace / "heart").stat().st_size
    time.sleep(0.2)
    beats = (room.workspace / "heart").stat().st_size > before
    return "lives on" if beats else left_alive(room)


def _read_back_refuses(room: Target, code: str, name: str) -> str:
    done = room.guest(PRELUDE + "    pass\n" + code, warm=True)
    if done.exit_code != 0:
        return f"did not run: {done}"
    try:
        return f"was read: {read_back(room.workspace, name, limit=1000)[:40]!r}"
    except GenlabError:
        return ""


@special("a symlink as a result", "read_back")
def _link_result(room: Target) -> str:
    return _read_back_refuses(room, 'os.symlink(BASE + "/home/key", "result.json")', "result.json")


@special("a folder of results that is a symlink", "read_back")
def _link_folder(room: Target) -> str:
    return _read_back_refuses(room, 'os.symlink(BASE + "/home", "results")', "results/key")


@special("a fifo as a result", "read_back")
def _fifo(room: Target) -> str:
    return _read_back_refuses(room, 'os.mkfifo("result.json")', "result.json")


@special("a huge result", "read_back")
def _huge_result(room: Target) -> str:
    return _read_back_refuses(room, 'write("result.json", "x" * 2000)', "result.json")


@special("a fake result line", "results are files")
def _fake_line(room: Target) -> str:
    done = room.guest('print(\'{"accuracy": 1.0, "exit": 0, "ready": true}\')', warm=True)
    try:
        read_back(room.workspace, "predictions.json")
    except GenlabError:
        return "" if done.exit_code == 0 and not hasattr(done, "accuracy") else f"{done}"
    return "there is a result"


@special("modules planted for the next job", "-P, -I, fixed environment")
def _planted(room: Target) -> str:
    plant = textwrap.dedent("""
        import os
        for name in ("json.py", "random.py", "sitecustomize.py", "usercustomize.py", "x.pth"):
            for folder in (".", os.environ["HOME"], os.environ["HOME"] + "/.local/lib"):
                os.makedirs(folder, exist_ok=True)
                with open(folder + "/" + name, "w") as file:
                    file.write("import os; print('PLANTED')\\n")
        os.environ["PYTHONPATH"] = os.getcwd()
        """)
    room.guest(plant, warm=True)
    next_job = "import json, random; print('clean')"
    outputs = [room.guest(next_job, warm=warm).output for warm in (True, False)]
    return "" if outputs == ["clean\n", "clean\n"] else f"{outputs}"


@special("a home left for the next job", "private folders emptied")
def _home(room: Target) -> str:
    leave = 'import os; open(os.environ["HOME"] + "/.cache", "w").write("x"); os.mkdir(os.environ["HOME"] + "/deep")'
    look = (
        'import os; print([n for n in os.listdir(os.environ["HOME"]) if n in (".cache", "deep")])'
    )
    outputs = [room.guest(code, warm=True).output for code in (leave, look)]
    return "" if outputs == ["", "[]\n"] else f"{outputs}"


@special("replaces its own script", "the caller writes it again")
def _own_script(room: Target) -> str:
    code = PRELUDE + '    pass\nos.unlink("guest.py"); os.symlink(BASE + "/outside", "guest.py")'
    first = room.guest(code)
    second = room.guest("print('mine')")
    ok = first.exit_code == 0 and second.output == "mine\n" and intact(room)
    return "" if ok else f"{first} {second}"


@special("empties its workspace", "its own to lose")
def _empties(room: Target) -> str:
    room.guest("import shutil, os; shutil.rmtree(os.getcwd(), ignore_errors=True)")
    after = room.guest("print('still here')")
    return "" if after.output == "still here\n" and intact(room) else f"{after}"


@special("changes builtins for the next job", "a fork for each job")
def _builtins(room: Target) -> str:
    room.guest(
        "import builtins, os, gc; builtins.len = lambda _: 0; os.environ['X'] = '1'", warm=True
    )
    done = room.guest("import os; print(len('four'), os.environ.get('X'))", warm=True)
    return "" if done.output == "4 None\n" else f"{done}"


@special("changes the clock for the next job", "a fork for each job")
def _clock(room: Target) -> str:
    first = room.guest(
        "import time; time.time = time.monotonic = lambda: 0.0; time.sleep(0.3)", warm=True
    )
    done = room.guest("import time; print(time.time() > 1e9)", warm=True)
    fair = first.seconds >= 0.3 and done.output == "True\n"
    return "" if fair else f"{first} {done}"


@special("changes torch's loss for the next job", "a fork for each job", torch=True)
def _loss(room: Target) -> str:
    patch = "import torch; torch.nn.functional.cross_entropy = lambda *a, **k: torch.zeros(())\n"
    look = "import torch; print(float(torch.nn.functional.cross_entropy(torch.zeros(1, 4), torch.tensor([1]))) > 1)"
    room.guest(patch, torch=True)
    done = room.guest(look, torch=True)
    return "" if done.output == "True\n" else f"{done}"


@special("a pickle in its weights", "weights_only, safetensors", torch=True)
def _pickle(room: Target) -> str:
    code = textwrap.dedent("""
        import os, torch
        class Payload:
            def __reduce__(self):
                return os.system, ("touch pickled",)
        torch.save({"weights": Payload()}, "model.pt")
        try:
            torch.load("model.pt", weights_only=True)
        except Exception as error:
            print("refused", type(error).__name__)
        """)
    done = room.guest(code, torch=True)
    held = read_back(room.workspace, "model.pt")
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        load(held)
    except (SafetensorError, ValueError):
        clean = not (room.workspace / "pickled").exists()
        return "" if clean and done.output.startswith("refused") else f"{done}"
    return "safetensors took a pickle"


@contextmanager
def room(mode: str) -> Iterator[Target]:
    """A place with a key, another workspace and open sockets beside the sandbox's workspace."""
    base = Path(tempfile.mkdtemp(prefix="genlab-attacks-")).resolve()
    before = os.environ.get("OPENAI_API_KEY")
    try:
        base.chmod(0o755)  # nothing here is kept by the modes of files
        for name, text in (
            ("home/key", SECRET),
            ("other/secret", SECRET),
            ("outside", "untouched"),
        ):
            (base / name).parent.mkdir(exist_ok=True)
            (base / name).write_text(text)
            (base / name).chmod(0o666)
        workspace = base / "workspace"
        workspace.mkdir()
        os.environ["OPENAI_API_KEY"] = SECRET
        with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as path:
            path.bind(str(base / "socket"))
            path.listen()
            (base / "socket").chmod(0o777)
            sandbox = Sandbox(workspace, QUICK, mode=mode)
            with Worker(sandbox, ("json",)) as worker, Worker(sandbox) as heavy:
                place = Target(base, sandbox, worker, heavy)
                (workspace / "port").write_text(str(tcp.getsockname()[1]))
                yield place
    finally:
        if before is None:
            os.environ.pop("OPENAI_API_KEY", None)
        else:
            os.environ["OPENAI_API_KEY"] = before
        shutil.rmtree(base, ignore_errors=True)


def judge(attack: Attack, place: Target) -> str:
    """Run one attack in a workspace without traces of others: "" where it was stopped."""
    for path in place.workspace.iterdir():
        if path.name != "port":
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    return attack.judge(place)


def bench(
    mode: Annotated[str, typer.Option(help="bubblewrap, landlock, or auto.")] = "auto",
    keep: Annotated[bool, typer.Option(help="Record agent.attacks_stopped.")] = True,
    torch: Annotated[bool, typer.Option(help="With the attacks that need torch.")] = True,
) -> None:
    """Run every attack once and count those that were stopped."""
    attacks = [attack for attack in ATTACKS if torch or not attack.torch]
    outcomes = {}
    with room(mode) as place:
        for attack in attacks:
            outcomes[attack.name] = judge(attack, place)
        mode = place.sandbox.mode
    for name, fault in outcomes.items():
        if fault:
            print(f"{name}: {fault}")
    through = sum(map(bool, outcomes.values()))
    print(f"{mode}: {len(outcomes) - through} of {len(outcomes)} attacks were stopped")
    if keep:
        from record import record

        record(
            "agent.attacks_stopped",
            len(outcomes) - through,
            interval=None,
            n=len(outcomes),
            seeds=[],
            command=COMMAND,
        )
    sys.exit(1 if through else 0)


if __name__ == "__main__":
    run_cli(lambda: typer.run(bench))
