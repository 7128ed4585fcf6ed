"""The research agent: start, stop and resume a run, follow it, and read its tree of attempts.

A run is a separate process, the command line's; endpoint and key come from params.yaml and the
environment, never from the page: else whoever may open it could have the key sent anywhere.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import streamlit as st

from genlab.agent.goals import METRICS, parse_goal
from genlab.agent.record import RESUME, RUN, RunRecord, read_run
from genlab.agent.registry import CODE, CONFIG_FILE, SUMMARY, Attempt
from genlab.agent.report import PAGE, best_so_far, counts
from genlab.agent.workspace import JOURNAL, Workspace, all_workspaces
from genlab.core.params import load_params
from genlab.evaluation.reports.formats import number, value, words
from genlab.llm.journal import read_entries
from genlab.web.components import charts
from genlab.web.components.charts import Points
from genlab.web.components.escape import label
from genlab.web.components.files import reading, require
from genlab.web.components.frame import sentences, table

BACKENDS = ("embedded", "openai", "search")
MODES = ("loop", "tools")
FOLDER = Path("workspaces")
REMARKS = ("decision", "change", "difference", "built", "review", "notes", "failure")
LIMITS: dict[str, tuple[str, float, float | None]] = {  # label, minimum and maximum of an option
    "max_iterations": ("Attempts at most", 1, 1000),
    "max_seconds": ("Seconds at most (0: no limit)", 0.0, None),
    "max_tokens": ("Tokens at most (0: no limit)", 0, None),
    "candidates": ("Candidates per round", 1, 64),
}


def list_attempts(run: RunRecord) -> list[dict[str, Any]]:
    """The table of attempts."""
    metric = run.settings.goal.metric
    return [
        {
            "attempt": each.number,
            "changes": run.numbers.get(each.parent),
            "kind": each.kind or "by tools",
            "model": each.model_name,
            f"{metric}, per seed": each.show(metric),
            "parameters": each.parameters,
            "planned by": each.origin,
            "code by": each.code_origin,
            "decision": each.decision or "none",
        }
        for each in run.attempts
    ]


def draw_tree(run: RunRecord) -> str:
    """The tree of attempts in the DOT language: an arrow from a model to each change of it."""
    lines = [
        'digraph {rankdir=LR bgcolor="transparent"',
        'node [shape=box style="rounded,filled" fontname="sans-serif" fontsize=11]',
    ]
    metric, best = run.settings.goal.metric, run.best
    for each in run.attempts:
        mean = each.mean(metric)
        shown = "failed" if mean is None else f"{mean:.4g}"
        fill = "#f4d6d6" if mean is None else "#e8ecf0"
        fill = "#cfe8d5" if best is not None and each.run_id == best.run_id else fill
        lines.append(
            f'{each.number} [label="{each.number} {each.kind}\\n{shown}" fillcolor="{fill}"]'
        )
        if parent := run.numbers.get(each.parent):
            lines.append(f"{parent} -> {each.number}")
    return "\n".join([*lines, "}"])


def list_progress(run: RunRecord) -> dict[str, Points]:
    """Curves by attempt: the mean, the best so far, search's best, and the goal."""
    goal = run.settings.goal
    known = [(each.number, each.mean(goal.metric)) for each in run.attempts]
    last = max(len(run.attempts), len(run.search), 1)
    curves: dict[str, Points] = {
        "attempt": [(at, mean) for at, mean in known if mean is not None],
        "best so far": best_so_far(run.attempts, goal),
        "search alone, best so far": best_so_far(run.search, goal),
        "goal": [(1, goal.threshold), (last, goal.threshold)],
    }
    return {name: points for name, points in curves.items() if points}


def read_text(path: Path) -> str:
    """A text file; empty where there is none."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@dataclass
class Process:
    """A run that was started here: its process, and its log."""

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


def build_command(goal: str, options: dict[str, Any], folder: Path) -> list[str]:
    """Arguments of `genlab` for a run; options: names and values of the command line's."""
    flags = [part for name, given in options.items() if given not in ("", None)
             for part in (f"--{name.replace('_', '-')}", str(given))]  # fmt: skip
    return ["agent", "run", "--yes", "--workspaces", str(folder), *flags, "--", goal]


