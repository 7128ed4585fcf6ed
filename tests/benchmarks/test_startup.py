"""The help of every command imports no slow package."""

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.startup import list_commands

HEAVY = {"numpy", "pandas", "scipy", "sqlmodel", "torch"}


def test_every_command_is_timed() -> None:
    commands = list_commands()
    assert len(commands) == len(set(commands)) > 15
    assert {(), ("report", "compare"), ("agent", "run"), ("benchmark", "run")} <= set(commands)


@pytest.mark.parametrize("words", [c for c in list_commands() if len(c) <= 1], ids=" ".join)
def test_help_imports_nothing_heavy(words: tuple[str, ...], root: Path) -> None:
    heavy = HEAVY if words else HEAVY | {"pydantic"}
    code = (
        f"import sys; sys.argv = ['genlab', *{words!r}, '--help']\n"
        "from genlab.cli import main\n"
        f"try: main()\nfinally: print({heavy!r} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n"), done.stdout[-200:]
