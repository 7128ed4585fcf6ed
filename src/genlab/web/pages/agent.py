"""The research agent: start, stop, resume and follow a run, and read its tree of attempts.

A run is a separate process of the command line. Endpoint and key come from params.yaml and the
environment, never from the page: otherwise a visitor could have the key sent to any address.
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

from genlab.agent.goals.goal import METRICS
from genlab.agent.goals.parser import parse_goal
from genlab.agent.record import RESUME, RUN, RunRecord, read_run
from genlab.agent.registry import CODE, CONFIG_FILE, SUMMARY
from genlab.agent.report import PAGE, format_counts, trace_best
from genlab.agent.workspace import JOURNAL, Workspace, list_workspaces
from genlab.evaluation.reports.formats import format_number, format_value, to_heading, to_words
from genlab.llm.journal import read_entries
from genlab.web.components import charts, frame
from genlab.web.components.escape import label
from genlab.web.files import open_json, require

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
    """Build the arguments of `genlab` for a run. options: of the command line, by name."""
    flags: list[str] = []
    for name, value in options.items():
        if value not in ("", None):
            flags += [f"--{name.replace('_', '-')}", str(value)]
    return ["agent", "run", "--yes", "--workspaces", str(folder), *flags, "--", goal]


def start(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a run by a command of `genlab`, which logs to `folder`."""
    log = folder / "logs" / f"{datetime.now():%Y%m%d_%H%M%S_%f}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    # -P: modules in the current folder are not imported.
    program = [sys.executable, "-P", "-u", "-m", "genlab.cli"]
    with log.open("wb") as file:
        # A new session: Ctrl-C at the server does not stop the run.
        return subprocess.Popen(
            [*program, *command], stdin=subprocess.DEVNULL, stdout=file,
            stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "COLUMNS": "200"},
        )  # fmt: skip


@st.cache_resource
def processes() -> list[subprocess.Popen[bytes]]:
    """Runs that this server has started; shared by all visitors and kept after a reload."""
    return []


def start_once(command: list[str]) -> None:
    """Start a run by a command of `genlab`, unless one is under way."""
    if any(process.poll() is None for process in processes()):
        st.warning("A run is under way; stop it first, or wait for its end.")
        return
    processes().append(start(command, FOLDER))
    st.rerun()


def show_form() -> None:
    """Show the form that starts a run, and the equivalent command."""
    params = frame.params().agent
    text = st.text_area("Goal, with the number that decides", params.goal, key="goal", height=80)
    left, middle, right = st.columns(3)
    default = BACKENDS.index(params.backend) if params.backend in BACKENDS else 0
    options: dict[str, Any] = {
        "backend": left.selectbox(
            "Planner", BACKENDS, default, key="backend",
            help="embedded: on this machine; openai: as in params.yaml; search: no language model",
        ),
        "mode": middle.selectbox(
            "Mode", MODES, MODES.index(params.mode), key="mode",
            help="loop: a fixed sequence of steps; tools: the planner calls the tools",
        ),
    }  # fmt: skip
    columns = (right, left, middle, right)
    for column, (name, limits) in zip(columns, LIMITS.items(), strict=True):
        options[name] = column.number_input(*limits, getattr(params, name), key=name)
    with frame.show_errors():
        st.caption(label(f"This means: {parse_goal(text).description}"))
    command = build_command(text, options, FOLDER)
    st.code(shlex.join(["genlab", *command]), language=None, wrap_lines=True)
    if st.button("Start or resume", type="primary", key="start"):
        parse_goal(text)  # raises if the goal is invalid
        start_once(command)


