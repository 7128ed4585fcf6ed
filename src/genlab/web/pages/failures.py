"""What fails and why: the worst items, the hypotheses about them, and what people think."""

from functools import partial
from pathlib import Path

import streamlit as st

from genlab.benchmark.store.schema import MAX_RATER
from genlab.core.errors import GenlabError
from genlab.web import galleries, opinions
from genlab.web.components.frame import choose_dataset, remember, remembered, sentences, title
from genlab.web.components.grid import label
from genlab.web.jobs import jobs

ROOT = Path()
LONGEST = 400  # characters of what a file says of an item


def keep(name: str, failure: galleries.Failure, rater: str, key: str) -> None:
    """What a click on a thumb does."""
    thumb = st.session_state[key]
    try:
        jobs().store.opine(
            name,
            opinions.KINDS[failure.sort],
            failure.subject,
            failure.hypothesis,
            rater,
            None if thumb is None else bool(thumb),
        )
    except GenlabError as error:
        st.session_state["not_stored"] = str(error)


def show(name: str, failure: galleries.Failure, rater: str, said: opinions.Opinions) -> None:
    subject, hypothesis = failure.subject, failure.hypothesis
    sort = failure.sort[:-1].capitalize()
    with st.container(border=True):
        st.html(galleries.card(failure))
        st.markdown(f"**{sort} {failure.index}**: {label(failure.standing)}")
        st.caption(label(failure.seen, LONGEST))
        st.write(f"Why: {label(failure.explanation, LONGEST)}.")
        if hypothesis == galleries.UNEXPLAINED:
            return
        key = f"thumb_{failure.index}_{subject[:16]}_{hypothesis}_{rater}"
        mine = said.of(subject, hypothesis, rater)
        if mine is not None:
            st.session_state.setdefault(key, int(mine))
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption("Does this explain it?", width="content")
            st.feedback("thumbs", key=key, on_change=partial(keep, name, failure, rater, key))
            agree, differ = said.tally(subject, hypothesis)
            if agree + differ:
                st.caption(f"{agree} agree, {differ} don't", width="content")


title("Failures", "The worst items, why they may have failed, and whether you agree.")
name = choose_dataset()
if name:
    with sentences():
        with st.container(horizontal=True, gap="medium", vertical_alignment="top"):
            sort = st.segmented_control(
                "Sort",
                list(galleries.SORTS),
                default="reconstructions",
                required=True,
                key="sort",
                bind="query-params",
            )
            typed = st.text_input(
                "Your name, for your opinions",
                remembered("rater"),
                key="rater",
                max_chars=MAX_RATER,
                placeholder=opinions.ANONYMOUS,
                width=260,
            )
        remember(rater=typed or "")
        rater = opinions.clean(typed or "")
        found = galleries.gallery(ROOT, name, sort)
        said = opinions.read(jobs().store, name)
        counts = found.hypotheses
        wanted = st.pills(
            "Explained by",
            list(counts),
            selection_mode="multi",
            format_func=galleries.label,
            key="hypothesis",
            bind="query-params",
        )
        if "not_stored" in st.session_state:
            st.error(st.session_state.pop("not_stored"))
        shown = found.of(wanted)
        st.write(f"**{len(shown)}** of {len(found.failures)} {sort}.")
        for start in range(0, len(shown), 3):
            row = shown[start : start + 3]
            for column, failure in zip(st.columns(3), row, strict=False):
                with column:
                    show(name, failure, rater, said)
        st.subheader("The hypotheses and their evidence", anchor=False)
        st.caption(
            "Error of items that have the attribute over that of items that don't, within the same"
            " number of objects or the same class. Supported: it is above 1 beyond chance; refuted:"
            " below. At most 5 % of the decided ones are expected to be decided by chance."
        )
        st.html(galleries.tests_table(found, f"{len(found.tests)} hypotheses about {sort}"))
