"""Blind rating: one image after another, stars by key or click; or pairs."""

from __future__ import annotations

import secrets
from html import escape

import streamlit as st

from genlab.benchmark.rubric import QUESTION, STARS
from genlab.core.errors import GenlabError
from genlab.core.params import load_params
from genlab.web.components import grid
from genlab.web.components.frame import keep, remember, remembered, title
from genlab.web.components.rating_session import (
    KINDS,
    LARGE,
    Kind,
    Pairs,
    Session,
    Subject,
    list_dataset,
    list_run,
)
from genlab.web.jobs import jobs

JOBS = jobs()
KEYS = "Keys: 1 to 5 give stars, S skips, U undoes, T shows the template in the image's place."
PAIR_KEYS = "Keys: 1 left, 2 right, S skips, U goes back."


def choose_scope() -> tuple[Kind, str] | None:
    """What is to be rated: (kind, run or dataset)."""
    kinds = list(KINDS)
    wanted = remembered("kind", kinds[0])
    left, right = st.columns(2)
    kind = left.selectbox(
        "What",
        kinds,
        index=next((n for n, one in enumerate(kinds) if one == wanted), 0),
        format_func=lambda one: KINDS[one],
    )
    if kind == "run_item":
        choices = [run.run_id for run in JOBS.store.runs()]
        if not choices:
            st.info("No run yet. Start one on the page Benchmark, or with: `genlab benchmark run`")
            return None
    else:
        choices = list(load_params(JOBS.root / "params.yaml").datasets)
    last = remembered("run" if kind == "run_item" else "of", choices[0])
    known = st.query_params.get("of", last)
    index = choices.index(known) if known in choices else 0
    chosen = right.selectbox("Of", choices, index=index, key=f"of-{kind}")
    remember(kind=kind, of=chosen)
    if kind == "run_item":  # the run that the page Benchmark shows next
        keep(run=chosen)
    return kind, chosen


def session(kind: Kind, of: str, name: str, paired: bool, controls: bool) -> Session | Pairs:
    """This person's way through it, kept while the page is open."""
    key = (kind, of, name, paired, controls)
    if st.session_state.get("rating_key") != key:
        if kind == "run_item":
            subjects = list_run(JOBS, of, controls=controls)
        else:
            subjects = list_dataset(JOBS, of, kind)
        make = Pairs if paired else Session
        st.session_state["rating"] = make(JOBS.store, name, subjects)
        st.session_state["rating_key"] = key
    found: Session | Pairs = st.session_state["rating"]
    return found


def figure(url: str, caption: str, subject: Subject, *, main: bool = False) -> str:
    """An image that opens in full on a click."""
    kind = "b-large b-pixels" if subject.pixels else "b-large"
    return enlarge(url, url, caption, kind, "b-main" if main else "")


def enlarge(url: str, target: str, caption: str, kind: str, place: str = "") -> str:
    """An image that opens `target` on a click, in the largest size."""
    shown = grid.picture(url, caption, kind=kind)
    if target and not target.startswith("data:"):  # a browser opens no such address
        large = escape(target.replace(f"width={LARGE}", "width=1280"))
        shown = f'<a href="{large}" target="_blank" rel="noopener">{shown}</a>'
    caption = grid.text(caption)
    return f'<figure class="{place}"><figcaption>{caption}</figcaption>{shown}</figure>'


def template_figure(subject: Subject) -> str:
    """The template with the persons to replace connected to who replaces them; or the original."""
    if subject.swaps:
        caption, kind = "who is replaced by whom", "b-large b-swaps"
        return enlarge(subject.swaps, subject.template, caption, kind)
    return figure(subject.template, "original", subject) if subject.template else ""


def preload(subjects: list[Subject]) -> str:
    """The next images, out of sight, so that the browser has them before they are asked for."""
    urls = dict.fromkeys(url for subject in subjects for url in subject.urls)
    shown = "".join(grid.picture(url, "") for url in urls)
    return f'<div class="b-ahead" aria-hidden="true">{shown}</div>'


def flip(subject: Subject) -> None:
    """Show the template in this image's place, or the image again."""
    flipped = st.session_state.get("flipped") == subject.sha256
    st.session_state["flipped"] = "" if flipped else subject.sha256


