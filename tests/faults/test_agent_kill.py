"""A run of the agent that is killed at random points loses nothing and repeats nothing.

The run is the command line's process, its model a scripted endpoint that counts what it is asked.
It is killed (SIGKILL) at a line of its progress and a random moment after it. At the end:

- an attempt that was complete on disk is in the registry with the same results, trained once;
- a question whose answer was recorded is not asked again: the endpoint was asked one question per
  line of the transcript, and one more for each kill that came while an answer was on its way;
- the run ends with the same attempts and results as one that was not disturbed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from scripted_llm import Server, fluent

from genlab.agent import transcript
from genlab.agent.attempt import Attempt, attempts
from genlab.agent.backends import TRANSCRIPT
from genlab.agent.registry import RESULTS, Registry
from genlab.agent.workspace import PROJECT, Workspace
from genlab.core.io import read_json

ROOT = Path(__file__).resolve().parents[2]
GOAL = "Classify the dummy images, validation loss below 0.000001"
TINY = {
    "max_iterations": 4, "patience": 4, "epochs": 1, "subset": 200, "validation": 100, "seeds": 1,
    "time_limit": 300.0, "compare_with_search": False, "max_parameters": 20_000, "max_seconds": 0.0,
}  # fmt: skip
LINES = 9  # of progress, at most, that a process may print before it is killed
LONGEST = 0.6  # seconds after the line
SLOWEST = 900.0  # seconds of a process that is not killed


@dataclass
class Death:
    """What stood when a process was killed."""

    point: str
    complete: dict[str, dict[str, Any]]  # results.json by run_id
    in_flight: int  # questions whose answers had not been recorded


@dataclass
class Victim:
    """A run in its folder that is killed again and again."""

    folder: Path
    server: Server
    deaths: list[Death] = field(default_factory=list)
    first: int = 0  # questions that the server was asked before this run

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.first = len(self.server.requests)
        params = YAML(typ="safe", pure=True).load((ROOT / "params.yaml").read_text("utf-8"))
        params["agent"] |= TINY
        with (self.folder / "params.yaml").open("w", encoding="utf-8") as file:
            YAML(typ="safe", pure=True).dump(params, file)

    @property
    def workspace(self) -> Workspace:
        found = [path.parent for path in self.folder.glob(f"workspaces/*/{PROJECT}")]
        return Workspace(found[0] if found else self.folder / "none")

    @property
    def attempts(self) -> list[Attempt]:
        return attempts(Registry(self.workspace))

    @property
    def transcript_lines(self) -> int:
        path = self.workspace.root / TRANSCRIPT
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def start(self) -> subprocess.Popen[str]:
        command = [
            sys.executable, "-m", "genlab.agent", GOAL, "--backend", "openai",
            "--base-url", self.server.url, "--planning-model", "scripted",
        ]  # fmt: skip
        environment = {**os.environ, "OPENAI_API_KEY": "none", "COLUMNS": "200"}
        return subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def kill(self, rng: random.Random) -> bool:
        """Run until a random point and kill the process; False where it ended before."""
        asked, recorded = len(self.server.requests), self.transcript_lines
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
        files = self.workspace.experiments.glob(f"*/{RESULTS}")
        complete = {
            path.parent.name: dict(read_json(path, producer_command="agent")) for path in files
        }
        in_flight = len(self.server.requests) - asked - (self.transcript_lines - recorded)
        self.deaths.append(Death(lines[-1].strip(), complete, in_flight))
        return True

    def finish(self) -> None:
        """Let it run to its end."""
        child = self.start()
        try:
            _, errors = child.communicate(timeout=SLOWEST)
        finally:
            child.kill()
        assert child.returncode == 0, errors[-300:]

    def faults(self, undisturbed: list[str]) -> list[str]:
        """What was lost or repeated, one line each."""
        final = {each.run_id: each for each in self.attempts}
        found = []
        for death in self.deaths:
            for run_id, record in death.complete.items():
                if run_id not in final:
                    found.append(f"lost: {run_id}, complete when it was killed at {death.point!r}")
                elif final[run_id].checked[: len(record["checked"])] != record["checked"]:
                    found.append(f"trained twice: {run_id}, after {death.point!r}")
            if death.in_flight not in (0, 1):
                found.append(f"{death.in_flight} questions in flight at {death.point!r}")
        if [each.iteration for each in self.attempts] != list(range(1, len(final) + 1)):
            found.append("lost: the attempts are not numbered consecutively")
        in_flight = sum(death.in_flight for death in self.deaths)
        asked = len(self.server.requests) - self.first
        if more := asked - self.transcript_lines - in_flight:
            found.append(f"repeated: {more} questions beyond those in flight")
        if len(transcript.read(self.workspace.root / TRANSCRIPT)) != self.transcript_lines:
            found.append("repeated: a place of the transcript was asked again")
        if [outcome(each) for each in self.attempts] != undisturbed:
            found.append("it ends with other attempts than an undisturbed run")
        return found


def outcome(attempt: Attempt) -> str:
    """An attempt's plan, code and results, without names and clocks."""
    checked = [{k: v for k, v in each.items() if k != "seconds"} for each in attempt.checked]
    return json.dumps(
        [attempt.iteration, attempt.candidate.digest, attempt.plan_origin, attempt.code_origin,
         attempt.decision, attempt.failure, attempt.place, checked],
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("only_full_size")
def test_killed_runs_of_the_agent(tmp_path: Path, record: Callable[..., None]) -> None:
    kills, seed = 20, 11
    rng, faults, deaths, number = random.Random(seed), list[str](), 0, 0
    with Server(fluent) as server:
        calm = Victim(tmp_path / "calm", server)
        calm.finish()
        undisturbed = [outcome(each) for each in calm.attempts]
        while deaths < kills:
            number += 1
            victim = Victim(tmp_path / f"run{number}", server)
            while deaths < kills and victim.kill(rng):
                deaths += 1
            victim.finish()
            faults += [f"run {number}: {line}" for line in victim.faults(undisturbed)]
    record("agent.kill_lost", len(faults), n=deaths)
    assert faults == []
