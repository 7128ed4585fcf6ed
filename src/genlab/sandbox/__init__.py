"""Run code that an LLM wrote: commands by `Sandbox`, scripts in a warm process by `Worker`.

The caller starts a guard with a clean environment; the guard forks a child for each job, which
gives up its rights before code of the guest runs in it. Layers, outermost first:

Layer | what it stops
--- | ---
clean environment | keys in the environment, also through /proc of its parents
bubblewrap: mount namespace | reading or writing any file but the interpreter and system libraries
    (read-only), the workspace and a private /tmp, /proc and /dev
bubblewrap: pid, network, IPC and host name namespaces | seeing, signalling or tracing other
    processes; every connection, DNS, local and abstract sockets
Landlock, where bubblewrap cannot run | the same files by rules on paths; TCP (ABI 4), signals and
    abstract sockets (ABI 6)
a different uid per workspace, where started as root | other users' files, other guests' processes
no capabilities, no_new_privs | mounts, devices, the clock, setuid programs
seccomp | sockets, ptrace, other processes' memory and files, signals to the guard and the caller,
    namespaces, io_uring, bpf, keys, memory that no limit counts, extended attributes, unknown
    (newer) system calls
rlimits | CPU time, address space, processes and threads, size of a file, core dumps
the guard | memory of all processes together; processes that outlive their job; a file descriptor
    that was inherited; a warm guard ends where a job changed its home or /dev/shm
the caller | wall time, endless output, number and size of files in the workspace
a fork per job, -P, -I | patches of builtins, torch or the clock, and modules planted for later jobs
`read_back`, safetensors, JSON | links, fifos, huge files and pickles as results

What none of them stops: the guest can read all of its interpreter, environment and system
libraries, and the kernel's version; it can use all that its limits allow and slow the machine down;
a bug of the kernel lets it out, as from any sandbox that shares the kernel. A GPU that is passed
in by `devices` brings a large driver with it, and the calls that CUDA's needs (`seccomp.DRIVER`).
Two jobs in one workspace see each other's files: the agent's judge makes a new folder for each. A
few bits can pass from one job to the next by process numbers, access times and timing. Memory that
a guest shares and maps nowhere (after MADV_DONTNEED), and files in bubblewrap's /tmp and /dev/shm
(512 MiB each), are not counted. In Landlock mode names, sizes and dates of all files can be read,
and an ordinary user's guest cannot chmod its own files; before ABI 6 (Linux 6.12) it may signal
itself and its group alone. A result is never believed because it was printed: the caller computes
every score itself, from predictions, with labels that the guest never sees.

Started as root, a guest gets a uid (40000 to 59999) that follows from its workspace and owns
nothing else; the workspace's files are given to it. The uid is dropped inside of bubblewrap, not
before: a venv in root's home can be bound by root alone, and a guard of another uid is out of the
guest's reach. `lockdown.drop_privileges` says when a guest keeps CAP_DAC_READ_SEARCH.

`tests/support/attacks.py` has an attack on each layer; `make faults` runs them all.
"""

from genlab.sandbox.limits import JobResult, Limits
from genlab.sandbox.readback import read_back
from genlab.sandbox.runner import Sandbox, SandboxWarning
from genlab.sandbox.worker import Worker

__all__ = ["JobResult", "Limits", "Sandbox", "SandboxWarning", "Worker", "read_back"]
