"""Run commands in a sandbox, in the strongest mode that works on this machine."""

import functools
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from genlab.core.errors import GenlabError
from genlab.sandbox.guest import lockdown
from genlab.sandbox.isolation import INSTALL, SandboxConfig
from genlab.sandbox.limits import JobResult, Limits
from genlab.sandbox.worker import Worker

MODES = ("auto", "bubblewrap", "landlock")  # after auto, the strongest first
LANDLOCK_ALONE = (
    "generated code runs behind Landlock, seccomp and limits alone, without namespaces:"
    " names, sizes and dates of files outside the workspace stay visible"
)
CHOOSE = "choose bubblewrap or auto where it works"


class SandboxWarning(UserWarning):
    """Generated code runs behind fewer layers than there could be."""


class Sandbox(SandboxConfig):
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
        folder = Path(workspace).resolve()
        if not folder.is_dir():
            raise GenlabError(f"sandbox: {folder} is not a folder; make the workspace first")
        for path in (*readable, *devices):
            if not Path(path).exists():
                raise GenlabError(f"sandbox: {path} is not there; correct readable or devices")
        super().__init__(
            folder,
            choose_mode(mode),
            limits or Limits(),
            [str(Path(path).resolve()) for path in readable],
            [str(path) for path in devices],
        )

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
        return run_command(self, argv, env, limits)


def run_command(
    config: SandboxConfig,
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> JobResult:
    """Run a command line under a new guard; see `Sandbox.run`."""
    job = {"argv": [str(word) for word in argv]}
    with Worker(config, preload=()) as worker:
        return worker.run_job(job, env, limits)


def choose_mode(mode: str) -> str:
    """`mode`, or for "auto" the strongest that works here; warns where that is Landlock.

    Raises a GenlabError where none works.
    """
    faults = list[str]()
    candidates = MODES[1:] if mode == "auto" else [mode]
    for candidate in candidates:
        fault = probe_mode(candidate, shutil.which("bwrap"))
        if fault:
            faults.append(f"{candidate} does not work here ({fault})")
            continue
        if candidate == "landlock":
            fix = f"{faults[0]}; {INSTALL.split(',')[0]}" if faults else CHOOSE
            warnings.warn(f"{LANDLOCK_ALONE}; {fix}", SandboxWarning, stacklevel=3)
        return candidate
    raise GenlabError(f"sandbox: {'; '.join(faults)}; no generated code is run; {INSTALL}")


@functools.cache
def probe_mode(mode: str, bwrap: str | None) -> str:
    """Run a small program in `mode`; returns why that does not work here, "" where it does."""
    if mode == "bubblewrap" and bwrap is None:
        return "no bwrap on PATH"
    if mode == "landlock" and lockdown.landlock_abi() == 0:
        return "the kernel has no Landlock"
    with tempfile.TemporaryDirectory() as folder:
        # The kernel's answer counts, not a folder that only its owner can enter.
        os.chmod(folder, 0o755)
        workspace = Path(folder, "probe")
        workspace.mkdir()
        config = SandboxConfig(workspace.resolve(), mode, Limits(wall_seconds=30.0))
        try:
            result = run_command(config, [sys.executable, "-I", "-S", "-c", "print('works')"])
        except GenlabError as error:
            return " ".join(str(error).split())[:200]
    if result.output == "works\n":
        return ""
    return " ".join(result.output.split())[:200] or "no output"
