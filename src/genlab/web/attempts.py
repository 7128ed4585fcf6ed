"""What the page of the research agent shows, and how it starts a run.

All of it is read from a workspace's own files, while the run that writes them goes on or after it.
A run is a process of its own, the command line's; endpoint and key come from params.yaml and the
environment, never from the page: else whoever may open it could have the key sent anywhere.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from genlab.agent import transcript
from genlab.agent.attempt import CODE, CONFIG_FILE, SUMMARY, Attempt
from genlab.agent.backends import TRANSCRIPT
from genlab.agent.goal import DATASETS, goal
from genlab.agent.report import PAGE, counts, number, values
from genlab.agent.story import Story, run_file, story
from genlab.agent.workspace import PROJECT, Workspace, goal_of
from genlab.core.errors import GenlabError
from genlab.web import shapes
from genlab.web.components.files import json_at

FROM_GOAL = "as the goal says"
SETS = (FROM_GOAL, *dict.fromkeys(DATASETS.values()))
BACKENDS = {
    "embedded": "embedded: a small model on this machine, no key",
    "openai": "openai: the endpoint of params.yaml",
    "search": "search: no language model",
}
LOGS = "logs"
SHOWN_LINES = 12
UNFINISHED = "unfinished"
AGAIN = 'python -m genlab.agent "GOAL"'


def plain(words: str) -> str:
    """Other people's words where a page reads markdown: none of its signs has its meaning."""
    return re.sub(r"([\\`*_{}\[\]()<>#+!|~&$:@-])", r"\\\1", words)


def workspaces(folder: Path) -> dict[str, str]:
    """Names of the workspaces in `folder` and their goals; the one worked in last comes first."""
    found = [path.parent for path in folder.glob(f"*/{PROJECT}")]
    found.sort(key=lambda path: (_touched(path), path.name), reverse=True)
    return {path.name: goal_of(path) or "" for path in found}


def _touched(root: Path) -> float:
    path = run_file(Workspace(root))
    return (path if path.exists() else root / PROJECT).stat().st_mtime


def read(root: Path) -> Story | str:
    """The story of the run in `root`, or a sentence on why there is none to tell."""
    if not run_file(Workspace(root)).exists():
        return f"Nothing was run in {root} yet. This does: {AGAIN}"
    try:
        return story(Workspace(root))
    except GenlabError as error:
        return str(error)


def is_open(told: Story) -> bool:
    """Whether the run has not come to its end: it goes on, or was killed."""
    return told.verdict == UNFINISHED


def rows(told: Story) -> list[dict[str, Any]]:
    """The table of attempts, a row each."""
    metric = told.settings.goal.metric
    return [
        {
            "attempt": each.iteration,
            "from": str(told.number_of.get(each.parent or "", "–")),
            "model": each.model_name,
            metric: values(each, metric),
            "parameters": each.metrics_summary.get("parameters"),
            "planned by": each.plan_origin,
            "written by": each.code_origin,
            "decision": each.decision or "undecided",
            "why": each.failure or each.reason,
        }
        for each in told.attempts
    ]


def spend(told: Story) -> list[tuple[str, str]]:
    """What the run took, and who did its work: a label and a number each."""
    asked = told.spend
    return [
        ("questions", number(int(asked.get("questions", 0)))),
        ("tokens in", number(int(asked.get("tokens_in", 0)))),
        ("tokens out", number(int(asked.get("tokens_out", 0)))),
        ("answering, s", f"{float(asked.get('seconds', 0)):,.1f}"),
        ("in all, s", f"{told.seconds:,.1f}"),
        ("dollars", number(float(asked.get("cost", 0)))),
    ]


def origins(told: Story) -> str:
    """Who planned and who wrote the attempts."""
    return f"planned by {counts(told.planned_by)}; written by {counts(told.written_by)}"


@dataclass(frozen=True)
class Files:
    """An attempt's own files, as far as they are there."""

    config: str
    code: str
    table: str
    analysis: str
    overruled: list[str]


def files(told: Story, attempt: Attempt) -> Files:
    """What the folder of `attempt` holds."""
    folder = told.workspace.root / attempt.experiment_dir
    summary: dict[str, Any] = {}
    if (folder / SUMMARY).exists():
        summary = json_at(folder / SUMMARY, shapes.Summary, producer_command=AGAIN)
    return Files(
        config=_text(folder / CONFIG_FILE),
        code=_text(folder / CODE),
        table=summary.get("table", ""),
        analysis=summary.get("analysis") or "",
        overruled=list(summary.get("overruled", [])),
    )