@st.fragment
def rate(way: Session) -> None:
    """One image, and its stars."""
    progress, board = st.empty(), st.empty()
    subject = way.current
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for number, meaning in STARS.items():
            st.button(
                "★" * number,
                key=f"star-{number}",
                shortcut=str(number),
                help=meaning,
                on_click=way.rate,
                args=(number,),
                disabled=subject is None,
            )
        st.button("Skip", key="skip", shortcut="s", on_click=way.skip, disabled=not subject)
        st.button("Undo", key="undo", shortcut="u", on_click=way.undo, disabled=not way.position)
        has_template = bool(subject and subject.template)
        st.button(
            "Template",
            key="flip",
            shortcut="t",
            on_click=flip,
            args=(subject,),
            disabled=not has_template,
        )
    total = len(way.subjects)
    progress.progress(way.done / total if total else 1.0, text=f"{way.done} of {total} rated")
    if subject is None:
        ended = way.done == total
        board.success("All done. Thank you." if ended else "The end; some were skipped.")
        return
    flipped = st.session_state.get("flipped") == subject.sha256
    url = subject.template if flipped else subject.url
    caption = "the template" if flipped else QUESTION
    if subject.pixels and not flipped:
        caption = "How good is this?"
    shown = template_figure(subject) + figure(url, caption, subject, main=True)
    board.html(f'<div class="b-look">{shown}{preload(way.ahead)}</div>')
    st.html(grid.note(KEYS))
    if not subject.pixels:
        lines = [f"{number}: {meaning}" for number, meaning in STARS.items()]
        st.html(grid.note("; ".join(lines) + "."))


@st.fragment
def compare(way: Pairs) -> None:
    """Two images of one case."""
    progress, board = st.empty(), st.empty()
    over = way.current is None
    with st.container(horizontal=True, gap="small"):
        for side, key in (("left", "1"), ("right", "2")):
            st.button(
                f"{side.capitalize()} is better",
                key=side,
                shortcut=key,
                on_click=way.prefer,
                args=(side,),
                disabled=over,
            )
        st.button("Skip", key="skip-pair", shortcut="s", on_click=way.skip, disabled=over)
        st.button(
            "Undo", key="undo-pair", shortcut="u", on_click=way.undo, disabled=not way.position
        )
    share = way.done / way.total if way.total else 1.0
    progress.progress(share, text=f"{way.done} of {way.total} pairs")
    pair = way.current
    if pair is None:
        board.success("No pair is left.")
        return
    left, right = pair
    shown = figure(left.url, "Left", left, main=True) + figure(right.url, "Right", right, main=True)
    board.html(
        f'<div class="b-look">{shown}</div><div class="b-look">{template_figure(left)}</div>'
        f"{preload(way.ahead)}"
    )
    st.html(grid.note(PAIR_KEYS))


def ask_name() -> str:
    """The rater's name; a guest's where none is given."""
    guest = st.session_state.setdefault("guest", f"guest-{secrets.token_hex(4)}")
    name = st.text_input(
        "Your name (saved with your ratings)",
        value=remembered("rater"),
        max_chars=80,
        key="rater",
        placeholder=guest,
        width=280,
    )
    return str(name).strip() or str(guest)


def main() -> None:
    """Who rates what, then one image after another."""
    st.html(grid.STYLE)
    title("Rate", "Blind: the tools are hidden until you are done.")
    known = remembered("rater")
    with st.expander(
        f"{grid.label(known, 30)} rates" if known else "Who rates what", expanded=not known
    ):
        scope = choose_scope()
        if scope is None:
            return
        name = ask_name()
        swapped = scope[0] == "run_item"
        left, right = st.columns(2)
        paired = left.toggle("Pairs", key="pairs", bind="query-params", disabled=not swapped)
        controls = right.toggle("Controls, too", key="controls", disabled=not swapped)
    if not name.startswith("guest-"):
        remember(rater=name)
    way = session(*scope, name, paired and swapped, controls)
    if not way.subjects:
        st.info("This run has no image to rate; controls are hidden unless you ask for them.")
        return
    if isinstance(way, Pairs):
        compare(way)
    else:
        rate(way)


try:
    main()
except GenlabError as fault:
    st.error(grid.label(fault, 500))
