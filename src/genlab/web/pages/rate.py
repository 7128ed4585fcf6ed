"""Blind rating: one image after another, with stars by key or click; or pairs of images."""

from contextlib import suppress
from html import escape

import streamlit as st

from genlab.benchmark.cases import Case
from genlab.benchmark.judge import QUESTION, STARS
from genlab.benchmark.service.jobs import jobs
from genlab.benchmark.service.rating_session import Kind, Session, Subject, draw_swaps, list_run
from genlab.core.errors import GenlabError
from genlab.web.components import figures, look
from genlab.web.components.escape import label, text
from genlab.web.components.frame import ask_rater, params, recall, remember, show_errors
from genlab.web.components.subjects import KINDS, image_url, list_dataset, template_url

SIDES = ("Left", "Right")
VOTES = {1: "Left is better", 2: "Right is better", 3: "Tie", 4: "Both bad"}
KEYS = "Keys: 1 to 5 give stars, S skips, U undoes, T shows the template in the image's place."
PAIR_KEYS = "Keys: 1 left, 2 right, 3 tie, 4 both bad, S skips, U goes back."


def choose_scope() -> tuple[Kind, str]:
    """Let the visitor choose what to rate; returns the kind, and the run or dataset."""
    choices: list[tuple[Kind, str]] = [("run_item", run.run_id) for run in jobs().store.runs()]
    if not choices:
        st.info("No run yet. Start one on the page Benchmark, or with: `genlab benchmark run`")
    choices += [(kind, name) for kind in KINDS if kind != "run_item" for name in params().datasets]
    remembered_kind = recall("kind") or "run_item"
    scope = st.query_params.get("of", recall("run" if remembered_kind == "run_item" else "of"))
    matches = [n for n, choice in enumerate(choices) if choice == (remembered_kind, scope)]
    default = matches[0] if matches else 0
    kind, name = st.selectbox(
        "What", choices, default, format_func=lambda choice: f"{KINDS[choice[0]]}: {choice[1]}"
    )
    remember("kind", kind)
    remember("of", name)
    if kind == "run_item":  # the run that the page Benchmark shows next
        st.session_state["said_run"] = name
    return kind, name


@st.cache_data(max_entries=128, show_spinner=False)
def draw_case(_case: Case, digest: str) -> str:
    """Draw the template above its avatars, as `draw_swaps`; returns a data URL.

    digest: of the case, which is the key of the cache.
    """
    return look.data_url(draw_swaps(_case), "jpeg")


class Cases:
    """Cases of a run's images. The run is read once. Other kinds of subjects have no case."""

    def __init__(self, kind: Kind, run_id: str) -> None:
        self._run_id = run_id
        stored = jobs().store.run(run_id).cases if kind == "run_item" else ()
        self._stored = {case["case_id"]: case for case in stored}

    def read(self, subject: Subject) -> Case | str:
        """Return the case of an image, or why it cannot be shown; "" if there is none."""
        stored = self._stored.get(subject.case_id)
        return figures.read_run_case(jobs().store, self._run_id, stored) if stored else ""


def figure(url: str, caption: str, target: str = "", kind: str = "") -> str:
    """Show an image; a click opens `target`, or the image itself, at the largest size."""
    target = target or url
    image = figures.picture(url, caption)
    if not target.startswith("data:"):  # browsers open no data URLs
        large = escape(target.replace("width=640", "width=1280"))
        image = f'<a href="{large}" target="_blank" rel="noopener">{image}</a>'
    return f'<figure class="{kind}"><figcaption>{text(caption)}</figcaption>{image}</figure>'


def show(session: Session, cases: Cases) -> str:
    """Show the template with who is replaced by whom, and the images to rate."""
    task = session.current
    subject = task[0]
    case = cases.read(subject)
    template = template_url(subject, case)
    kind = "" if subject.kind == "run_item" else " b-pixels"
    figures = ""
    if isinstance(case, Case):
        with suppress(GenlabError, OSError):  # it may have been deleted meanwhile
            figures = figure(draw_case(case, case.digest), "who is replaced by whom", template)
    elif case:
        figures = f"<figure><figcaption>{text(case, 160)}</figcaption></figure>"
    elif template:
        figures = figure(template, "original", kind=kind)
    main = f"b-main{kind}"
    if session.paired:
        for side_subject, side in zip(task, SIDES, strict=True):
            figures += figure(image_url(side_subject), side, kind=main)
    elif figures and template and st.session_state.get("flipped") == subject.sha256:
        figures += figure(template, "the template", kind=main)
    else:
        question = "How good is this?" if kind else QUESTION
        figures += figure(image_url(subject), question, kind=main)
    return f'<div class="b-look">{figures}</div>'


