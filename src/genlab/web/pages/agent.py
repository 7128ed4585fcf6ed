"""The research agent: start, stop and resume a run, follow it, and read its tree of attempts.

A run is a separate process, the command line's; endpoint and key come from params.yaml and the
environment, never from the page: else whoever may open it could have the key sent anywhere.
"""

import difflib
import os
import shlex
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import streamlit as st

from genlab.agent.goals.goal import METRICS, parse_goal
from genlab.agent.record import RESUME, RUN, RunRecord, read_run
from genlab.agent.registry import CODE, CONFIG_FILE, SUMMARY
from genlab.agent.report import PAGE, format_counts, trace_best
from genlab.agent.workspace import JOURNAL, Workspace, list_workspaces
from genlab.evaluation.reports.formats import format_number, format_value, to_heading, to_words
from genlab.llm.journal import read_entries
from genlab.web.components import charts, frame
from genlab.web.components.escape import label
from genlab.web.files import reading, require

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


def build_command(goal: str, options: dict[str, Any], folder: Path) -> list[str]:
    """Arguments of `genlab` for a run; options: names and values of the command line's."""
    flags = [part for name, given in options.items() if given not in ("", None)
             for part in (f"--{name.replace('_', '-')}", str(given))]  # fmt: skip
    return ["agent", "run", "--yes", "--workspaces", str(folder), *flags, "--", goal]


