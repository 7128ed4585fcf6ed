"""kill -9 at random points of a run, and what is lost or paid for twice when it goes on.

The run is the command line's own process, its model a scripted endpoint that counts what it is
asked. A point is a line of its progress and a random moment after it. When all kills are done, and
each run has ended, this is held against every moment of death:

- an attempt that was whole on disk is in the registry at the end, with the same marks, and was not
  trained again (lost, or paid for twice);
- a question whose answer was recorded is not asked again: the endpoint was asked one question a
  line of the transcript, and one more for each kill that came while an answer was on its way;
- a run that was killed ends with the same attempts and marks as one that nobody disturbed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from agent_server import Server, fluent
from agent_setting import PARAMS, Setting
from genlab.agent import transcript
from genlab.agent.attempt import Attempt, attempts
from genlab.agent.backends import TRANSCRIPT
from genlab.agent.registry import RESULTS, Registry
from genlab.agent.workspace import PROJECT, Workspace
from genlab.core.errors import GenlabError
from genlab.core.io import read_json

KILLS, SEED = 20, 11
GOAL = "Classify the dummy images, validation loss below 0.000001"
TINY = {
    "max_iterations": 4, "patience": 4, "epochs": 1, "subset": 200, "validation": 100, "seeds": 1,
    "time_limit": 300.0, "compare_with_search": False, "max_parameters": 20_000, "max_seconds": 0.0,
}  # fmt: skip
LINES = 9  # of progress, at most, that a process may print before it is killed
LONGEST = 0.6  # seconds after the line
SLOWEST = 900.0  # seconds of a process that is left alone


@dataclass
class Death:
    """What stood when a process was killed."""

    point: str
    whole: dict[str, dict[str, Any]]  # results.json by run_id
    asked: int  # of the server by this process
    recorded: int  # lines that it wrote

    @property
    def in_flight(self) -> int:
        """Questions whose answers had not been recorded."""
        return self.asked - self.recorded


@dataclass
class Victim:
    """A run that is killed again and again, in a folder of its own."""

    folder: Path
    server: Server
    deaths: list[Death] = field(default_factory=list)
    first: int = 0  # questions that the server was asked before this run

    @property
    def workspace(self) -> Workspace:
        found = [path.parent for path in self.folder.glob(f"workspaces/*/{PROJECT}")]
        return Workspace(found[0] if found else self.folder / "none")

    @property
    def lines(self) -> int:
        """Whole lines of the transcript."""
        path = self.workspace.root / TRANSCRIPT
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def lay_out(self) -> None:
        """Write params.yaml, the only input of the run beside its command."""
        self.folder.mkdir()
        self.first = len(self.server.requests)
        params = YAML(typ="safe", pure=True).load(PARAMS.read_text(encoding="utf-8"))
        params["agent"] |= TINY
        writer = YAML(typ="safe", pure=True)
        with (self.folder / "params.yaml").open("w", encoding="utf-8") as file:
            writer.dump(params, file)

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

    def atomic_write(self) -> dict[str, dict[str, Any]]:
        """The records of attempts that are whole on disk."""
        files = self.workspace.experiments.glob(f"*/{RESULTS}")
        return {
            path.parent.name: dict(read_json(path, producer_command="the agent")) for path in files
        }

    def killed(self, rng: random.Random) -> bool:
        """Run until a random point and kill it; False where it ended before."""
        asked, recorded = len(self.server.requests), self.lines
        child = self.start()
        line, number = "", rng.randint(1, LINES)
        assert child.stderr is not None
        for _ in range(number):
            read = child.stderr.readline()
            if not read:
                break
            line = read.strip()
        time.sleep(rng.uniform(0, LONGEST))
        child.kill()
        child.stderr.close()
        status = child.wait()
        if status == 0:
            return False
        if status != -signal.SIGKILL:
            raise GenlabError(f"benchmarks/agent_kill.py: the run ended by itself: {line}")
        now = Death(line, self.whole(), len(self.server.requests) - asked, self.lines - recorded)
        self.deaths.append(now)
        return True

    def finish(self) -> None:
        """Let it go on to its end."""
        child = self.start()
        try:
            _, words = child.communicate(timeout=SLOWEST)
        except subprocess.TimeoutExpired as error:
            child.kill()
            raise GenlabError(
                f"benchmarks/agent_kill.py: a run did not end in {SLOWEST:g} s; look at it"
            ) from error
        if child.returncode:
            raise GenlabError(f"benchmarks/agent_kill.py: it does not go on: {words[-300:]}")

    def attempts(self) -> list[Attempt]:
        return attempts(Registry(self.workspace))

    def marks(self) -> list[str]:
        """The attempts without names and clocks, for comparing runs."""
        return [told(attempt) for attempt in self.attempts()]

    def faults(self, undisturbed: list[str]) -> list[str]:
        """What was lost or paid for twice, a line each."""
        final = {each.run_id: each for each in self.attempts()}
        found = []
        for death in self.deaths:
            for run_id, record in death.whole.items():
                if run_id not in final:
                    found.append(f"lost: {run_id}, whole when it was killed at {death.point!r}")
                elif final[run_id].checked[: len(record["checked"])] != record["checked"]:
                    found.append(f"trained twice: {run_id}, after {death.point!r}")
            if death.in_flight not in (0, 1):
                found.append(f"{death.in_flight} questions in flight at {death.point!r}")
        if [each.iteration for each in self.attempts()] != list(range(1, len(final) + 1)):
            found.append("lost: the attempts are not numbered through")
        in_flight = sum(death.in_flight for death in self.deaths)
        more = len(self.server.requests) - self.first - self.lines - in_flight
        if more:
            found.append(f"paid twice: {more} questions beyond those in flight")
        if len(transcript.read(self.workspace.root / TRANSCRIPT)) != self.lines:
            found.append("paid twice: a place of the transcript was asked again")
        if self.marks() != undisturbed:
            found.append("it ends with other attempts than an undisturbed run")
        return found


def told(attempt: Attempt) -> str:
    """An attempt's number, plan, code and marks."""
    checked = [{k: v for k, v in each.items() if k != "seconds"} for each in attempt.checked]
    return json.dumps(
        [attempt.iteration, attempt.candidate.digest, attempt.plan_origin, attempt.code_origin,
         attempt.decision, attempt.failure, attempt.place, checked],
    )  # fmt: skip


def kill_lost(setting: Setting) -> None:
    """Write `agent.kill_lost`: what 20 kills lost, or had paid for twice."""
    found, deaths = judged(KILLS, SEED)
    for line in found:
        print(line)
    setting.keep("kill_lost", len(found), n=deaths, seeds=[SEED], only="kill_lost")


def judged(kills: int, seed: int) -> tuple[list[str], int]:
    """Faults after `kills` kills, and how many there were."""
    rng, found, deaths, number = random.Random(seed), list[str](), 0, 0
    with Server(fluent) as server, tempfile.TemporaryDirectory(prefix="genlab-kill-") as scratch:
        calm = Victim(Path(scratch) / "calm", server)
        calm.lay_out()
        calm.finish()
        while deaths < kills:
            number += 1
            victim = Victim(Path(scratch) / f"run{number}", server)
            victim.lay_out()
            while deaths < kills and victim.killed(rng):
                deaths += 1
                print(f"kill {deaths}: run {number}, at {victim.deaths[-1].point!r}", flush=True)
            victim.finish()
            found += [f"run {number}: {line}" for line in victim.faults(calm.marks())]
    return found, deaths