def preload(session: Session, cases: Cases) -> str:
    """Add the next images, invisibly, so that the browser fetches them; draw their cases."""
    urls = []
    for subject in session.ahead:
        case = cases.read(subject)
        urls += [image_url(subject), template_url(subject, case)]
        if isinstance(case, Case):
            with suppress(GenlabError, OSError):
                draw_case(case, case.digest)
    ahead = "".join(figures.picture(url, "") for url in dict.fromkeys(urls) if url.startswith("/"))
    return f'<div class="b-ahead" aria-hidden="true">{ahead}</div>'


@st.fragment
def rate(session: Session, run_id: str) -> None:
    """Ask for the stars of one image, or which of two images is better."""
    progress = st.empty()
    board = st.empty()
    task = session.current
    if task:  # first of all: the rater waits for the image
        cases = Cases(task[0].kind, run_id)
        board.html(show(session, cases))
    answer = show_errors()(session.answer)
    undo = show_errors()(session.undo)

    def flip() -> None:
        """Show the template in the image's place, or the image again."""
        flipped = st.session_state.get("flipped") == task[0].sha256
        st.session_state["flipped"] = "" if flipped else task[0].sha256

    with st.container(horizontal=True, gap="small"):
        for value in VOTES if session.paired else STARS:
            st.button(
                VOTES[value] if session.paired else "★" * value,
                key=f"answer-{value}",
                shortcut=str(value),
                help=None if session.paired else STARS[value],
                on_click=answer,
                args=(value,),
                disabled=not task,
            )
        st.button("Skip", key="skip", shortcut="s", on_click=session.skip, disabled=not task)
        st.button("Undo", key="undo", shortcut="u", on_click=undo, disabled=not session.position)
        if not session.paired:
            has_template = bool(task) and bool(template_url(task[0], cases.read(task[0])))
            st.button(
                "Template", key="flip", shortcut="t", on_click=flip, disabled=not has_template
            )
    share = session.done / session.total if session.total else 1.0
    unit = "pairs" if session.paired else "rated"
    progress.progress(share, text=f"{session.done} of {session.total} {unit}")
    if not task:
        ended = session.done == session.total
        board.success("All done. Thank you." if ended else "The end; some were skipped.")
        return
    st.caption(PAIR_KEYS if session.paired else KEYS)
    if task[0].kind == "run_item" and not session.paired:
        st.caption("; ".join(f"{number}: {meaning}" for number, meaning in STARS.items()) + ".")
    st.html(preload(session, cases))


def main() -> None:
    """Ask who rates what, then show one image after another."""
    rater = recall("rater")
    with st.expander(
        f"{label(rater, 30)} rates" if rater else "Who rates what", expanded=not rater
    ):
        kind, scope = choose_scope()
        name = ask_rater()
        is_run = kind == "run_item"
        left, right = st.columns(2)
        paired = left.toggle("Pairs", key="pairs", bind="query-params", disabled=not is_run)
        controls = right.toggle("Controls, too", key="controls", disabled=not is_run)
    if is_run:
        subjects = list_run(jobs().store, scope, controls)
    else:
        subjects = list_dataset(jobs(), scope, kind)
    contents = [(subject.sha256, subject.original is not None) for subject in subjects]
    key = (kind, scope, name, paired and is_run, contents)
    if st.session_state.get("rating_key") != key:  # one session while the page is open
        session = Session(jobs().store, name, subjects, paired=paired and is_run)
        st.session_state["rating"] = session
        st.session_state["rating_key"] = key
    if not st.session_state["rating"].total:
        st.info("Nothing to rate here. Controls are hidden unless you ask for them.")
        return
    rate(st.session_state["rating"], scope)