def start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a run by a command of `genlab`; its log goes to `folder`."""
    log = folder / "logs" / f"{datetime.now():%Y%m%d_%H%M%S_%f}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    # -P: nothing in the current folder is imported.
    program = [sys.executable, "-P", "-u", "-m", "genlab.cli"]
    with log.open("wb") as file:
        # A new session: Ctrl-C at the server does not stop the run.
        return subprocess.Popen(
            [*program, *command], stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "COLUMNS": "200"},
        )  # fmt: skip


@st.cache_resource
def started() -> list[subprocess.Popen[bytes]]:
    """The runs that this server started, for every visitor and after a reload."""
    return []


def begin(command: list[str]) -> None:
    """Start a run by a command of `genlab`, unless one is under way."""
    if any(run.poll() is None for run in started()):
        st.warning("A run is under way; stop it first, or wait for its end.")
        return
    started().append(start(command, FOLDER))
    st.rerun()


def show_form() -> None:
    """The form that starts a run, and the command that does the same."""
    params = frame.params().agent
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
    with frame.sentences():
        st.caption(label(f"This means: {parse_goal(text).description}"))
    command = build_command(text, options, FOLDER)
    st.code(shlex.join(["genlab", *command]), language=None, wrap_lines=True)
    if st.button("Start or resume", type="primary", key="start"):
        parse_goal(text)  # a bad one starts nothing
        begin(command)


def read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def draw_tree(run: RunRecord) -> str:
    """The tree of attempts in the DOT language: an arrow from a model to each change of it."""
    lines = [
        'digraph {rankdir=LR bgcolor="transparent"',
        'node [shape=box style="rounded,filled" fontname="sans-serif" fontsize=11]',
    ]
    for each in run.attempts:
        mean = each.mean(run.settings.goal.metric)
        shown, fill = ("failed", "#f4d6d6") if mean is None else (f"{mean:.4g}", "#e8ecf0")
        fill = "#cfe8d5" if each == run.best else fill
        text = f"{each.number} {each.kind}\\n{shown}"
        lines.append(f'{each.number} [label="{text}" fillcolor="{fill}"]')
        if parent := run.numbers_by_run_id.get(each.parent):
            lines.append(f"{parent} -> {each.number}")
    return "\n".join([*lines, "}"])


def show_overview(run: RunRecord) -> None:
    """Verdict, progress, tree, table, spend."""
    goal = run.settings.goal
    st.subheader(label(goal.text), anchor=False)
    (st.success if run.verdict == "met" else st.info)(label(run.verdict_text))
    origins = f"planned by {format_counts(run.planned_by)}; code by {format_counts(run.written_by)}"
    st.caption(label(f"{goal.description}; {run.backend}; {origins}"))
    references = "; ".join(f"{name} {format_number(measured.get(goal.metric))}"
                           for name, measured in run.references.items())  # fmt: skip
    if references:
        st.caption(label(f"Reference models, same data and judge: {references}"))
    if run.attempts:
        means = [(each.number, each.mean(goal.metric)) for each in run.attempts]
        curves: dict[str, charts.Points] = {
            "attempt": [(at, mean) for at, mean in means if mean is not None],
            "best so far": trace_best(run.attempts, goal),
            "search alone, best so far": trace_best(run.search, goal),
            "goal": [(1, goal.threshold), (max(means[-1][0], len(run.search)), goal.threshold)],
        }
        charts.draw(curves, METRICS[goal.metric].label, x="attempt")
        st.graphviz_chart(draw_tree(run), alt="The tree of attempts")
        table = [
            {
                "attempt": each.number,
                "changes": run.numbers_by_run_id.get(each.parent),
                "kind": each.kind or "by tools",
                "model": each.model_name,
                f"{goal.metric}, per seed": each.format_metric(goal.metric),
                "parameters": each.parameters,
                "planned by": each.origin,
                "code by": each.code_origin,
                "decision": each.decision or "none",
            }
            for each in run.attempts
        ]
        st.dataframe(table, hide_index=True)
    if run.comparison is not None:
        same = f"the same {len(run.attempts)} attempts"
        st.caption(f"Random search with {same}: {run.comparison['conclusion']}.")
    with st.container(horizontal=True, gap="large"):
        for name, spent in (run.spend | {"seconds_in_total": run.seconds}).items():
            st.metric(to_words(name), format_number(spent), width="content")


def show_attempt(run: RunRecord) -> None:
    """One attempt: its decision, numbers, code, difference to its parent, and summary."""
    by_number = {each.number: each for each in run.attempts}
    best = run.best.number if run.best else [*by_number][-1]
    chosen = st.selectbox(
        "Attempt", [*by_number], [*by_number].index(best), key="attempt", bind="query-params",
        format_func=lambda each: f"{each}, the best one" if each == best else str(each),
    )  # fmt: skip
    attempt = by_number[chosen]
    folder = run.workspace.root / attempt.experiment_dir
    source = read_text(folder / CODE)
    names = ["Decision", "Numbers", "Code", "Difference", "Config", "Summary"]
    decision, measured, code, difference, config, summary = st.tabs(names)
    with decision:
        for name in REMARKS:
            if remark := getattr(attempt, name):
                st.caption(to_heading(name))
                st.text(format_value(remark))
    with measured:
        if attempt.seeds:
            rows = [{"seed": each["seed"], **each["metrics"], "train loss": each["train_loss"],
                     "seconds": each["seconds"], "cut by the clock": each.get("cut", False)}
                    for each in attempt.seeds]  # fmt: skip
            frame.table(rows, "numbers per seed")
            curves: dict[str, charts.Points] = {
                f"seed {each['seed']}": list(enumerate(each.get("curve") or [], 1))
                for each in attempt.seeds
            }
            charts.draw(curves, "training loss", x="point")
        else:
            st.caption("No number: it failed.")
    code.caption(f"written by {attempt.code_origin or 'nobody'}")
    code.code(source or "not written", language="python", line_numbers=True)
    if parent := by_number.get(run.numbers_by_run_id.get(attempt.parent, 0)):
        before = read_text(run.workspace.root / parent.experiment_dir / CODE)
        lines = difflib.unified_diff(
            before.splitlines(), source.splitlines(), f"attempt {parent.number}",
            f"attempt {attempt.number}", lineterm="",
        )  # fmt: skip
        difference.code("\n".join(lines) or "the same code", language="diff")
    else:
        difference.caption("A draft: it has no parent.")
    config.code(read_text(folder / CONFIG_FILE) or "not written", language="yaml")
    with summary, frame.sentences(), reading(folder / SUMMARY, RESUME) as found:
        frame.table(found.get("layers") or [], "layers")
        if analysis := found.get("analysis"):
            st.caption("What the tools' language model says of it")
            st.text(format_value(analysis))


def show_transcript(path: Path) -> None:
    entries = [each for each in read_entries(path) if each.kind == "answer"]
    if not entries:
        st.caption("No language model was asked.")
        return
    titles = [
        f"{place}. {each.request.get('role', '')}: {each.value.get('tokens_in', 0):,}"
        f" + {each.value.get('tokens_out', 0):,} tokens"
        for place, each in enumerate(entries, 1)
    ]
    # One at a time: with tools, each question repeats the conversation before it.
    chosen = entries[titles.index(st.selectbox("Question", titles, key="question"))]
    for message in chosen.request.get("messages", []):
        st.caption(message["role"])
        st.code(str(message.get("content") or ""), language="text", wrap_lines=True)
    st.caption("answer")
    answer = chosen.value
    shown = answer.get("text") or answer.get("reason") or format_value(answer.get("calls", ""))
    st.code(shown or "nothing", language="json", wrap_lines=True)


def show_workspace(name: str, *, running: bool) -> None:
    """The run in a workspace: overview, and when it has ended report, attempts, transcript."""
    workspace = Workspace(FOLDER / name)
    if running and not (workspace.experiments / RUN).exists():
        return  # it has only begun
    require(workspace.experiments / RUN, RESUME)
    run = read_run(workspace)
    show_overview(run)
    if running:
        return
    if run.verdict == "unfinished" and st.button("Resume", key="resume"):
        begin(["agent", "resume", str(workspace.root)])
    if page := read_text(workspace.experiments / PAGE):
        st.download_button("Report as a page", page, f"{name}.html", "text/html", key="report")
    if run.attempts:
        st.header("Attempts", anchor=False)
        show_attempt(run)
    st.header("Transcript", anchor=False)
    show_transcript(workspace.root / JOURNAL)


def follow(running: bool) -> None:
    """The log of the last run that was started here, and a workspace."""
    for run in started()[-1:]:
        if run.poll() is None:
            st.info("A run is under way. This page follows it.")
            st.button("Stop", key="stop", help="It can be resumed.", on_click=run.terminate)
        elif running:
            st.rerun()  # the whole page
        elif run.returncode not in (0, -15):
            st.error("The run ended with an error; the last lines of its log say which.")
        for log in sorted((FOLDER / "logs").glob("*.log"))[-1:]:
            lines = read_text(log).splitlines()[-12:]
            st.code("\n".join(lines) or "starting", language="text", wrap_lines=True)
    known = [root.name for root in reversed(list_workspaces(FOLDER))]
    with frame.sentences():
        if known:
            if st.session_state.get("latest", known[0]) != known[0]:  # a run has opened it
                st.session_state["workspace"] = known[0]
            st.session_state["latest"] = known[0]
            name = st.selectbox("Workspace", known, key="workspace", bind="query-params")
            show_workspace(name, running=running)
        elif not running:
            st.info("No workspace yet. The form above opens the first one, as does: `genlab agent`")


def main() -> None:
    with st.expander("Start a run", expanded=not list_workspaces(FOLDER)), frame.sentences():
        show_form()
    running = any(run.poll() is None for run in started())
    st.fragment(follow, run_every=2 if running else None)(running)