def start(goal: str, options: dict[str, Any], folder: Path) -> Process:
    """Start or resume a run in the workspaces of `folder`. Raises GenlabError for a bad goal."""
    parse_goal(goal, dataset=options.get("dataset") or None)
    log = folder / "logs" / f"{datetime.now():%Y%m%d_%H%M%S_%f}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    # -P: nothing in the current folder is imported.
    command = [sys.executable, "-P", "-u", "-m", "genlab.cli"]
    with log.open("wb") as file:
        # A new session: Ctrl-C at the server does not stop the run.
        process = subprocess.Popen(
            [*command, *build_command(goal, options, folder)], stdin=subprocess.DEVNULL,
            stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "COLUMNS": "200"},
        )  # fmt: skip
    return Process(process, log)


@st.cache_resource
def started() -> list[Process]:
    """The runs that this server started, for every visitor and after a reload."""
    return []


def begin(goal: str, options: dict[str, Any]) -> None:
    """Start a run, unless one is under way."""
    if any(run.is_running for run in started()):
        st.warning("A run is under way; stop it first, or wait for its end.")
        return
    started().append(start(goal, options, FOLDER))
    st.session_state.pop("workspace", None)  # show the latest one
    st.rerun()


def show_form() -> None:
    """The form that starts a run, and the command that does the same."""
    params = load_params().agent
    text = st.text_area("Goal, with the number that decides", params.goal, key="goal", height=80)
    left, middle, right = st.columns(3)
    usual = BACKENDS.index(params.backend) if params.backend in BACKENDS else 0
    options: dict[str, Any] = {
        "backend": left.selectbox(
            "Planner", BACKENDS, usual, key="backend",
            help="embedded: on this machine; openai: as in params.yaml; search: no language model",
        ),
        "mode": middle.selectbox(
            "Mode", MODES, MODES.index(params.mode), key="mode",
            help="loop: a fixed sequence of steps; tools: the planner calls the tools",
        ),
    }  # fmt: skip
    for place, (name, limits) in zip((right, left, middle, right), LIMITS.items(), strict=True):
        options[name] = place.number_input(*limits, getattr(params, name), key=name)
    with sentences():
        st.caption(label(f"This means: {parse_goal(text).description}"))
    st.code(shlex.join(["genlab", *build_command(text, options, FOLDER)]), language="bash")
    if st.button("Start or resume", type="primary", key="start"):
        begin(text, options)


@st.fragment(run_every=2)
def follow(run: Process) -> None:
    """A run under way, read again every other second."""
    if not run.is_running:
        st.rerun()  # the whole page
    st.info("A run is under way. This page follows it.")
    st.button("Stop", key="stop", help="It can be resumed.", on_click=run.process.terminate)
    show_log(run)
    workspace = Workspace(FOLDER / run.workspace)
    if run.workspace and (workspace.experiments / RUN).exists():
        with sentences():
            show_overview(read_run(workspace))


def show_log(run: Process) -> None:
    """The last lines that a run logged."""
    lines = read_text(run.log).splitlines()[-12:]
    st.code("\n".join(lines) or "starting", language="text", wrap_lines=True)


def show_overview(run: RunRecord) -> None:
    """Verdict, progress, tree, table, spend."""
    goal = run.settings.goal
    st.subheader(label(goal.text), anchor=False)
    (st.success if run.verdict == "achieved" else st.info)(label(run.sentence))
    origins = f"planned by {counts(run.planned_by)}; code by {counts(run.written_by)}"
    st.caption(label(f"{goal.description}; {run.backend}; {origins}"))
    references = "; ".join(f"{name} {number(measured.get(goal.metric))}"
                           for name, measured in run.references.items())  # fmt: skip
    if references:
        st.caption(label(f"Reference models, same budget and judge: {references}"))
    if run.attempts:
        charts.draw(list_progress(run), METRICS[goal.metric].label, x="attempt")
        st.graphviz_chart(draw_tree(run))
        st.dataframe(list_attempts(run), hide_index=True, width="stretch")
    if run.comparison is not None:
        same = f"the same {len(run.attempts)} attempts"
        st.caption(f"Random search with {same}: {run.comparison['conclusion']}.")
    with st.container(horizontal=True, gap="large"):
        for name, spent in (run.spend | {"seconds_in_total": run.seconds}).items():
            st.metric(words(name), number(spent), width="content")


