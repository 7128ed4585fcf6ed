"""The research agent: start a run, follow it, and read its attempts.

A run is a separate process, the command line's; endpoint and key come from params.yaml and the
environment, never from the page: else whoever may open it could have the key sent anywhere.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import streamlit as st

from genlab.agent import transcript
from genlab.agent.attempt import CODE, CONFIG_FILE, SUMMARY
from genlab.agent.backends import TRANSCRIPT
from genlab.agent.chart import NAMES, so_far
from genlab.agent.goal import goal
from genlab.agent.report import PAGE, counts, values
from genlab.agent.story import AGAIN, Story, run_file, story
from genlab.agent.workspace import PROJECT, Workspace
from genlab.core.params import load_params
from genlab.evaluation.reports.formats import number, value, words
from genlab.web.components import charts
from genlab.web.components.charts import Points
from genlab.web.components.files import reading, require
from genlab.web.components.frame import LONGEST, chart, sentences, title
from genlab.web.components.grid import label

BACKENDS = ("embedded", "openai", "search")
FOLDER = Path("workspaces")
# Of an attempt: what was said of it and done about it.
REMARKS = (
    "remark", "edits", "faults", "planner_failure", "review", "decision", "reason", "failure",
)  # fmt: skip


def workspaces(folder: Path) -> list[str]:
    """Names of the workspaces in `folder`, the one worked in last first."""
    roots = [path.parent for path in folder.glob(f"*/{PROJECT}")]
    roots.sort(key=lambda root: Workspace(root).experiments.stat().st_mtime, reverse=True)
    return [root.name for root in roots]


def rows(story: Story) -> list[dict[str, Any]]:
    """The table of attempts."""
    metric = story.settings.goal.metric
    return [
        {
            "attempt": each.iteration,
            "from": str(story.number_of.get(each.parent or "", "–")),
            "model": each.model_name,
            metric: values(each, metric),
            "parameters": each.metrics_summary.get("parameters"),
            "planned by": each.plan_origin,
            "written by": each.code_origin,
            "decision": each.decision or "undecided",
            "why": each.failure or each.reason,
        }
        for each in story.attempts
    ]


def progress(story: Story) -> dict[str, Points]:
    """Curves by attempt: the metric, the best so far, that of search alone, and the goal."""
    target = story.settings.goal
    known = [(each.iteration, each.value(target.metric)) for each in story.attempts]
    last = max(len(story.attempts), len(story.search), 1)
    curves: dict[str, Points] = {
        "attempt": [(at, value) for at, value in known if value is not None],
        "best so far": list(zip(*so_far(story.attempts, target), strict=True)),
        "search alone, best so far": list(zip(*so_far(story.search, target), strict=True)),
        "goal": [(1, target.bound), (last, target.bound)],
    }
    return {name: points for name, points in curves.items() if points}


def read_text(path: Path) -> str:
    """A text file; empty where there is none."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@dataclass
