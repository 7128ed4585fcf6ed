"""A warm worker: torch is imported once, and each job is a fresh fork of that process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from genlab.core.errors import GenlabError
from genlab.sandbox.limits import Finished, Limits
from genlab.sandbox.runner import Sandbox
from genlab.sandbox.supervisor import Supervisor


class Worker(AbstractContextManager["Worker"]):
    """Run scripts in `sandbox` without paying for the imports of `preload` each time.

    The guard holds the imports and runs no code of a guest. A job is a fork of it that locks itself
    in before it reads its script, so patches of torch or the clock reach no other job. A guard that
    is gone is started again. Results are files in the workspace, taken by `read_back`.
    """

    def __init__(self, sandbox: Sandbox, preload: Sequence[str] = ("torch",)) -> None:
        self.sandbox, self.preload = sandbox, tuple(preload)
        self._supervisor: Supervisor | None = None

    def start(self) -> Supervisor:
        """Import now rather than at the first job. Raises a GenlabError where it cannot start."""
        if self._supervisor is None or not (self._supervisor.alive and self._supervisor.clean):
            self.close()
            self._supervisor = self.sandbox.supervisor(self.preload)
        return self._supervisor

    def run(
        self,
        script: str | Path,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> Finished:
        """Run the Python file `script`, relative to the workspace, as `__main__`.

        Its folder is not on `sys.path`: a module planted beside it would be imported by the next.
        Raises a GenlabError where the sandbox itself fails.
        """
        path = self.sandbox.workspace / script
        job = {"script": str(path), "args": [str(word) for word in args]}
        supervisor = self.start()
        try:
            return supervisor.run(job, limits or self.sandbox.limits, env=env)
        except GenlabError:  # the guard died between two jobs: once more with a new one
            return self.start().run(job, limits or self.sandbox.limits, env=env)

    def close(self) -> None:
        if self._supervisor is not None:
            self._supervisor.close()
            self._supervisor = None

    def __exit__(self, *_: object) -> None:
        self.close()
