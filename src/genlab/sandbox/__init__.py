"""The room in which code that an LLM wrote runs.

`Sandbox.run` starts a command line in it, `Worker.run` a script in a fork of a process that has
imported torch; `read_back` takes a file that a guest left. From outside in:

1. A guard between us and the guest, started with a clean environment: bubblewrap shows in /proc
   what it was started with. It forks each job, reaps all that the job leaves, and kills it at the
   end; the caller holds the wall clock and kills the guard, should that fail.
2. Bubblewrap: namespaces of processes, network, mounts, IPC and host name (and of users, where not
   started as root); read-only binds of the interpreter, its environment, system programs and
   libraries; one writable workspace; a private /tmp, /proc and /dev. Or, where it cannot run,
   Landlock: the same files by rules on paths.
3. Then each job, before code of a guest runs in it: rlimits; the guest's uid, where started as
   root; no capabilities and no new ones; Landlock against signals; a seccomp filter; no file but
   0, 1 and 2.

Started as root, a guest gets a uid (40000 to 59999) that follows from its workspace and owns
nothing else. The workspace's files are given to it at the start and stay its own: root reads them.
The uid is dropped inside of bubblewrap, not before: a venv in root's home can be bound by root
alone, and a guard of another uid is out of the guest's reach. Where such a home, or data in it, is
shut to others, the guest keeps CAP_DAC_READ_SEARCH, so that mounts or Landlock say what it may
read, as they do for an ordinary user.

Layer | attacks that it stops, each proved by `tests/test_sandbox.py::test_attack_is_stopped` under
its name (`SECURITY.md` has a row for each):

- mount namespace / Landlock | reads a key in the home folder; reads a key through /proc/self/cwd;
  reads another workspace; reads the password hashes; writes outside of the workspace; makes a file
  beside the workspace; writes outside by ..; writes through a symlink; reads through a symlink;
  makes a hard link to a key; moves a file out of the workspace; truncates a file outside; deletes
  the workspace's root; overwrites the interpreter; plants a module in site-packages; plants a
  sitecustomize; writes a system program; imports the evaluator to change it; edits the evaluator;
  edits the guard.
- clean environment | reads a key in the environment; reads /proc/self/environ.
- pid namespace / Landlock | reads /proc/1/environ.
- clean environment, uid | reads the environment of its parents.
- uid / dumpable, Landlock | reads the memory of the guard.
- pid namespace, uid | reads files through /proc/<parent>/root.
- mount namespace, uid / seccomp | changes the mode of a file outside; changes the date of a file
  outside.
- seccomp | opens a file by its handle; sockets through io_uring; an internet socket pair; signals
  by the owner of a file; limits its guard; reads another process's memory; takes a file of another
  process; hides memory in a memfd; hides memory in SysV segments; a system call of x32.
- seccomp, network namespace | TCP; UDP; listens; a unix socket by path; an abstract unix socket;
  netlink; a raw socket; a packet socket; DNS.
- seccomp, pid namespace, uid | ptrace; signals its guard; signals the caller; signals the guard's
  group; signals everybody.
- seccomp, no capabilities | becomes root; mount; chroot; a user namespace by unshare; a user
  namespace by clone; a user namespace by clone3; bpf; perf; keyctl; kexec; loads a kernel module;
  userfaultfd; sets the clock.
- no_new_privs | gains privileges by a setuid program.
- no capabilities | has a capability that changes anything; makes a device.
- private /dev, uid | opens /dev/mem; opens /dev/kmsg; opens the disk.
- seccomp, new session | TIOCSTI.
- files closed | uses an inherited file.
- rlimits | dumps core; raises its limits; allocates 50 GB; writes a huge file; a thread bomb; a
  loop past its CPU time.
- rlimits, kill of all | a fork bomb.
- wall clock | an endless loop; a loop that ignores SIGTERM.
- guard's sum | many small processes fill the memory.
- output limit | endless output.
- look at the workspace | many files; files that fill the disk.
- guard reaps all | a grandchild that outlives its job.
- read_back | a symlink as a result; a folder of results that is a symlink; a fifo as a result; a
  huge result.
- results are files | a fake result line.
- -P, -I, fixed environment | modules planted for the next job.
- private folders emptied | a home left for the next job.
- the caller writes it again | replaces its own script.
- its own to lose | empties its workspace.
- a fork for each job | changes builtins for the next job; changes the clock for the next job;
  changes torch's loss for the next job.
- weights_only, safetensors | a pickle in its weights.

What is not kept out: the guest can read all of its interpreter, environment and system libraries,
and the kernel's version; it can use the limits up to the full, and slow the machine down; a fault
of the kernel itself lets it out, as from any sandbox that shares the kernel. What a device handed
in by `devices` can do, it can do: a GPU's driver is a large surface. Two jobs in one workspace see
each other's files. In Landlock mode names, sizes and dates of files can still be asked for, and an
ordinary user's guest cannot chmod its own files; before its ABI 6 (Linux 6.12) that guest may
signal itself and its group alone. A result is never believed because it was printed: the caller
scores predictions itself, on labels that the guest never sees.
"""

from genlab.sandbox.limits import Finished, Limits
from genlab.sandbox.readback import read_back
from genlab.sandbox.runner import Sandbox, SandboxWarning
from genlab.sandbox.worker import Worker

__all__ = ["Finished", "Limits", "Sandbox", "SandboxWarning", "Worker", "read_back"]
