"""Kind `command`: a local program that reads files and writes one image.

The temporary folder holds template.png, avatar_1.png and following, prompt.txt, and case.json
(prompt, swaps with regions and avatars, size, seed, options, paths). The program starts in the
folder of `tools.yaml`.

Not protected: the program runs with your rights, and may leave processes in other sessions.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from genlab.benchmark.cases.photographs import MAX_BYTES
from genlab.benchmark.plugins.base import ToolFailure
from genlab.benchmark.plugins.configured import PLACEHOLDERS, TemplateTool
from genlab.llm.redaction import redact

PASSED_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
)  # environment variables that every program gets
STDERR_TAIL = 8192  # bytes


class CommandTool(TemplateTool):
    """A program that is started once per image."""

    network: ClassVar = False
    placeholders: ClassVar = (*PLACEHOLDERS, "folder", "case", "output")
    templates: ClassVar = ("argv",)

    kind: Literal["command"] = "command"
    argv: list[str] = Field(min_length=1, description="Program and arguments.")
    env: list[str] = Field(default=[], description="Environment variables to pass on.")

    @property
    def environment(self) -> list[str]:
        return self.env

    @property
    def files(self) -> list[str]:
        """The arguments that may be files, such as a script."""
        return [name for name in self.argv if "{" not in name]

    def unavailable(self) -> str:
        program = self.argv[0]
        if shutil.which(self.place(program) if "/" in program else program) is None:
            return f"{program} is not an executable program; correct argv of {self.tool_id}"
        for name in self.files:
            if name.startswith("~") and not self.place(name).exists():
                return f"{name} is missing; correct argv of {self.tool_id}"
        return super().unavailable()

    async def request(self, images: Sequence[bytes], values: dict[str, Any]) -> bytes:
        with tempfile.TemporaryDirectory(prefix="genlab-") as temporary:
            folder = Path(temporary)
            output = folder / "output.png"
            names = ["template", *(f"avatar_{n}" for n in range(1, len(images)))]
            paths = [str(folder / f"{name}.png") for name in names]
            for path, image in zip(paths, images, strict=True):
                Path(path).write_bytes(image)
            (folder / "prompt.txt").write_text(str(values["prompt"]), encoding="utf-8")
            options = {key: values[key] for key in self.accepted if key in values}
            case_file = folder / "case.json"
            values |= {
                "folder": temporary,
                "output": str(output),
                "case": str(case_file),
            }
            description = {**values, "template": paths[0], "avatars": paths[1:], "options": options}
            case_file.write_text(json.dumps(description, indent=2), encoding="utf-8")
            # `~` is expanded before placeholders, whose values are other people's text.
            template = [os.path.expanduser(argument) for argument in self.argv]
            argv = [str(argument) for argument in self.fill(template, values, paths)]
            await self._run(argv, folder)
            if not output.is_file():
                reason = f"{self.argv[0]} wrote no file to {{output}}"
                raise ToolFailure("no_image", reason, cost=self.cost)
            with output.open("rb") as file:
                return file.read(MAX_BYTES + 1)  # a larger one is refused when it is kept

    async def _run(self, argv: list[str], folder: Path) -> None:
        """Run a program to its end; kill its process group when cancelled or done."""
        passed = [name for name in (*PASSED_VARIABLES, *self.env) if name in os.environ]
        environment = {name: os.environ[name] for name in passed} | {"TMPDIR": str(folder)}
        errors = folder / "stderr.txt"
        with errors.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
        try:
            status = await process.wait()
        finally:
            with suppress(ProcessLookupError):  # the group is empty
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if status != 0:
            lines = errors.read_bytes()[-STDERR_TAIL:].decode("utf-8", "replace").split("\n")
            reason = next((line for line in reversed(lines) if line.strip()), "no message")
            reason = redact(f"exit status {status}: {reason}", self.secrets)
            # It may have called a paid service before it failed.
            raise ToolFailure("error", reason, cost=self.cost)
