"""A warm worker: torch is imported once, and each job is a fresh fork of that process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from genlab.core.errors import GenlabError
from genlab.sandbox.limits import Finished, Limits
from genlab.sandbox.runner import Sandbox
from genlab.sandbox.supervisor import Keeper


class Worker(AbstractContextManager["Worker"]):
    """Runs scripts in `sandbox` without paying for the imports of `preload` each time.

    The process that holds the imports is the guard, which runs no code of a guest. A job is a
    child of it that locks itself in before it reads its script; it ends with its memory, so
    patches of torch or the clock reach no other job, and all that it started is killed with it. It
    cannot reach the guard: another uid (started as root) or a Landlock domain and seccomp (as an
    ordinary user), no inherited file, no socket. A worker that is gone is started again.

    Results travel as files in the workspace (JSON, safetensors) that the caller takes with
    `read_back`, never as pickles and never as printed lines: a guest can write and print what it
    likes. So the caller works out every score itself, from predictions, for inputs whose labels
    the guest has never seen.
    """

    def __init__(self, sandbox: Sandbox, preload: Sequence[str] = ("torch",)) -> None:
        self.sandbox, self.preload = sandbox, tuple(preload)
        self._keeper: Keeper | None = None
        self.started = 0  # how many times a guard was started

    def start(self) -> None:
        """Import now rather than at the first job. Raises a GenlabError where it cannot start."""
        if self._keeper is None or not (self._keeper.alive and self._keeper.clean):
            self.close()
            self._keeper = self.sandbox.supervisor(self.preload)
            self.started += 1

    def run(
        self,
        script: str | Path,
        args: Sequence[str] = (),
        *,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> Finished:
        """Run the Python file `script`, relative to the workspace, as `__main__`.

        Its folder is not on `sys.path`: a module planted beside it would be imported by the next.
        Raises a GenlabError where the sandbox itself fails.
        """
        path = self.sandbox.workspace / script
        job = {"script": str(path), "args": [str(word) for word in args]}
        for attempt in (1, 2):
            self.start()
            assert self._keeper is not None
            try:
                return self._keeper.run(job, limits or self.sandbox.limits, stdin=stdin, env=env)
            except GenlabError:
                # The guard died between two jobs: once more with a new one.
                self._keeper.kill()
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    def __exit__(self, *_: object) -> None:
        self.close()