def remarks(attempt: Attempt) -> list[tuple[str, str]]:
    """What was said of an attempt and done about it: a label and words each."""
    review = attempt.review
    told = [
        ("Changed", attempt.remark),
        ("Repaired in the plan", "; ".join(attempt.edits)),
        ("Refused code", "; ".join(attempt.faults)),
        ("The planner failed", attempt.planner_failure),
        ("Assessment", str(review.get("assessment", ""))),
        ("Strengths", "; ".join(map(str, review.get("strengths", [])))),
        ("Weaknesses", "; ".join(map(str, review.get("weaknesses", [])))),
        ("The planner's decision", str(review.get("decision", ""))),
        ("Another goal, proposed to you", str(review.get("revised_goal", ""))),
        ("The decision that holds", attempt.decision or "undecided"),
        ("Why it is another", attempt.reason),
        ("Failure", attempt.failure),
    ]
    return [(label, words) for label, words in told if words]


@dataclass(frozen=True)
class Asked:
    """A question of the transcript and what came of it."""

    heading: str
    messages: list[tuple[str, str]]  # role, words
    answer: str
    language: str


def questions(root: Path) -> list[Asked]:
    """The transcript; empty where no model was asked. Raises GenlabError where it is damaged."""
    path = root / TRANSCRIPT
    if not path.exists():
        return []
    found = []
    for line in transcript.read(path, say=lambda _: None):
        tokens = f"{line.tokens_in:,} + {line.tokens_out:,} tokens, {line.seconds:.1f} s"
        what = line.shape or line.purpose
        failed = "" if line.outcome == "answer" else f", {line.outcome}"
        messages = [(str(each["role"]), each["content"]) for each in line.messages]
        answer, language = _laid_out(line.text)
        heading = f"{line.place + 1}. {what}, {line.model or 'no answer'}: {tokens}{failed}"
        found.append(Asked(heading, messages, answer, language))
    return found


def _laid_out(text: str) -> tuple[str, str]:
    """An answer to be read: code as it stands, JSON over several lines."""
    try:
        found = json.loads(text)
    except ValueError:
        return text, "text"
    if isinstance(found, dict) and isinstance(found.get("code"), str):
        return found["code"], "python"
    return json.dumps(found, indent=2, ensure_ascii=False), "json"


def page_of(told: Story) -> str:
    """The report as a page; empty where it was not written yet."""
    return _text(told.workspace.experiments / PAGE)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@dataclass
class Started:
    """A run that was started here: its process, and the file that it tells its progress in."""

    process: subprocess.Popen[bytes]
    log: Path
    begun: float = field(default_factory=time.time)

    @property
    def is_running(self) -> bool:
        """Whether it goes on."""
        return self.process.poll() is None

    @property
    def lines(self) -> list[str]:
        """What it said last."""
        return _text(self.log).splitlines()[-SHOWN_LINES:]

    @property
    def workspace(self) -> str:
        """The name of its workspace; empty as long as it has not said so."""
        heads = [line for line in _text(self.log).splitlines() if line.startswith("workspace: ")]
        return Path(heads[0].removeprefix("workspace: ")).name if heads else ""

    def stop(self) -> None:
        """End it; the same goal goes on where it stood."""
        self.process.terminate()


def start(text: str, dataset: str, backend: str, attempts: int, folder: Path) -> Started:
    """Start a run towards the goal `text` in the workspaces of `folder`.

    Raises GenlabError where the goal cannot be checked.
    """
    goal(text, dataset=None if dataset == FROM_GOAL else dataset)
    log = folder / LOGS / f"{datetime.now():%Y%m%d_%H%M%S_%f}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-u", "-m", "genlab.agent", "run", "--workspaces", str(folder),
        "--backend", backend, "--max-iterations", str(attempts),
    ]  # fmt: skip
    command += [] if dataset == FROM_GOAL else ["--dataset", dataset]
    with log.open("wb") as file:
        # A session of its own: Ctrl-C at the server is not meant for the run.
        process = subprocess.Popen(
            [*command, "--", text], stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, "COLUMNS": "200"},
        )  # fmt: skip
    return Started(process, log)
