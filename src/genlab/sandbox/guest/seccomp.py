"""A seccomp filter in classic BPF that refuses system calls to a guest.

It lists what is refused, not what is allowed: torch, its threads and CUDA make too many calls for a
short list of allowed ones. Calls that are newer than this table return ENOSYS, so that a new
feature of the kernel stays closed until someone has looked at it. Numbers: x86_64, aarch64 (from
Linux 6.1's `asm/unistd_64.h` and `asm-generic/unistd.h`); -1 where there is no such call.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterable

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
NEWEST = 451  # cachestat, the last call that these tables know
X32 = 0x40000000

# fmt: off
REFUSED = {
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    "ioprio_set": (251, 30), "setpriority": (141, 140), "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # sockets: socketpair alone is left, and of the unix family
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242),
    # file systems and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "fanotify_init": (300, 262),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "swapon": (167, 224), "swapoff": (168, 225),
    "lookup_dcookie": (212, 18),
    # the kernel
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "bpf": (321, 280),
    "perf_event_open": (298, 241), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142),
    "acct": (163, 89), "syslog": (103, 116), "vhangup": (153, 58), "personality": (135, 92),
    "iopl": (172, -1), "ioperm": (173, -1), "modify_ldt": (154, -1), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "sethostname": (170, 161), "setdomainname": (171, 162),
    # memory that no limit counts
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    # another user
    "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145), "setregid": (114, 143),
    "setresuid": (117, 147), "setresgid": (119, 149), "setgroups": (116, 159),
    "setfsuid": (122, 151), "setfsgid": (123, 152), "capset": (126, 91),
    # attributes in which a file or folder holds more than its content
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}
# Landlock does not restrict these: modes, owners and dates of files that the guest's user owns.
ATTRIBUTES = {
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "chown": (92, -1),
    "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54), "utime": (132, -1),
    "utimes": (235, -1), "futimesat": (261, -1), "utimensat": (280, 88),
}
# Refused calls without which CUDA's driver does not start (its error 304; NVIDIA/OpenShell issue
# 1696): a file in memory, and a socket that it listens at for programs that share its GPU memory.
# Nothing comes in or goes out: sockets that send without a connection stay refused, as do connect
# and accept.
DRIVER = ("memfd_create", "socket", "bind", "listen")
CLONE = (56, 220)
CLONE3 = (435, 435)
FORKS = ((57, -1), (58, -1))  # fork, vfork
SIGNALS = {"kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131),
           "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240)}
# fmt: on

THREAD = 0x10000  # CLONE_THREAD
NAMESPACES = 0x7E020000  # CLONE_NEW*: mount, cgroup, uts, ipc, user, pid, net
TERMINAL_IOCTLS = (0x5412, 0x541C, 0x541D)  # TIOCSTI, TIOCLINUX, TIOCCONS: typing for another
OWNER_IOCTLS = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP: signals sent by the kernel on our behalf
OWNER_FCNTLS = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: the same

# Operations of classic BPF: linux/bpf_common.h
LOAD = 0x20
EQUAL = 0x15
GREATER = 0x35
ANY_BIT = 0x45
RETURN = 0x06
# Results of a filter, and offsets in its input: linux/seccomp.h
ALLOW = 0x7FFF0000
KILL = 0x80000000
REFUSE = 0x00050000
NUMBER = 0
ARCH = 4

NOT_PERMITTED = (RETURN, 0, 0, REFUSE | errno.EPERM)
UNKNOWN_CALL = (RETURN, 0, 0, REFUSE | errno.ENOSYS)
TOO_MANY = (RETURN, 0, 0, REFUSE | errno.EAGAIN)
LOAD_NUMBER = (LOAD, 0, 0, NUMBER)

Instruction = tuple[int, int, int, int]  # operation, instructions to skip if true, if false, value
Test = tuple[int, int, tuple[int, ...]]  # argument, operation, values: refused where one holds

# Sockets of the unix family alone, and no datagrams, which go to any path without a connection.
STREAMS: tuple[Test, ...] = ((0, EQUAL, (0,)), (0, GREATER, (2,)), (1, ANY_BIT, (2,)))
CONDITIONAL: dict[tuple[int, int], tuple[Test, ...]] = {
    CLONE: ((0, ANY_BIT, (NAMESPACES,)),),
    (16, 29): ((1, EQUAL, TERMINAL_IOCTLS + OWNER_IOCTLS),),  # ioctl
    (72, 25): ((1, EQUAL, OWNER_FCNTLS),),  # fcntl
    (302, 261): ((0, GREATER, (1,)),),  # prlimit: limits of oneself alone, pid 0
    (203, 122): ((0, GREATER, (1,)),),  # sched_setaffinity, likewise
    (53, 199): STREAMS,  # socketpair
}
SOCKET = {(41, 198): STREAMS}


def build_filter(
    machine: str,
    protected: tuple[int, ...],
    alone: int = 0,
    *,
    attributes: bool = True,
    driver: bool = False,
    forks: bool = True,
) -> list[Instruction]:
    """Build the filter for `machine`.

    protected: ids of processes and groups that may not be signalled. alone: where it is not 0, the
    one process that may be signalled (and 0, its own group). attributes: whether a file's mode,
    owner or date may be changed. driver: whether the calls of DRIVER are allowed. forks: whether it
    may start a process; if not, each is refused like one too many (EAGAIN), a thread is not.

    Raises KeyError where the machine is not in the table.
    """
    column, audit = ARCHITECTURES[machine]
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCH),
        (EQUAL, 1, 0, audit),
        (RETURN, 0, 0, KILL),  # 32-bit calls have other numbers
        LOAD_NUMBER,
        (GREATER, 0, 1, X32),
        (RETURN, 0, 0, KILL),
        (GREATER, 0, 1, NEWEST + 1),
        UNKNOWN_CALL,
        # threads fall back to clone, whose flags can be looked at
        (EQUAL, 0, 1, CLONE3[column]),
        UNKNOWN_CALL,
    ]
    if not forks:
        code += _refuse_processes(column)
    refused = REFUSED | ({} if attributes else ATTRIBUTES)
    for name, numbers in refused.items():
        if numbers[column] >= 0 and not (driver and name in DRIVER):
            code += [(EQUAL, 0, 1, numbers[column]), NOT_PERMITTED]
    conditional = CONDITIONAL | (SOCKET if driver else {})
    for numbers, tests in conditional.items():
        code += _refuse_where(numbers[column], tests)
    code += _refuse_signals(column, protected, alone)
    code.append((RETURN, 0, 0, ALLOW))
    return code


def _refuse_processes(column: int) -> list[Instruction]:
    """Refuse fork, vfork, and clone of anything but a thread."""
    code: list[Instruction] = []
    for numbers in FORKS:
        if numbers[column] >= 0:
            code += [(EQUAL, 0, 1, numbers[column]), TOO_MANY]
    return [
        *code,
        (EQUAL, 0, 4, CLONE[column]),
        (LOAD, 0, 0, _argument(0)),
        (ANY_BIT, 1, 0, THREAD),
        TOO_MANY,
        LOAD_NUMBER,
    ]


def _refuse_signals(column: int, protected: tuple[int, ...], alone: int) -> list[Instruction]:
    """Refuse signals to `protected`, to every process (-1), and to others than `alone` (if any)."""
    code: list[Instruction] = []
    targets = tuple(value & 0xFFFFFFFF for value in (-1, *protected))
    for name, numbers in SIGNALS.items():
        if alone:
            code += [
                (EQUAL, 0, 5, numbers[column]),
                (LOAD, 0, 0, _argument(0)),
                (EQUAL, 2, 0, 0),
                (EQUAL, 1, 0, alone),
                NOT_PERMITTED,
                LOAD_NUMBER,
            ]
        arguments = (0, 1) if "tg" in name else (0,)  # of a thread: its process, then itself
        code += _refuse_where(numbers[column], [(index, EQUAL, targets) for index in arguments])
    return code


def _argument(index: int) -> int:
    """Offset of the low half of a call's argument (both architectures are little endian)."""
    return 16 + 8 * index


def _refuse_where(number: int, tests: Iterable[Test]) -> list[Instruction]:
    """Refuse the call `number` where a test holds, and allow it otherwise."""
    body: list[Instruction] = []
    for argument, operation, values in tests:
        body.append((LOAD, 0, 0, _argument(argument)))
        for value in values:
            body += [(operation, 0, 1, value), NOT_PERMITTED]
    body.append((RETURN, 0, 0, ALLOW))
    return [(EQUAL, 0, len(body), number), *body]


def install(
    protected: tuple[int, ...],
    alone: int = 0,
    *,
    attributes: bool = True,
    driver: bool = False,
    forks: bool = True,
) -> None:
    """Install the filter of `build_filter` for this process and all that it starts.

    It cannot be removed again, and needs no_new_privs. Raises OSError.
    """
    machine = os.uname().machine
    if machine not in ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"no seccomp filter is written for {machine}")
    code = build_filter(
        machine, protected, alone, attributes=attributes, driver=driver, forks=forks
    )
    packed = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    header = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(packed))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(22, ctypes.c_ulong(2), ctypes.c_char_p(header), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp: " + os.strerror(ctypes.get_errno()))
