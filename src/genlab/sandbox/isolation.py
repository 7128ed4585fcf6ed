"""A sandbox's folders and mode, and the command line that starts a guard in it."""

import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genlab.core.errors import GenlabError
from genlab.sandbox.limits import MIB, Limits

INSTALL = "install bubblewrap (sudo apt-get install bubblewrap), or use Linux 5.13 with Landlock"
SYSTEM_FOLDERS = (
    *("/usr/bin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/share/zoneinfo"),
    "/usr/local/nvidia",  # CUDA's driver, where a container is given it
)
ROOT_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage"  # glibc reads their size here
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/sys/devices/system/cpu", HUGE_PAGES)
PROC_FILES = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/version")
# What CUDA's driver reads, and the names that it gives its threads (NVIDIA/OpenShell issue 1486).
DRIVER_FILES = ("/proc/devices", "/proc/driver", "/proc/modules", "/proc/sys/vm", "/sys/bus/pci")
THREAD_NAMES = "/proc/self/task"
PLAIN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
GUEST = Path(__file__).resolve().parent / "guest"
SITE = GUEST / "site"  # on the path of every Python inside
START = (
    f"import sys; sys.path.insert(0, {str(GUEST.parent)!r}); from guest import guard; "
    "del sys.path[0]; guard.main()"
)
FIRST_GUEST_UID = 40_000
GUEST_UIDS = 20_000


@dataclass(eq=False)
class SandboxConfig:
    """Workspace, mode and paths of a sandbox, from which a guard's command line follows.

    mode: "bubblewrap" or "landlock". readable: paths that the guest may read beside the
    interpreter's and the system's. devices: device files that it may use.
    """

    workspace: Path
    mode: str
    limits: Limits
    readable: Sequence[str] = ()
    devices: Sequence[str] = ()

    def describe_guard(
        self, preload: Sequence[str], private: str | None
    ) -> tuple[list[str], dict[str, str], dict[str, Any]]:
        """Return the command line, environment and settings of a guard in this sandbox.

        preload: modules that it imports, and scripts of ours that it runs. private: folder for
        temporary files, the guest's alone; None: bubblewrap's /tmp.
        """
        uid = derive_uid(self.workspace) if os.getuid() == 0 else None
        bubblewrap = self.mode == "bubblewrap"
        tmp = private or "/tmp"
        if private is not None and uid is not None:
            os.chown(private, uid, uid)
        readable = [*list_interpreter_folders(), str(SITE), *self.readable]
        search = uid is not None and self._needs_search(readable, tmp)
        watched = [tmp]
        if bubblewrap:
            watched += [*self._list_mount_parents("/tmp", readable), "/dev/shm"]
        driver_files = DRIVER_FILES if self.devices else ()
        thread_names = [THREAD_NAMES] if self.devices else []
        settings = {
            "uid": uid,
            "preload": list(preload),
            "private": private,
            "watched": watched,
            "bubblewrap": bubblewrap,
            "search": search,
            "driver": bool(self.devices),
            "readable": [
                *readable,
                *SYSTEM_FOLDERS,
                *ROOT_LINKS,
                *SYSTEM_FILES,
                *PROC_FILES,
                *driver_files,
            ],
            "writable": [
                str(self.workspace),
                tmp,
                *PLAIN_DEVICES,
                *self.devices,
                *thread_names,
            ],
        }
        argv = [sys.executable, "-I", "-u", *([] if preload else ["-S"]), "-c", START]
        if bubblewrap:
            argv = [*self._make_bubblewrap_command(readable, search=search), *argv]
        return argv, make_environment(tmp), settings

    def _needs_search(self, readable: Sequence[str], tmp: str) -> bool:
        """Whether a guest of another uid needs CAP_DAC_READ_SEARCH to reach what it may use.

        It does where the interpreter, data or the temporary folder lie in a home that others cannot
        enter: see `lockdown.drop_privileges`.
        """
        if not all(is_readable_by_all(path) for path in readable):
            return True
        paths = (*readable, str(self.workspace), tmp)
        return self.mode == "landlock" and not all(is_reachable_by_all(path) for path in paths)

    def _list_mount_parents(self, root: str, readable: Sequence[str]) -> set[str]:
        """List the folders below `root` that bubblewrap creates to mount something in them."""
        mounted = (
            *SYSTEM_FOLDERS,
            *SYSTEM_FILES,
            *readable,
            *self.devices,
            str(GUEST),
            str(self.workspace),
        )
        parents = {parent for path in mounted for parent in Path(path).parents}
        return {str(parent) for parent in parents if Path(root) in parent.parents}

    def _make_bubblewrap_command(self, readable: Sequence[str], *, search: bool) -> list[str]:
        """Make bubblewrap's command line. Raises a GenlabError where it is not installed."""
        program = shutil.which("bwrap")
        if program is None:
            raise GenlabError(f"sandbox: bwrap is not there any more; {INSTALL}")
        argv = [program, "--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid"]
        argv += ["--unshare-net", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"]
        if os.getuid() == 0:
            # Root needs no user namespace, and a guest's uid shields the guard better than one.
            argv += ["--cap-drop", "ALL"]
            capabilities = ["CAP_SETUID", "CAP_SETGID", "CAP_KILL"]
            if search:
                capabilities.append("CAP_DAC_READ_SEARCH")
            for capability in capabilities:
                argv += ["--cap-add", capability]
        else:
            argv += ["--unshare-user"]
        argv += ["--proc", "/proc", "--dev", "/dev"]
        for folder in ("/dev/shm", "/tmp"):
            argv += ["--perms", "1777", "--size", str(512 * MIB), "--tmpfs", folder]
        parents = self._list_mount_parents("/", readable) - {"/dev", "/tmp", "/dev/shm"}
        for parent in sorted(parents):
            argv += ["--perms", "0555", "--dir", parent]  # others may enter, whatever the host says
        for path in (*SYSTEM_FOLDERS, *SYSTEM_FILES, *readable):
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


def derive_uid(workspace: Path) -> int:
    """Return a uid that depends on the workspace, so that guests cannot reach each other."""
    state = workspace.stat()
    digest = hashlib.sha256(f"{state.st_dev}:{state.st_ino}".encode()).digest()
    return FIRST_GUEST_UID + int.from_bytes(digest[:8], "big") % GUEST_UIDS


def list_interpreter_folders() -> list[str]:
    """List the folders that Python needs: its installation and its virtual environment."""
    folders = [sys.base_prefix, sys.prefix]
    if sys.base_prefix in ("/usr", "/"):
        folders = [sys.prefix] if sys.prefix not in ("/usr", "/") else []
    elif sys.base_prefix == "/usr/local":
        folders = ["/usr/local/bin", "/usr/local/lib"]
        if sys.prefix != "/usr/local":
            folders.append(sys.prefix)
    resolved = dict.fromkeys(os.path.realpath(path) for path in folders)
    # A venv's path may be a link, and Python looks it up by that name: both are needed.
    return list(dict.fromkeys([*resolved, *folders]))


def is_readable_by_all(path: str) -> bool:
    """Whether the mode of a file or folder lets every user read it."""
    mode = os.stat(path).st_mode
    required = stat.S_IROTH
    if stat.S_ISDIR(mode):
        required |= stat.S_IXOTH
    return mode & required == required


def is_reachable_by_all(path: str) -> bool:
    """Whether every user may enter all folders on the way to a path."""
    parents = Path(path).resolve().parents
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in parents)


def make_environment(tmp: str) -> dict[str, str]:
    """Make the whole environment of a guest; it sets Python's -P, -s, -B and -u for its children.

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
