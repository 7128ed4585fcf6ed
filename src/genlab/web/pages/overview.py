"""The pipeline, the key numbers of each dataset, what changed, and what to do next."""

from pathlib import Path

import streamlit as st

from genlab.datasets.registry import find_dataset
from genlab.web import board, tables
from genlab.web.changes import changes, last_commit
from genlab.web.components import look
from genlab.web.components.frame import params, sentences, title
from genlab.web.components.grid import label
from genlab.web.pipeline import Pipeline, read_pipeline
from genlab.web.results import Results, read_results
from genlab.web.status import Status, Watch
from genlab.web.steps import next_step

ROOT = Path()
LONGEST = 400  # characters of what dvc or git said


@st.cache_resource
def watch(root: str) -> Watch:
    """One for the server, however many pages look at it."""
    return Watch(Path(root))


def show_pipeline(datasets: list[str], status: Status) -> Pipeline | None:
    with sentences():
        found = read_pipeline(ROOT, datasets, status.stages, asking=status.asking)
        st.html(board.draw(found))
        if status.fault:
            st.warning(label(status.fault, LONGEST))
        return found
    return None


@st.fragment(run_every=1)
def pipeline_while_asked(datasets: list[str]) -> None:
    """Shown until dvc has answered; then the page is run once more, without the clock."""
    status = watch(str(ROOT.absolute())).look()
    show_pipeline(datasets, status)
    if not status.asking:
        st.rerun()


def show_results(name: str) -> Results | None:
    st.subheader(find_dataset(name).title, anchor=False)
    with sentences():
        found = read_results(ROOT, name)
        words, tone = ("passed", "good") if found.passed else ("not passed", "bad")
        st.html(f"<p>Verdict: {look.tag(words, tone)} · {look.text(found.sentence)}</p>")
        st.html(look.numbers(found.numbers))
        return found
    return None


title("Overview", "Where the pipeline stands, what its last runs found, and what comes next.")
with sentences():
    datasets: list[str] = list(params().datasets)
    status = watch(str(ROOT.absolute())).look()
    pipeline = None
    if status.asking:
        pipeline_while_asked(datasets)
    else:
        pipeline = show_pipeline(datasets, status)
    results = [found for name in datasets if (found := show_results(name))]
    st.subheader("Since the last commit", anchor=False)
    changed = changes(status.metrics or {})
    st.caption(f"Compared with {label(last_commit(ROOT), LONGEST)}.")
    if changed:
        st.html(tables.changes(changed))
    elif status.metrics is not None:
        st.write("No metric differs.")
    st.subheader("Next", anchor=False)
    if status.asking:
        st.caption("Known as soon as dvc has answered.")
    elif pipeline is not None:
        step = next_step(ROOT, pipeline, results, changed)
        st.write(step.reason)
        st.code(step.command, language=None)
