"""Blind rating: one image after another, stars by key or click; or pairs."""

from contextlib import suppress
from html import escape

import streamlit as st

from genlab.benchmark.cases import Case
from genlab.benchmark.judge import QUESTION, STARS
from genlab.benchmark.service.jobs import jobs
from genlab.benchmark.service.rating_session import Kind, Session, Subject, draw_swaps, list_run
from genlab.core.errors import GenlabError
from genlab.web.components import grid, look
from genlab.web.components.escape import label, text
from genlab.web.components.frame import ask_rater, params, remember, remembered, sentences
from genlab.web.components.subjects import KINDS, image_url, list_dataset, template_url

SIDES = ("Left", "Right")
VOTES = {1: "Left is better", 2: "Right is better", 3: "Tie", 4: "Both bad"}
KEYS = "Keys: 1 to 5 give stars, S skips, U undoes, T shows the template in the image's place."
PAIR_KEYS = "Keys: 1 left, 2 right, 3 tie, 4 both bad, S skips, U goes back."


def choose_scope() -> tuple[Kind, str]:
    """What is to be rated: (kind, run or dataset)."""
    choices: list[tuple[Kind, str]] = [("run_item", run.run_id) for run in jobs().store.runs()]
    if not choices:
        st.info("No run yet. Start one on the page Benchmark, or with: `genlab benchmark run`")
    choices += [(kind, name) for kind in KINDS if kind != "run_item" for name in params().datasets]
    kind = remembered("kind") or "run_item"
    of = st.query_params.get("of", remembered("run" if kind == "run_item" else "of"))
    start = next((n for n, choice in enumerate(choices) if choice == (kind, of)), 0)
    chosen = st.selectbox("What", choices, start, format_func=lambda c: f"{KINDS[c[0]]}: {c[1]}")
    remember("kind", chosen[0])
    remember("of", chosen[1])
    if chosen[0] == "run_item":  # the run that the page Benchmark shows next
        st.session_state["said_run"] = chosen[1]
    return chosen


@st.cache_data(max_entries=128, show_spinner=False)
def connect(_case: Case, digest: str) -> str:
    """The template over its avatars, a line from each face to who replaces it, as a data URL.

    digest: of the case; the cache goes by it alone.
    """
    return look.data_url(draw_swaps(_case), "jpeg")


class Cases:
    """The cases of a run's images, whose record is read once; of other images there are none."""

    def __init__(self, kind: Kind, run_id: str) -> None:
        self._run_id = run_id
        stored = jobs().store.run(run_id).cases if kind == "run_item" else ()
        self._stored = {case["case_id"]: case for case in stored}

    def read(self, subject: Subject) -> Case | str:
        """The case of an image, or why it cannot be shown; "" where there is none."""
        stored = self._stored.get(subject.case_id)
        return grid.read_run_case(jobs().store, self._run_id, stored) if stored else ""


def figure(url: str, caption: str, target: str = "", kind: str = "") -> str:
    """An image that opens `target`, or itself, on a click, in the largest size."""
    shown, target = grid.picture(url, caption), target or url
    if not target.startswith("data:"):  # a browser opens no such address
        large = escape(target.replace("width=640", "width=1280"))
        shown = f'<a href="{large}" target="_blank" rel="noopener">{shown}</a>'
    return f'<figure class="{kind}"><figcaption>{text(caption)}</figcaption>{shown}</figure>'


def show(way: Session, cases: Cases) -> str:
    """The template with who is replaced by whom, and the images to rate."""
    subject, *_ = task = way.current
    case = cases.read(subject)
    template = template_url(subject, case)
    kind = "" if subject.kind == "run_item" else " b-pixels"
    shown = ""
    if isinstance(case, Case):
        with suppress(GenlabError, OSError):  # it may have been deleted meanwhile
            shown = figure(connect(case, case.digest), "who is replaced by whom", template)
    elif case:
        shown = f"<figure><figcaption>{text(case, 160)}</figcaption></figure>"
    elif template:
        shown = figure(template, "original", kind=kind)
    main = f"b-main{kind}"
    if way.paired:
        for one, side in zip(task, SIDES, strict=True):
            shown += figure(image_url(one), side, kind=main)
    elif shown and template and st.session_state.get("flipped") == subject.sha256:
        shown += figure(template, "the template", kind=main)
    else:
        shown += figure(image_url(subject), "How good is this?" if kind else QUESTION, kind=main)
    return f'<div class="b-look">{shown}</div>'


