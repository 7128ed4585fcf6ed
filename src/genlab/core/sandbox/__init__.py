"""The room in which code that an LLM wrote runs."""

from genlab.core.sandbox.limits import Finished, Limits
from genlab.core.sandbox.readback import read_back
from genlab.core.sandbox.room import Sandbox, SandboxWarning
from genlab.core.sandbox.worker import Worker

__all__ = ["Finished", "Limits", "Sandbox", "SandboxWarning", "Worker", "read_back"]