class Started:
    """A run that was started here: its process, and the log that it writes."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def is_running(self) -> bool:
        """Whether it goes on."""
        return self.process.poll() is None

    @property
    def workspace(self) -> str:
        """The name of its workspace; empty until the log names it."""
        found = re.search(r"^workspace: (.*)$", read_text(self.log), flags=re.MULTILINE)
        return Path(found[1]).name if found else ""


def start(text: str, backend: str, attempts: int, folder: Path) -> Started:
    """Start a run towards the goal `text` in the workspaces of `folder`.

    Raises GenlabError where the goal cannot be checked.
    """
    goal(text)
    log = folder / "logs" / f"{datetime.now():%Y%m%d_%H%M%S_%f}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-u", "-m", "genlab.agent", "run", "--workspaces", str(folder),
        "--backend", backend, "--max-iterations", str(attempts), "--", text,
    ]  # fmt: skip
    with log.open("wb") as file:
        # A new session: Ctrl-C at the server is not meant for the run.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True, env={**os.environ, "COLUMNS": "200"},
        )  # fmt: skip
    return Started(process, log)


@st.cache_resource
def started() -> list[Started]:
    """The runs that this server started, for every visitor and after a reload."""
    return []


def begin() -> None:
    """The form that starts a run."""
    params = load_params().agent
    with st.form("begin"):
        text = st.text_area(
            "Goal, with the number that decides", params.goal, key="goal", height=80
        )
        left, right = st.columns(2)
        usual = [*BACKENDS].index(params.backend) if params.backend != "replay" else 0
        backend = left.selectbox(
            "Planner", BACKENDS, usual, key="backend",
            help="embedded: on this machine; openai: as in params.yaml; search: no language model",
        )  # fmt: skip
        count = right.number_input(
            "Attempts at most", 1, 1000, params.max_iterations, key="attempts"
        )
        if not st.form_submit_button("Start or resume", type="primary", key="start"):
            return
    if any(run.is_running for run in started()):
        st.warning("A run is under way; stop it first, or wait for its end.")
        return
    started().append(start(text, backend, count, FOLDER))
    st.session_state.pop("workspace", None)  # show the newest one
    st.rerun()


@st.fragment(run_every=2)
def follow(run: Started) -> None:
    """A run under way, read again every other second."""
    if not run.is_running:
        st.rerun()  # the whole page
    st.info("A run is under way. This page follows it.")
    st.button("Stop", key="stop", help="The same goal resumes it.", on_click=run.process.terminate)
    show_log(run)
    workspace = Workspace(FOLDER / run.workspace)
    if run.workspace and run_file(workspace).exists():
        with sentences():
            overview(story(workspace))


def show_log(run: Started) -> None:
    """The last lines that a run logged."""
    lines = read_text(run.log).splitlines()[-12:]
    st.code("\n".join(lines) or "starting", language="text", wrap_lines=True)


def overview(found: Story) -> None:
    """Verdict, progress, table, spend."""
    goal = found.settings.goal
    st.subheader(label(goal.text, LONGEST), anchor=False)
    show = st.success if found.verdict == "achieved" else st.info
    show(label(found.sentence, LONGEST))
    origins = f"planned by {counts(found.planned_by)}; written by {counts(found.written_by)}"
    st.caption(label(f"{goal}, {found.backend}; {origins}", LONGEST))
    if found.attempts:
        curves, name = progress(found), NAMES[goal.metric]
        chart(charts.lines(curves, name, x="attempt"), charts.summary(curves, name, "attempt"))
        st.dataframe(rows(found), hide_index=True, width="stretch")
    if found.comparison is not None:
        same = f"at the same {found.comparison.attempts} attempts"
        st.caption(f"Search, {same}: {found.comparison.words}.")
    with st.container(horizontal=True, gap="large"):
        for name, spent in (found.spend | {"seconds_in_total": found.seconds}).items():
            st.metric(words(name), number(spent), width="content")


def details(found: Story) -> None:
    """One attempt: its decision, config, code and summary."""
    numbers = [each.iteration for each in found.attempts]
    best = found.best.iteration if found.best else numbers[-1]
    chosen = st.selectbox(
        "Attempt", numbers, numbers.index(best), key="attempt", bind="query-params",
        format_func=lambda each: f"{each}, the best one" if each == best else str(each),
    )  # fmt: skip
    attempt = found.attempts[numbers.index(chosen)]
    folder = found.workspace.root / attempt.experiment_dir
    decision, config, code, summary = st.tabs(["Decision", "Config", "Code", "Summary"])
    for name in REMARKS:
        if remark := getattr(attempt, name):
            decision.caption(words(name).capitalize())
            decision.text(value(remark))
    config.code(read_text(folder / CONFIG_FILE) or "not written", language="yaml")
    code.caption(f"written by {attempt.code_origin}")
    source = read_text(folder / CODE)
    code.code(source or "not written", language="python", line_numbers=True)
    with summary, sentences(), reading(folder / SUMMARY, AGAIN) as measured:
        st.code(measured["table"] or "not measured", language="text")
        for name in ("analysis", "overruled"):
            if remark := measured.get(name):
                st.caption(name.capitalize())
                st.text(value(remark))


def show_transcript(path: Path) -> None:
    """Every question and answer."""
    lines = transcript.read(path, say=lambda _: None) if path.exists() else []
    if not lines:
        st.caption("No language model was asked.")
    for each in lines:
        tokens = f"{each.tokens_in:,} + {each.tokens_out:,} tokens, {each.seconds:.1f} s"
        failed = "" if each.outcome == "answer" else f", {each.outcome}"
        what = f"{each.shape or each.purpose}, {each.model or 'no answer'}"
        with st.expander(label(f"{each.place + 1}. {what}: {tokens}{failed}")):
            for message in each.messages:
                st.caption(message["role"])
                st.code(message["content"], language="text", wrap_lines=True)
            st.caption("answer")
            st.code(each.text or "nothing", language="json", wrap_lines=True)


def finished(known: list[str]) -> None:
    """A chosen run: overview, report, attempts, transcript."""
    if not known:
        st.info("No workspace yet. The form above opens the first one.")
        return
    name = st.selectbox("Workspace", known, key="workspace", bind="query-params")
    workspace = Workspace(FOLDER / name)
    require(run_file(workspace), AGAIN)
    found = story(workspace)
    overview(found)
    if page := read_text(workspace.experiments / PAGE):
        st.download_button("Report as a page", page, f"{name}.html", "text/html", key="report")
    if found.attempts:
        st.header("Attempts", anchor=False)
        details(found)
    st.header("Transcript", anchor=False)
    show_transcript(workspace.root / TRANSCRIPT)


def main() -> None:
    """The form, and a run under way or a finished one."""
    known = workspaces(FOLDER)
    with st.expander("Start a run", expanded=not known), sentences():
        begin()
    for run in started()[-1:]:
        if run.is_running:
            follow(run)
            return
        if run.process.returncode not in (0, -15):
            st.error("The run ended with an error; the last lines of its log say which.")
        show_log(run)
    finished(known)


if __name__ == "__main__":
    title("Agent", "Plans, writes, tests and decides until a number meets the goal, in a sandbox.")
    with sentences():
        main()
