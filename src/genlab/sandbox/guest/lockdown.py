"""What a process gives up before code of a guest runs in it: limits, user, capabilities, files."""

import ctypes
import os
import resource
import signal
import stat
import struct
from collections.abc import Iterable, Mapping

from . import seccomp

CAP_DAC_READ_SEARCH, CAP_KILL, CAP_SETGID, CAP_SETUID = 2, 5, 6, 7
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS = 1, 4, 8
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47

# Landlock's rights on files: linux/landlock.h
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
OLDEST_RIGHTS, REFER, TRUNCATE, IOCTL_DEV = (1 << 13) - 1, 1 << 13, 1 << 14, 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READING = EXECUTE | READ_FILE | READ_DIR
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446


_LIBC = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, first: int, second: int = 0) -> None:
    """Raises OSError where the kernel refuses."""
    arguments = (ctypes.c_ulong(first), ctypes.c_ulong(second), 0, 0)
    _checked(_LIBC.prctl(option, *arguments), f"prctl {option}")


def keep_capabilities(capabilities: Iterable[int]) -> None:
    """Give up every capability but these (which must be held). Raises OSError."""
    bits = sum(1 << capability for capability in capabilities)
    header = struct.pack("Ii", 0x20080522, 0)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    data = struct.pack("6I", low, low, low, high, high, high)
    _checked(_LIBC.capset(header, data), "capset")


def landlock_abi() -> int:
    """Version of Landlock that the kernel offers; 0 where it has none or it is switched off."""
    return max(int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)), 0)


class Ruleset:
    """A Landlock domain: only the named paths, no TCP, no signal and no abstract socket out of it.

    With `files` False it keeps signals and abstract sockets in alone (ABI 6), and nothing where
    the kernel cannot. Raises OSError.
    """

    def __init__(self, readable: Iterable[str], writable: Iterable[str], *, files: bool) -> None:
        abi = landlock_abi()
        self.handle = -1
        scoped = 3 if abi >= 6 else 0
        if not files and not scoped:
            return
        since = ((1, OLDEST_RIGHTS), (2, REFER), (3, TRUNCATE), (5, IOCTL_DEV))
        self.rights = sum(right for first, right in since if files and abi >= first)
        net = 3 if files and abi >= 4 else 0
        # as long as this kernel knows it: file rights since 1, net since 4, scopes since 6
        size = 24 if abi >= 6 else 16 if abi >= 4 else 8
        attributes = struct.pack("QQQ", self.rights, net, scoped)[:size]
        made = _LIBC.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
        self.handle = _checked(made, "landlock")
        if files:
            for path in readable:
                self._allow(path, READING)
            for path in writable:
                self._allow(path, self.rights & ~(EXECUTE if path.startswith("/dev/") else 0))

    def _allow(self, path: str, rights: int) -> None:
        try:
            target = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            if not stat.S_ISDIR(os.fstat(target).st_mode):
                rights &= FILE_RIGHTS
            rule = struct.pack("=Qi", rights & self.rights, target)
            added = _LIBC.syscall(_ADD_RULE, self.handle, 1, rule, 0)
            _checked(added, f"landlock rule for {path}")
        finally:
            os.close(target)

    def enter(self) -> None:
        """Restrict this process for good; needs no_new_privs."""
        if self.handle >= 0:
            _checked(_LIBC.syscall(_RESTRICT_SELF, self.handle, 0), "landlock")
            os.close(self.handle)


def set_limits(limits: Mapping[str, float], processes_already: int) -> None:
    """Set the rlimits of this process and all that it starts. Raises OSError or ValueError."""
    cpu = max(1, round(limits["cpu_seconds"]))
    wanted = {
        resource.RLIMIT_AS: (int(limits["address_space"]),) * 2,
        # SIGXCPU first: it tells the end of its time from being killed for something else
        resource.RLIMIT_CPU: (cpu, cpu + 1),
        resource.RLIMIT_NPROC: (int(limits["processes"]) + processes_already,) * 2,
        resource.RLIMIT_FSIZE: (int(limits["file_bytes"]),) * 2,
        resource.RLIMIT_NOFILE: (512, 512),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_MEMLOCK: (0, 0),
        resource.RLIMIT_MSGQUEUE: (0, 0),
        resource.RLIMIT_RTPRIO: (0, 0),
    }
    for which, (soft, hard) in wanted.items():
        ceiling = resource.getrlimit(which)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.setrlimit(which, (soft, hard))


def drop_privileges(uid: int | None, *, search: bool) -> None:
    """Become `uid` (None: stay who we are) and give up every capability, and new ones for good.

    `search` keeps CAP_DAC_READ_SEARCH, for an interpreter or data in a home that others cannot
    enter: then the mounts or Landlock's rules alone say what may be read, as they do for an
    ordinary user (opening files by handle, which would pass by the mounts, is refused by seccomp).
    Raises OSError.
    """
    if uid is not None:
        if search:
            prctl(PR_SET_KEEPCAPS, 1)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    keep_capabilities([CAP_DAC_READ_SEARCH] if search else [])
    if search:
        prctl(PR_CAP_AMBIENT, 2, CAP_DAC_READ_SEARCH)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    prctl(PR_SET_DUMPABLE, 1)  # its own /proc/self, which torch reads
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # where the guard itself is killed; after a new uid


def restrict(
    ruleset: Ruleset, protected: tuple[int, ...], *, alone: bool, driver: bool, forks: bool
) -> None:
    """Enter the ruleset, then the seccomp filter, which refuses to signal `protected`.

    `alone` is for a guest that shares its user with others, behind Landlock alone: it may change
    no file's mode, owner or date, and on a kernel whose Landlock doesn't keep signals in, it may
    signal nothing but itself and its group. `driver` leaves what a device's driver needs. Without
    `forks` it may start no process.
    """
    ruleset.enter()
    single = os.getpid() if alone and landlock_abi() < 6 else 0
    seccomp.install(protected, single, attributes=not alone, driver=driver, forks=forks)
