"""The sandbox from outside: choose the best mode that works, and build what a guard starts in."""

import functools
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from genlab.core.errors import GenlabError
from genlab.sandbox.guest import lockdown
from genlab.sandbox.limits import MIB, JobResult, Limits
from genlab.sandbox.worker import Worker

MODES = ("auto", "bubblewrap", "landlock")
LANDLOCK_ALONE = (
    "generated code runs behind Landlock, seccomp and limits alone, without namespaces:"
    " names, sizes and dates of files outside the workspace stay visible"
)
CHOOSE = "choose bubblewrap or auto where it works"
INSTALL = "install bubblewrap (sudo apt-get install bubblewrap), or use Linux 5.13 with Landlock"
SYSTEM = (
    *("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/share/zoneinfo"),
    "/usr/local/nvidia",  # CUDA's driver, where a container is given it
)
ROOT_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage"  # glibc reads their size here
FACTS = ("/etc/ld.so.cache", "/etc/localtime", "/sys/devices/system/cpu", HUGE_PAGES)
PROC_FACTS = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version")
# What CUDA's driver reads, and the names that it gives its threads (NVIDIA/OpenShell issue 1486).
DRIVER_FACTS = ("/proc/devices", "/proc/driver", "/proc/modules", "/proc/sys/vm", "/sys/bus/pci")
THREAD_NAMES = "/proc/self/task"
PLAIN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
GUEST = Path(__file__).resolve().parent / "guest"
SITE = GUEST / "site"  # on the path of every Python inside
START = (
    f"import sys; sys.path.insert(0, {str(GUEST.parent)!r}); from guest import guard; "
    "del sys.path[0]; guard.main()"
)
FIRST_GUEST, GUESTS = 40_000, 20_000
PROBE = "genlab-probe"  # workspace in which a mode is tried


class SandboxWarning(UserWarning):
    """Generated code runs behind fewer layers than there could be."""


class Sandbox:
    """Run code that nobody has read; this package's docstring lists what is kept out.

    `workspace` is the one folder it may write; the guest sees it under its real path. `readable`
    paths are added for reading, `devices` (such as /dev/nvidia0) for use: a GPU is passed in by
    them alone, and what CUDA's driver needs beside them comes with them. `mode` is "bubblewrap",
    "landlock", or "auto", the best that works here. Raises a GenlabError where no mode works; it
    then runs nothing.
    """

    def __init__(
        self,
        workspace: str | Path,
        limits: Limits | None = None,
        *,
        mode: str = "auto",
        readable: Sequence[str | Path] = (),
        devices: Sequence[str | Path] = (),
    ) -> None:
        if mode not in MODES:
            raise GenlabError(f"sandbox: mode must be one of {', '.join(MODES)}, got {mode!r}")
        self.workspace = Path(workspace).resolve()
        if not self.workspace.is_dir():
            raise GenlabError(
                f"sandbox: {self.workspace} is not a folder; make the workspace first"
            )
        for path in (*readable, *devices):
            if not Path(path).exists():
                raise GenlabError(f"sandbox: {path} is not there; correct readable or devices")
        is_probe = self.workspace.name == PROBE and mode != "auto"
        self.mode = mode if is_probe else choose_mode(mode)
        self.limits = limits or Limits()
        self.readable = [str(Path(path).resolve()) for path in readable]
        self.devices = [str(path) for path in devices]

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> JobResult:
        """Run a command line in the workspace and wait for it; never raises for what it does.

        Its input is empty, and its environment holds `env` and a few fixed names, nothing of this
        process. When the first process ends, all that it started is killed. Raises a GenlabError
        where the sandbox itself fails.
        """
        with Worker(self, ()) as worker:
            return worker.run_job({"argv": list(map(str, argv))}, env, limits)

    def describe_guard(
        self, preload: Sequence[str], private: str | None
    ) -> tuple[list[str], dict[str, str], dict[str, Any]]:
        """Command line, environment and config of a guard in this sandbox.

        preload: modules that it imports, and scripts of ours that it runs. private: folder for
        temporary files, the guest's alone; None: bubblewrap's /tmp.
        """
        uid = _guest_uid(self.workspace) if os.getuid() == 0 else None
        bubblewrap, tmp = self.mode == "bubblewrap", private or "/tmp"
        if private is not None and uid is not None:
            os.chown(private, uid, uid)
        readable = [*_interpreter(), str(SITE), *self.readable]
        search = uid is not None and self._needs_search(readable, tmp)
        driver, names = (DRIVER_FACTS, [THREAD_NAMES]) if self.devices else ((), [])
        config = {
            "uid": uid,
            "preload": list(preload),
            "private": private,
            "watched": [tmp, *self._made_in("/tmp", readable), "/dev/shm"] if bubblewrap else [tmp],
            "bubblewrap": bubblewrap,
            "search": search,
            "driver": bool(self.devices),
            "readable": [*readable, *SYSTEM, *ROOT_LINKS, *FACTS, *PROC_FACTS, *driver],
            "writable": [str(self.workspace), tmp, *PLAIN_DEVICES, *self.devices, *names],
        }
        argv = [sys.executable, "-I", "-u", *([] if preload else ["-S"]), "-c", START]
        if bubblewrap:
            argv = [*self._bubblewrap(readable, search=search), *argv]
        return argv, _environment(tmp), config

    def _needs_search(self, readable: Sequence[str], tmp: str) -> bool:
        """Whether a guest of another uid needs a capability to reach what it may use.

        For an interpreter, data or a temporary folder in a home that others cannot enter: see
        `lockdown.drop_privileges`.
        """
        if not all(map(_open_to_all, readable)):
            return True
        return self.mode == "landlock" and not _reachable(*readable, self.workspace, tmp)

    def _made_in(self, root: str, readable: Sequence[str]) -> set[str]:
        """What bubblewrap makes below `root` on the way to what is bound."""
        bound = (*SYSTEM, *FACTS, *readable, *self.devices, str(GUEST), str(self.workspace))
        parents = {above for path in bound for above in Path(path).parents}
        return {str(above) for above in parents if Path(root) in above.parents}

    def _bubblewrap(self, readable: Sequence[str], *, search: bool) -> list[str]:
        """Bubblewrap's command line."""
        found = shutil.which("bwrap")
        if found is None:
            raise GenlabError(f"sandbox: bwrap is not there any more; {INSTALL}")
        argv = [found, "--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid"]
        argv += ["--unshare-net", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
        if os.getuid() == 0:
            # Root needs no user namespace, and a guest's uid shields the guard better than one.
            argv += ["--cap-drop", "ALL"]
            kept = ["CAP_DAC_READ_SEARCH"] if search else []
            for name in ("CAP_SETUID", "CAP_SETGID", "CAP_KILL", *kept):
                argv += ["--cap-add", name]
        else:
            argv += ["--unshare-user"]
        argv += ["--proc", "/proc", "--dev", "/dev"]
        for place in ("/dev/shm", "/tmp"):
            argv += ["--perms", "1777", "--size", str(512 * MIB), "--tmpfs", place]
        for above in sorted(self._made_in("/", readable) - {"/dev", "/tmp", "/dev/shm"}):
            argv += ["--perms", "0555", "--dir", above]  # not as shut as they are outside
        for path in (*SYSTEM, *FACTS, *readable):
            argv += ["--ro-bind-try", path, path]
        for path in ROOT_LINKS:
            if os.path.islink(path):
                argv += ["--symlink", os.readlink(path), path]
            elif os.path.isdir(path):
                argv += ["--ro-bind", path, path]
        for path in self.devices:
            argv += ["--dev-bind", path, path]
        argv += ["--ro-bind", str(GUEST), str(GUEST)]
        argv += ["--bind", str(self.workspace), str(self.workspace)]
        argv += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--"]
        return argv


def choose_mode(mode: str) -> str:
    """`mode`, or for "auto" the strongest that works here; warns where that is Landlock.

    Raises a GenlabError where none works.
    """
    faults = list[str]()
    for each in MODES[1:] if mode == "auto" else [mode]:
        if fault := probe_mode(each, shutil.which("bwrap")):
            faults.append(f"{each} does not work here ({fault})")
            continue
        if each == "landlock":
            fix = f"{faults[0]}; {INSTALL.split(',')[0]}" if faults else CHOOSE
            warnings.warn(f"{LANDLOCK_ALONE}; {fix}", SandboxWarning, stacklevel=3)
        return each
    raise GenlabError(f"sandbox: {'; '.join(faults)}; no generated code is run; {INSTALL}")


@functools.cache
def probe_mode(mode: str, bwrap: str | None) -> str:
    """Why `mode` does not work here, found by trying it once; "" where it works."""
    if mode == "bubblewrap" and bwrap is None:
        return "no bwrap on PATH"
    if mode == "landlock" and lockdown.landlock_abi() == 0:
        return "the kernel has no Landlock"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, PROBE)
        place.mkdir()
        os.chmod(folder, 0o755)
        try:
            probe = Sandbox(place, Limits(wall_seconds=30.0), mode=mode)
            done = probe.run([sys.executable, "-I", "-S", "-c", "print('works')"])
        except GenlabError as error:
            return " ".join(str(error).split())[:200]
    return "" if done.output == "works\n" else " ".join(done.output.split())[:200] or "no output"


