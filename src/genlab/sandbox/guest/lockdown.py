"""Restrict a process before code of a guest runs in it: limits, user, capabilities, files."""

import ctypes
import os
import resource
import signal
import stat
import struct
from collections.abc import Iterable, Mapping

from . import seccomp

# linux/capability.h
CAP_DAC_READ_SEARCH = 2
CAP_KILL = 5
CAP_SETGID = 6
CAP_SETUID = 7
# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47

# Landlock's rights on files: linux/landlock.h
EXECUTE = 1
WRITE_FILE = 2
READ_FILE = 4
READ_DIR = 8
OLDEST_RIGHTS = (1 << 13) - 1
REFER = 1 << 13
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READING = EXECUTE | READ_FILE | READ_DIR
# System calls
_CREATE_RULESET = 444
_ADD_RULE = 445
_RESTRICT_SELF = 446

_LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    """Return the result of a call to libc. Raises OSError where it is an error."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, first: int, second: int = 0) -> None:
    """Call prctl. Raises OSError where the kernel refuses."""
    arguments = (ctypes.c_ulong(first), ctypes.c_ulong(second), 0, 0)
    _check(_LIBC.prctl(option, *arguments), f"prctl {option}")


def keep_capabilities(capabilities: Iterable[int]) -> None:
    """Give up every capability but these (which must be held). Raises OSError."""
    bits = sum(1 << capability for capability in capabilities)
    header = struct.pack("Ii", 0x20080522, 0)
    low = bits & 0xFFFFFFFF
    high = bits >> 32
    data = struct.pack("6I", low, low, low, high, high, high)
    _check(_LIBC.capset(header, data), "capset")


def landlock_abi() -> int:
    """Return the version of Landlock that the kernel offers; 0 where it is missing or off."""
    return max(int(_LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)), 0)


class Ruleset:
    """A Landlock domain: only the named paths, no TCP, no signal and no abstract socket out of it.

    With `files` False it restricts only signals and abstract sockets (ABI 6), or nothing where the
    kernel cannot. Raises OSError.
    """

    def __init__(self, readable: Iterable[str], writable: Iterable[str], *, files: bool) -> None:
        abi = landlock_abi()
        self.handle = -1
        scoped = 3 if abi >= 6 else 0
        if not files and not scoped:
            return
        self.rights = 0
        for first_abi, rights in ((1, OLDEST_RIGHTS), (2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
            if files and abi >= first_abi:
                self.rights |= rights
        net = 3 if files and abi >= 4 else 0
        # The struct that this kernel knows: file rights since 1, net since 4, scopes since 6.
        size = 8
        if abi >= 4:
            size = 16
        if abi >= 6:
            size = 24
        attributes = struct.pack("QQQ", self.rights, net, scoped)[:size]
        handle = _LIBC.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
        self.handle = _check(handle, "landlock")
        if files:
            for path in readable:
                self._allow(path, READING)
            for path in writable:
                is_device = path.startswith("/dev/")
                self._allow(path, self.rights & ~EXECUTE if is_device else self.rights)

    def _allow(self, path: str, rights: int) -> None:
        try:
            target = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            if not stat.S_ISDIR(os.fstat(target).st_mode):
                rights &= FILE_RIGHTS
            rule = struct.pack("=Qi", rights & self.rights, target)
            status = _LIBC.syscall(_ADD_RULE, self.handle, 1, rule, 0)
            _check(status, f"landlock rule for {path}")
        finally:
            os.close(target)

    def enter(self) -> None:
        """Restrict this process for good; needs no_new_privs."""
        if self.handle >= 0:
            _check(_LIBC.syscall(_RESTRICT_SELF, self.handle, 0), "landlock")
            os.close(self.handle)


def set_limits(limits: Mapping[str, float], processes_already: int) -> None:
    """Set the rlimits of this process and all that it starts. Raises OSError or ValueError."""
    cpu = max(1, round(limits["cpu_seconds"]))
    pairs = {
        resource.RLIMIT_AS: (int(limits["address_space"]),) * 2,
        # SIGXCPU one second before SIGKILL: it says that the limit was the reason
        resource.RLIMIT_CPU: (cpu, cpu + 1),
        resource.RLIMIT_NPROC: (int(limits["processes"]) + processes_already,) * 2,
        resource.RLIMIT_FSIZE: (int(limits["file_bytes"]),) * 2,
        resource.RLIMIT_NOFILE: (512, 512),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_MEMLOCK: (0, 0),
        resource.RLIMIT_MSGQUEUE: (0, 0),
        resource.RLIMIT_RTPRIO: (0, 0),
    }
    for name, (soft, hard) in pairs.items():
        _, ceiling = resource.getrlimit(name)
        if ceiling != resource.RLIM_INFINITY:
            soft = min(soft, ceiling)
            hard = min(hard, ceiling)
        resource.setrlimit(name, (soft, hard))


def drop_privileges(uid: int | None, *, search: bool) -> None:
    """Switch to `uid` (None: keep ours), drop every capability, and never gain a new one.

    `search` keeps CAP_DAC_READ_SEARCH, for an interpreter or data in a home that others cannot
    enter: then only the mounts or Landlock's rules decide what may be read, as they do for an
    ordinary user (opening files by handle, which would bypass the mounts, is refused by seccomp).
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
    prctl(PR_SET_DUMPABLE, 1)  # lets it read its own /proc/self, as torch does
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of uid would reset it


def restrict(
    ruleset: Ruleset, protected: tuple[int, ...], *, alone: bool, driver: bool, forks: bool
) -> None:
    """Enter the ruleset, then the seccomp filter, which refuses to signal `protected`.

    `alone` is for a guest that shares its user with others, behind Landlock alone: it may change
    no file's mode, owner or date, and on a kernel whose Landlock does not restrict signals, it may
    signal only itself and its group. `driver` allows what a device's driver needs. Without `forks`
    it may start no process.
    """
    ruleset.enter()
    single = os.getpid() if alone and landlock_abi() < 6 else 0
    seccomp.install(protected, single, attributes=not alone, driver=driver, forks=forks)