def prepare(way: Session, cases: Cases) -> str:
    """The next images, unseen, so that a browser has them; what is drawn of their cases is kept."""
    urls = []
    for subject in way.ahead:
        case = cases.read(subject)
        urls += [image_url(subject), template_url(subject, case)]
        if isinstance(case, Case):
            with suppress(GenlabError, OSError):
                connect(case, case.digest)
    ahead = "".join(grid.picture(url, "") for url in dict.fromkeys(urls) if url.startswith("/"))
    return f'<div class="b-ahead" aria-hidden="true">{ahead}</div>'


@st.fragment
def rate(way: Session, run_id: str) -> None:
    """One image and its stars, or two and which is better, if any."""
    progress, board = st.empty(), st.empty()
    task = way.current
    if task:  # before all else: this is what a rater waits for
        cases = Cases(task[0].kind, run_id)
        board.html(show(way, cases))
    answer, undo = sentences()(way.answer), sentences()(way.undo)

    def flip() -> None:  # to the template in this image's place, or back
        flipped = st.session_state.get("flipped") == task[0].sha256
        st.session_state["flipped"] = "" if flipped else task[0].sha256

    with st.container(horizontal=True, gap="small"):
        for value in VOTES if way.paired else STARS:
            st.button(
                VOTES[value] if way.paired else "★" * value,
                key=f"answer-{value}",
                shortcut=str(value),
                help=None if way.paired else STARS[value],
                on_click=answer,
                args=(value,),
                disabled=not task,
            )
        st.button("Skip", key="skip", shortcut="s", on_click=way.skip, disabled=not task)
        st.button("Undo", key="undo", shortcut="u", on_click=undo, disabled=not way.position)
        if not way.paired:
            off = not task or not template_url(task[0], cases.read(task[0]))
            st.button("Template", key="flip", shortcut="t", on_click=flip, disabled=off)
    share = way.done / way.total if way.total else 1.0
    unit = "pairs" if way.paired else "rated"
    progress.progress(share, text=f"{way.done} of {way.total} {unit}")
    if not task:
        ended = way.done == way.total
        board.success("All done. Thank you." if ended else "The end; some were skipped.")
        return
    st.caption(PAIR_KEYS if way.paired else KEYS)
    if task[0].kind == "run_item" and not way.paired:
        st.caption("; ".join(f"{number}: {meaning}" for number, meaning in STARS.items()) + ".")
    st.html(prepare(way, cases))


def main() -> None:
    """Who rates what, then one image after another."""
    known = remembered("rater")
    with st.expander(
        f"{label(known, 30)} rates" if known else "Who rates what", expanded=not known
    ):
        kind, of = choose_scope()
        name = ask_rater()
        swapped = kind == "run_item"
        left, right = st.columns(2)
        paired = left.toggle("Pairs", key="pairs", bind="query-params", disabled=not swapped)
        controls = right.toggle("Controls, too", key="controls", disabled=not swapped)
    subjects = list_run(jobs().store, of, controls) if swapped else list_dataset(jobs(), of, kind)
    contents = [(subject.sha256, subject.original is not None) for subject in subjects]
    key = (kind, of, name, paired and swapped, contents)
    if st.session_state.get("rating_key") != key:  # kept while the page is open
        way = Session(jobs().store, name, subjects, paired=paired and swapped)
        st.session_state["rating"], st.session_state["rating_key"] = way, key
    if not st.session_state["rating"].total:
        st.info("Nothing to rate here. Controls are hidden unless you ask for them.")
        return
    rate(st.session_state["rating"], of)