def _guest_uid(workspace: Path) -> int:
    """A different uid for each workspace, so that guests cannot reach each other's processes."""
    state = workspace.stat()
    digest = hashlib.sha256(f"{state.st_dev}:{state.st_ino}".encode()).digest()
    return FIRST_GUEST + int.from_bytes(digest[:8], "big") % GUESTS


def _interpreter() -> list[str]:
    """What python needs: its installation and its environment."""
    found = [sys.base_prefix, sys.prefix]
    if sys.base_prefix in ("/usr", "/"):
        found = [sys.prefix] if sys.prefix not in ("/usr", "/") else []
    elif sys.base_prefix == "/usr/local":
        own = [] if sys.prefix == "/usr/local" else [sys.prefix]
        found = ["/usr/local/bin", "/usr/local/lib", *own]
    unique = dict.fromkeys(os.path.realpath(path) for path in found)
    # The links on the way are looked up by name: a venv's own path as well as where it leads.
    return list(dict.fromkeys([*unique, *found]))


def _open_to_all(path: str) -> bool:
    """Whether any user may read this, if the way there is open."""
    mode = os.stat(path).st_mode
    wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
    return mode & wanted == wanted


def _reachable(*paths: str | Path) -> bool:
    """Whether any user may walk to all of these."""
    parents = (parent for path in paths for parent in Path(path).resolve().parents)
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in parents)


def _environment(tmp: str) -> dict[str, str]:
    """All that a guest's environment holds: python's -P, -s, -B and -u, as children inherit them.

    Python 3.10 knows no -P: there a command line needs -I; a `Worker` is safe anyway.
    """
    return {
        "PATH": f"{sys.prefix}/bin:{sys.base_prefix}/bin:/usr/bin:/bin",
        "HOME": tmp,
        "TMPDIR": tmp,
        "USER": "guest",
        "LOGNAME": "guest",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "PYTHONPATH": str(SITE),
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        # Large tensors in huge pages: zeroing small ones takes longer than many a small layer.
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        "PYTHONUNBUFFERED": "1",  # what a job printed before it was stopped
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(min(os.cpu_count() or 1, 4))),
    }
