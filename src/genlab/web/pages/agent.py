"""The research agent: start a run, follow it, and read what each attempt was and why."""

from pathlib import Path

import streamlit as st

from genlab.agent.story import Story
from genlab.core.errors import GenlabError
from genlab.core.params import load_params
from genlab.web import attempts, attempts_chart
from genlab.web.components.frame import chart, title

FOLDER = Path("workspaces")
EVERY = 2.0  # seconds between looks at a run under way


@st.cache_resource
def started() -> list[attempts.Started]:
    """The runs that this server started, for every visitor and after a reload."""
    return []


def running() -> attempts.Started | None:
    return next((run for run in started() if run.is_running), None)


def begin() -> None:
    """The form that starts a run."""
    params = load_params().agent
    with st.form("begin"):
        text = st.text_area(
            "Goal, with the number that decides", params.goal, key="goal", height=80
        )
        left, middle, right = st.columns(3)
        dataset = left.selectbox("Data set", attempts.SETS, key="dataset")
        known = list(attempts.BACKENDS)
        usual = known.index(params.backend) if params.backend in known else 0
        backend = middle.selectbox(
            "Planner", known, usual, format_func=attempts.BACKENDS.__getitem__, key="backend"
        )
        count = right.number_input(
            "Attempts at most", 1, 1000, params.max_iterations, key="attempts"
        )
        if not st.form_submit_button("Start or resume", type="primary", key="start"):
            return
    if running() is not None:
        st.warning("A run is going on already; stop it first, or wait for its end.")
        return
    try:
        started().append(attempts.start(text, dataset, backend, int(count), FOLDER))
    except GenlabError as error:
        st.error(attempts.plain(str(error)))
        return
    st.session_state.pop("workspace", None)  # to the one that is worked in now
    st.rerun()


def process() -> None:
    """The run that was started last: what it says, and the button that ends it."""
    if not started():
        return
    last = started()[-1]
    if last.is_running:
        left, right = st.columns([5, 1], vertical_alignment="center")
        left.info("A run is going on. This page follows it.")
        if right.button("Stop", key="stop", help="The same goal goes on where it stood."):
            last.stop()
    elif last.process.returncode not in (0, -15):
        st.error("The run ended with an error; its last lines say which.")
    with st.expander("Log", expanded=last.is_running or last.process.returncode not in (0, -15)):
        st.code("\n".join(last.lines) or "starting", language="text", wrap_lines=True)


@st.fragment(run_every=EVERY)
def live() -> None:
    """A run under way: it is read again every other second."""
    process()
    run = running()
    if run is None:
        st.rerun()  # it has ended: the whole page
    found = attempts.read(FOLDER / run.workspace) if run.workspace else "starting"
    if isinstance(found, Story):
        overview(found)


def overview(told: Story) -> None:
    """Verdict, progress, table, spend."""
    st.subheader(attempts.plain(told.settings.goal.text), anchor=False)
    show = st.success if told.verdict == "achieved" else st.info
    show(attempts.plain(told.sentence))
    who = f"{told.settings.goal}, {told.backend}; {attempts.origins(told)}"
    st.caption(attempts.plain(who))
    if told.attempts:
        chart(attempts_chart.chart(told), attempts_chart.chart_words(told))
        st.dataframe(
            attempts.rows(told),
            hide_index=True,
            width="stretch",
            column_config={"parameters": st.column_config.NumberColumn(format="localized")},
        )
    if told.comparison is not None:
        st.caption(
            f"Search, at the same {told.comparison.attempts} attempts: {told.comparison.words}."
        )
    with st.container(horizontal=True, gap="large"):
        for label, value in attempts.spend(told):
            st.metric(label, value, width="content")


def details(told: Story) -> None:
    """One attempt: its decision, config, code and summary."""
    numbers = [each.iteration for each in told.attempts]
    best = told.best.iteration if told.best else numbers[-1]
    chosen = st.selectbox(
        "Attempt", numbers, numbers.index(best), key="attempt", bind="query-params",
        format_func=lambda each: f"{each}, the best one" if each == best else str(each),
    )  # fmt: skip
    attempt = told.attempts[numbers.index(chosen)]
    found = attempts.files(told, attempt)
    decision, config, code, summary = st.tabs(["Decision", "Config", "Code", "Summary"])
    for label, words in attempts.remarks(attempt):
        decision.caption(label)
        decision.text(words)
    config.code(found.config or "not written", language="yaml")
    code.caption(f"written by {attempt.code_origin}")
    code.code(found.code or "not written", language="python", line_numbers=True)
    summary.code(found.table or "not measured", language="text")
    if found.analysis:
        summary.caption("The tool LLM on it, where its numbers hold")
        summary.text(found.analysis)
    for line in found.overruled:
        summary.warning(attempts.plain(line))


def transcript(told: Story) -> None:
    """Every question and answer."""
    asked = attempts.questions(told.workspace.root)
    if not asked:
        st.caption("No language model was asked.")
    for each in asked:
        with st.expander(attempts.plain(each.heading)):
            for role, words in each.messages:
                st.caption(role)
                st.code(words, language="text", wrap_lines=True)
            st.caption("answer")
            st.code(each.answer or "nothing", language=each.language, wrap_lines=True)


def finished() -> None:
    """A run that is not under way here: chosen, and told whole."""
    known = attempts.workspaces(FOLDER)
    if not known:
        st.info("No workspace yet. The form above opens the first one.")
        return
    name = st.selectbox("Workspace", list(known), key="workspace", bind="query-params")
    told = attempts.read(FOLDER / name)
    if not isinstance(told, Story):
        st.info(attempts.plain(told))
        return
    overview(told)
    if page := attempts.page_of(told):
        st.download_button("Report as a page", page, f"{name}.html", "text/html", key="report")
    if told.attempts:
        st.header("Attempts", anchor=False)
        details(told)
    st.header("Transcript", anchor=False)
    transcript(told)


title(
    "Agent",
    "Plans, writes, tests and decides until the number says yes. What it writes runs behind walls.",
)
try:
    with st.expander("Start a run", expanded=not attempts.workspaces(FOLDER)):
        begin()
    if running() is not None:
        live()
    else:
        process()
        finished()
except GenlabError as error:
    st.error(attempts.plain(str(error)))
