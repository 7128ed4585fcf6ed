"""How long `genlab --help` and the help of every command take, each in a new process."""

import statistics
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.harness import ROOT, Repeats, Result, benchmark, wall_seconds
from genlab.cli import COMMANDS, load_command


@benchmark("scale.startup_s")
def startup(repeats: Repeats = 5) -> Iterator[Result]:
    """Time the help of every command; the slowest one's median counts."""
    medians = {}
    for words in list_commands():
        command = [sys.executable, "-m", "genlab.cli", *words, "--help"]
        show = partial(subprocess.run, command, cwd=ROOT, check=True, capture_output=True)
        show()  # writes the bytecode
        seconds = [wall_seconds(show) for _ in range(repeats)]
        medians[" ".join(["genlab", *words])] = statistics.median(seconds)
    slowest = max(medians, key=medians.__getitem__)
    details = {"slowest": slowest, "seconds": medians}
    yield Result("scale.startup_s", medians[slowest], n=repeats, details=details)


def list_commands() -> list[tuple[str, ...]]:
    """List the words after `genlab` of every command and subcommand."""
    commands: list[tuple[str, ...]] = [(), ("doctor",)]
    for name in COMMANDS:
        commands.append((name,))
        for subcommand in getattr(load_command(name), "commands", {}):
            commands.append((name, subcommand))
    return commands