def show_attempt(run: RunRecord) -> None:
    """One attempt: its decision, numbers, code, difference to its parent, and summary."""
    numbers = [each.number for each in run.attempts]
    best = run.best.number if run.best else numbers[-1]
    chosen = st.selectbox(
        "Attempt", numbers, numbers.index(best), key="attempt", bind="query-params",
        format_func=lambda each: f"{each}, the best one" if each == best else str(each),
    )  # fmt: skip
    attempt = run.attempts[numbers.index(chosen)]
    folder = run.workspace.root / attempt.experiment_dir
    names = ["Decision", "Numbers", "Code", "Difference", "Config", "Summary"]
    decision, measured, code, difference, config, summary = st.tabs(names)
    with decision:
        for name in REMARKS:
            if remark := getattr(attempt, name):
                st.caption(words(name).capitalize())
                st.text(value(remark))
    with measured:
        show_numbers(attempt)
    source = read_text(folder / CODE)
    code.caption(f"written by {attempt.code_origin or 'nobody'}")
    code.code(source or "not written", language="python", line_numbers=True)
    with difference:
        show_difference(run, attempt, source)
    config.code(read_text(folder / CONFIG_FILE) or "not written", language="yaml")
    with summary, sentences(), reading(folder / SUMMARY, RESUME) as found:
        st.code(found.get("table") or "not measured", language="text")
        if analysis := found.get("analysis"):
            st.caption("What the tools' language model says of it")
            st.text(value(analysis))


def show_numbers(attempt: Attempt) -> None:
    """The numbers of each seed, and the curves of training."""
    rows = [{"seed": each["seed"], **each["metrics"], "train loss": each["train_loss"],
             "seconds": each["seconds"], "cut by the clock": each.get("cut", False)}
            for each in attempt.seeds]  # fmt: skip
    if not rows:
        st.caption("No number: it failed.")
        return
    table(rows, "numbers per seed")
    curves: dict[str, Points] = {
        f"seed {each['seed']}": list(enumerate(each["curve"], 1))
        for each in attempt.seeds if each.get("curve")
    }  # fmt: skip
    if curves:
        charts.draw(curves, "training loss", x="point")


def show_difference(run: RunRecord, attempt: Attempt, source: str) -> None:
    """The change of the code against the parent's."""
    parent = next((each for each in run.attempts if each.run_id == attempt.parent), None)
    if parent is None:
        st.caption("A draft: it has no parent.")
        return
    before = read_text(run.workspace.root / parent.experiment_dir / CODE)
    lines = difflib.unified_diff(before.splitlines(), source.splitlines(),
                                 f"attempt {parent.number}", f"attempt {attempt.number}",
                                 lineterm="")  # fmt: skip
    st.code("\n".join(lines) or "the same code", language="diff")


def show_transcript(path: Path) -> None:
    """Every question and answer."""
    entries = [each for each in read_entries(path) if each.kind == "answer"]
    if not entries:
        st.caption("No language model was asked.")
    for place, each in enumerate(entries, 1):
        answer, request = each.value, each.request
        tokens = f"{answer.get('tokens_in', 0):,} + {answer.get('tokens_out', 0):,} tokens"
        with st.expander(label(f"{place}. {request.get('role', '')}: {tokens}")):
            for message in request.get("messages", []):
                st.caption(message["role"])
                st.code(str(message.get("content") or ""), language="text", wrap_lines=True)
            st.caption("answer")
            shown = answer.get("text") or answer.get("reason") or value(answer.get("calls", ""))
            st.code(shown or "nothing", language="json", wrap_lines=True)


def show_finished(known: list[str]) -> None:
    """A chosen run: overview, report, attempts, transcript."""
    if not known:
        st.info("No workspace yet. The form above opens the first one.")
        return
    name = st.selectbox("Workspace", known, key="workspace", bind="query-params")
    workspace = Workspace(FOLDER / name)
    require(workspace.experiments / RUN, RESUME)
    run = read_run(workspace)
    show_overview(run)
    if run.verdict == "unfinished" and st.button("Resume", key="resume"):
        kept = ("backend", "mode", "max_iterations", "max_seconds", "max_tokens", "candidates",
                "max_parameters")  # fmt: skip
        options = {each: getattr(run.settings.params, each) for each in kept}
        begin(run.settings.goal.text, {**options, "seed": run.settings.seed})
    if page := read_text(workspace.experiments / PAGE):
        st.download_button("Report as a page", page, f"{name}.html", "text/html", key="report")
    if run.attempts:
        st.header("Attempts", anchor=False)
        show_attempt(run)
    st.header("Transcript", anchor=False)
    show_transcript(workspace.root / JOURNAL)


def main() -> None:
    """The form, and a run under way or a finished one."""
    known = [root.name for root in reversed(all_workspaces(FOLDER))]
    with st.expander("Start a run", expanded=not known), sentences():
        show_form()
    for run in started()[-1:]:
        if run.is_running:
            follow(run)
            return
        if run.process.returncode not in (0, -15):
            st.error("The run ended with an error; the last lines of its log say which.")
        show_log(run)
    show_finished(known)