def read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def draw_tree(run: RunRecord) -> str:
    """Draw the tree of attempts in the DOT language, with an arrow from parent to child."""
    lines = [
        'digraph {rankdir=LR bgcolor="transparent"',
        'node [shape=box style="rounded,filled" fontname="sans-serif" fontsize=11]',
    ]
    for attempt in run.attempts:
        mean = attempt.mean(run.settings.goal.metric)
        value = "failed" if mean is None else f"{mean:.4g}"
        colour = "#f4d6d6" if mean is None else "#e8ecf0"
        if attempt == run.best:
            colour = "#cfe8d5"
        text = f"{attempt.number} {attempt.kind}\\n{value}"
        lines.append(f'{attempt.number} [label="{text}" fillcolor="{colour}"]')
        if parent := run.numbers_by_run_id.get(attempt.parent):
            lines.append(f"{parent} -> {attempt.number}")
    return "\n".join([*lines, "}"])


def show_overview(run: RunRecord) -> None:
    """Show verdict, progress, tree of attempts, table of attempts, and spend."""
    goal = run.settings.goal
    st.subheader(label(goal.text), anchor=False)
    (st.success if run.verdict == "met" else st.info)(label(run.verdict_text))
    origins = f"planned by {format_counts(run.planned_by)}; code by {format_counts(run.written_by)}"
    st.caption(label(f"{goal.description}; {run.backend}; {origins}"))
    references = [f"{name} {format_number(metrics.get(goal.metric))}"
                  for name, metrics in run.references.items()]  # fmt: skip
    if references:
        st.caption(label(f"Reference models, same data and evaluator: {'; '.join(references)}"))
    if run.attempts:
        show_attempts(run)
    if run.comparison_sentence:
        st.caption(label(run.comparison_sentence))
    with st.container(horizontal=True, gap="large"):
        for name, amount in (run.spend | {"seconds_in_total": run.seconds}).items():
            st.metric(to_words(name), format_number(amount), width="content")


def show_attempts(run: RunRecord) -> None:
    """Show the chart, the tree and the table of all attempts."""
    goal = run.settings.goal
    means = [(attempt.number, attempt.mean(goal.metric)) for attempt in run.attempts]
    last = max(run.attempts[-1].number, len(run.search))
    curves: dict[str, charts.Points] = {
        "attempt": [(number, mean) for number, mean in means if mean is not None],
        "best so far": trace_best(run.attempts, goal),
        "search alone, best so far": trace_best(run.search, goal),
        "goal": [(1, goal.threshold), (last, goal.threshold)],
    }
    charts.draw(curves, METRICS[goal.metric].label, x="attempt")
    st.graphviz_chart(draw_tree(run), alt="The tree of attempts")
    table = [
        {
            "attempt": attempt.number,
            "changes": run.numbers_by_run_id.get(attempt.parent),
            "kind": attempt.kind or "by tools",
            "model": attempt.model_name,
            f"{goal.metric}, per seed": attempt.format_metric(goal.metric),
            "parameters": attempt.parameters,
            "planned by": attempt.origin,
            "code by": attempt.code_origin,
            "decision": attempt.decision or "none",
        }
        for attempt in run.attempts
    ]
    st.dataframe(table, hide_index=True)


def show_attempt(run: RunRecord) -> None:
    """Show one attempt: decision, numbers, code, difference to its parent, and summary."""
    by_number = {attempt.number: attempt for attempt in run.attempts}
    numbers = list(by_number)
    best = run.best.number if run.best else numbers[-1]
    chosen = st.selectbox(
        "Attempt", numbers, numbers.index(best), key="attempt", bind="query-params",
        format_func=lambda number: f"{number}, the best one" if number == best else str(number),
    )  # fmt: skip
    attempt = by_number[chosen]
    folder = run.workspace.root / attempt.experiment_dir
    source = read_text(folder / CODE)
    names = ["Decision", "Numbers", "Code", "Difference", "Config", "Summary"]
    decision, measurements, code, difference, config, summary = st.tabs(names)
    with decision:
        for name in REMARKS:
            if remark := getattr(attempt, name):
                st.caption(to_heading(name))
                st.text(format_value(remark))
    with measurements:
        if attempt.seeds:
            rows = [{"seed": seed["seed"], **seed["metrics"], "train loss": seed["train_loss"],
                     "seconds": seed["seconds"], "cut by the clock": seed.get("cut", False)}
                    for seed in attempt.seeds]  # fmt: skip
            frame.show_table(rows, "numbers per seed")
            curves: dict[str, charts.Points] = {
                f"seed {seed['seed']}": list(enumerate(seed.get("curve") or [], 1))
                for seed in attempt.seeds
            }
            charts.draw(curves, "training loss", x="point")
        else:
            st.caption("No numbers: the attempt failed.")
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
    with summary, frame.show_errors(), open_json(folder / SUMMARY, RESUME) as content:
        frame.show_table(content.get("layers") or [], "layers")
        if analysis := content.get("analysis"):
            st.caption("The language model's analysis")
            st.text(format_value(analysis))


