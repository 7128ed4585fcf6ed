"""A run of the agent that is killed, or left without its endpoint, loses and repeats nothing.

The run is the command line's process, its model a scripted endpoint that counts what it is asked.
It is killed (SIGKILL) at a line of its progress and a random moment after it. At the end:

- an attempt that was complete on disk is in the registry with the same results, trained once;
- a question whose answer was recorded is not asked again: the endpoint was asked one question per
  line of the transcript, and one more for each kill that came while an answer was on its way;
- the run ends with the same attempts and results as one that was not disturbed.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from agent_runs import write_params
from loopback import Reply, Request, Server, status
from sandboxes import needs_sandbox
from scripted_llm import reply

from genlab.agent.registry import RESULTS, Attempt, Registry
from genlab.agent.workspace import JOURNAL, PROJECT, Workspace
from genlab.core.io import read_json

GOAL = "Classify the dummy images, validation loss below 0.000001"
LINES = 9  # of progress, at most, that a process may print before it is killed
LONGEST = 0.6  # seconds after the line
FEW = 2  # attempts of a run in the ordinary tests
SLOWEST = 900.0  # seconds of a process that is not killed


class Victim:
    """A run in `folder` that is killed again and again, and what each kill cost."""

    def __init__(self, folder: Path, server: Server, attempts: int) -> None:
        folder.mkdir()
        write_params(
            folder, base_url=server.url, backend="openai", max_iterations=attempts,
            patience=attempts, examples=200, subset=200, validation=100, seeds=1, max_seconds=0.0,
        )  # fmt: skip
        self.folder = folder
        self.server = server
        self.first = len(server.requests)  # what was asked before this run
        self.complete: dict[str, dict[str, Any]] = {}  # results.json at the last kill, by run_id
        self.in_flight = 0  # questions whose answers had not been recorded
        self.faults: list[str] = []

    @property
    def workspace(self) -> Workspace:
        folders = [path.parent for path in self.folder.glob(f"workspaces/*/{PROJECT}")]
        return Workspace(folders[0] if folders else self.folder / "none")

    @property
    def attempts(self) -> list[Attempt]:
        return Registry(self.workspace).read_numbered()

    @property
    def outcomes(self) -> list[dict[str, Any]]:
        """The attempts' plans, code and results, without names and clocks."""
        fields = {
            "number", "config", "training", "origin", "code_origin", "decision", "verdict",
            "failure", "seeds",
        }  # fmt: skip
        outcomes = [attempt.model_dump(mode="json", include=fields) for attempt in self.attempts]
        for outcome in outcomes:
            for seed in outcome["seeds"]:
                del seed["seconds"]
        return outcomes

    @property
    def transcript_lines(self) -> int:
        path = self.workspace.root / JOURNAL
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "genlab.cli", "agent", GOAL],
            cwd=self.folder,
            env={**os.environ, "OPENAI_API_KEY": "none", "COLUMNS": "200"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill(self, rng: random.Random) -> bool:
        """Run until a random point and kill the process; False where it ended before."""
        requests = len(self.server.requests)
        recorded = self.transcript_lines
        child = self.start()
        assert child.stderr is not None
        lines = [child.stderr.readline() for _ in range(rng.randint(1, LINES))]
        time.sleep(rng.uniform(0, LONGEST))
        child.kill()
        child.stderr.close()
        status = child.wait()
        if status == 0:
            return False
        assert status == -signal.SIGKILL, f"the run ended by itself: {lines[-3:]}"
        in_flight = len(self.server.requests) - requests - (self.transcript_lines - recorded)
        if in_flight not in (0, 1):
            self.faults.append(f"{in_flight} questions in flight at {lines[-1]!r}")
        self.in_flight += in_flight
        self.check()
        files = self.workspace.experiments.glob(f"*/{RESULTS}")
        self.complete = {
            path.parent.name: dict(read_json(path, producer_command="agent")) for path in files
        }
        return True

    def check(self) -> None:
        """Note what was complete at the kill before and is lost, or was trained again."""
        for run_id, before in self.complete.items():
            path = self.workspace.experiments / run_id / RESULTS
            now = read_json(path, producer_command="agent")["seeds"] if path.exists() else []
            if now[: len(before["seeds"])] != before["seeds"]:
                self.faults.append(f"lost or trained twice: {run_id}")

    def run(self) -> None:
        """Let it run to its end."""
        child = self.start()
        try:
            _, errors = child.communicate(timeout=SLOWEST)
        finally:
            child.kill()
        assert child.returncode == 0, errors[-300:]

    def finish(self) -> None:
        """Let it run to its end, and note what was lost or repeated."""
        self.run()
        self.check()
        requests = len(self.server.requests) - self.first
        repeated = requests - self.transcript_lines - self.in_flight
        if repeated:
            self.faults.append(f"repeated: {repeated} questions beyond those in flight")


@dataclass
class Outage:
    """The scripted endpoint, which refuses whatever comes in the `seconds` after two answers."""

    seconds: float
    answers: int = 0
    refused: int = 0
    up_again: float = 0.0

    def __call__(self, request: Request) -> Reply:
        if self.answers == 2 and not self.up_again:
            self.up_again = time.monotonic() + self.seconds
        if time.monotonic() < self.up_again:
            self.refused += 1
            return status(503)
        self.answers += 1
        return reply(request)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Victim]:
    """A run of so many attempts to which nothing happens; each is made once."""
    needs_sandbox()

    @cache
    def run(attempts: int) -> Victim:
        with Server(reply) as server:
            calm = Victim(tmp_path_factory.mktemp("calm") / "run", server, attempts)
            calm.finish()
        assert calm.faults == []
        return calm

    return run


def test_a_run_waits_for_an_endpoint_that_is_down_for_a_minute(
    tmp_path: Path,
    undisturbed: Callable[[int], Victim],
    full_size: bool,
    record: Callable[..., None],
) -> None:
    outage = Outage(60.0 if full_size else 2.0)
    expected = undisturbed(FEW).outcomes
    with Server(outage) as failing:
        victim = Victim(tmp_path / "down", failing, attempts=FEW)
        victim.run()
    record("faults.endpoint_down", int(victim.outcomes != expected), n=1)
    assert outage.refused > 1
    assert victim.outcomes == expected


def test_killed_runs_of_the_agent(
    tmp_path: Path,
    undisturbed: Callable[[int], Victim],
    full_size: bool,
    record: Callable[..., None],
) -> None:
    kills, attempts = (20, 4) if full_size else (1, FEW)
    rng = random.Random(11)
    faults: list[str] = []
    deaths = 0
    number = 0
    calm = undisturbed(attempts)
    with Server(reply) as server:
        while deaths < kills:
            number += 1
            victim = Victim(tmp_path / f"run{number}", server, attempts)
            while deaths < kills and victim.kill(rng):
                deaths += 1
            victim.finish()
            if victim.transcript_lines != calm.transcript_lines:
                victim.faults.append("repeated: a question or a tool call of the journal")
            if victim.outcomes != calm.outcomes:
                victim.faults.append("it ends with other attempts than an undisturbed run")
            faults += [f"run {number}: {line}" for line in victim.faults]
    record("agent.kill_lost", len(faults), n=deaths)
    assert faults == []