def show_transcript(path: Path) -> None:
    entries = [entry for entry in read_entries(path) if entry.kind == "answer"]
    if not entries:
        st.caption("No language model was asked.")
        return
    titles = [
        f"{number}. {entry.request.get('role', '')}: {entry.value.get('tokens_in', 0):,}"
        f" + {entry.value.get('tokens_out', 0):,} tokens"
        for number, entry in enumerate(entries, 1)
    ]
    # One at a time: with tools, each question repeats the conversation before it.
    chosen = entries[titles.index(st.selectbox("Question", titles, key="question"))]
    for message in chosen.request.get("messages", []):
        st.caption(message["role"])
        st.code(str(message.get("content") or ""), language="text", wrap_lines=True)
    st.caption("answer")
    answer = chosen.value
    text = answer.get("text") or answer.get("reason") or format_value(answer.get("calls", ""))
    st.code(text or "nothing", language="json", wrap_lines=True)


def show_workspace(name: str, *, running: bool) -> None:
    """Show the run of a workspace; after its end also report, attempts and transcript."""
    workspace = Workspace(FOLDER / name)
    if running and not (workspace.experiments / RUN).exists():
        return  # it has just begun
    require(workspace.experiments / RUN, RESUME)
    run = read_run(workspace)
    show_overview(run)
    if running:
        return
    if run.verdict == "unfinished" and st.button("Resume", key="resume"):
        start_once(["agent", "resume", str(workspace.root)])
    if page := read_text(workspace.experiments / PAGE):
        st.download_button("Report as a page", page, f"{name}.html", "text/html", key="report")
    if run.attempts:
        st.header("Attempts", anchor=False)
        show_attempt(run)
    st.header("Transcript", anchor=False)
    show_transcript(workspace.root / JOURNAL)


def follow(running: bool) -> None:
    """Show the log of the last run that this server started, and a workspace."""
    for process in processes()[-1:]:
        if process.poll() is None:
            st.info("A run is under way. This page follows it.")
            st.button("Stop", key="stop", help="It can be resumed.", on_click=process.terminate)
        elif running:
            st.rerun()  # the whole page
        elif process.returncode not in (0, -15):
            st.error("The run ended with an error; see the last lines of its log.")
        for log in sorted((FOLDER / "logs").glob("*.log"))[-1:]:
            lines = read_text(log).splitlines()[-12:]
            st.code("\n".join(lines) or "starting", language="text", wrap_lines=True)
    names = [root.name for root in reversed(list_workspaces(FOLDER))]
    with frame.show_errors():
        if names:
            newest = names[0]
            if st.session_state.get("latest", newest) != newest:  # a run has created it
                st.session_state["workspace"] = newest
            st.session_state["latest"] = newest
            name = st.selectbox("Workspace", names, key="workspace", bind="query-params")
            show_workspace(name, running=running)
        elif not running:
            st.info("No workspace yet. The form above opens the first one, as does: `genlab agent`")
            frame.show_committed(Path("plots") / "agent" / "progress.png")


def main() -> None:
    with st.expander("Start a run", expanded=not list_workspaces(FOLDER)), frame.show_errors():
        show_form()
    running = any(process.poll() is None for process in processes())
    st.fragment(follow, run_every=2 if running else None)(running)
