"""Blind rating: one picture after another, stars by key or click; or pairs."""

import streamlit as st

from genlab.core.errors import GenlabError
from genlab.core.params import load_params
from genlab.web import sheet
from genlab.web.frame import keep, remember, remembered, title
from genlab.web.live import live
from genlab.web.rating import KINDS, Pairs, Session, Subject, of_dataset, of_run

LIVE = live()
KEYS = "Keys: 1 to 5 give stars, S skips, U takes the last answer back."
STARS = {1: "useless", 2: "poor", 3: "fair", 4: "good", 5: "flawless"}
PAIR_KEYS = "Keys: 1 left, 2 right, S skips, U goes back."


def scope() -> tuple[str, str] | None:
    """What is to be rated: (kind, run or dataset)."""
    kinds = list(KINDS)
    wanted = remembered("kind", kinds[0])
    left, right = st.columns(2)
    kind = left.selectbox(
        "What",
        kinds,
        index=kinds.index(wanted) if wanted in kinds else 0,
        format_func=lambda one: KINDS[one],
    )
    if kind == "run_item":
        choices = [run.run_id for run in LIVE.store.runs()]
        if not choices:
            st.info("No run yet. Begin one on the page Benchmark, or with: `genlab-benchmark run`")
            return None
    else:
        choices = list(load_params(LIVE.root / "params.yaml").datasets)
    # The run that the page Benchmark shows is the one that is meant, and the other way round.
    last = remembered("run" if kind == "run_item" else "of", choices[0])
    of = st.query_params.get("of", last)
    chosen = right.selectbox(
        "Of", choices, index=choices.index(of) if of in choices else 0, key=f"of-{kind}"
    )
    remember(kind=kind, of=chosen)
    if kind == "run_item":
        keep(run=chosen)
    return kind, chosen


def subjects(kind: str, of: str) -> list[Subject]:
    """All there is to rate."""
    return of_run(LIVE, of) if kind == "run_item" else of_dataset(LIVE, of, kind)


def session(kind: str, of: str, name: str, paired: bool) -> Session | Pairs:
    """This person's way through it, kept while the page is open."""
    key = (kind, of, name, paired)
    if st.session_state.get("rating_key") != key:
        make = Pairs if paired else Session
        st.session_state["rating"] = make(LIVE.store, name, subjects(kind, of))
        st.session_state["rating_key"] = key
    return st.session_state["rating"]


def figure(subject: Subject, title: str) -> str:
    """A picture to judge; the largest of those shown."""
    kind = "b-large b-pixels" if subject.pixels else "b-large"
    shown = sheet.picture(subject.url, title, kind=kind)
    return f'<figure class="b-main"><figcaption>{sheet.text(title)}</figcaption>{shown}</figure>'


def beside(subject: Subject) -> str:
    """What it is to be held against."""
    kind = "b-large b-pixels" if subject.pixels else "b-large"
    return "".join(
        f"<figure><figcaption>{sheet.text(one.label)}</figcaption>"
        f"{sheet.picture(one.url, one.label, kind=kind)}</figure>"
        for one in subject.beside
    )


def fetched_ahead(subjects: list[Subject]) -> str:
    """The next pictures, out of sight, so that the browser has them before they are asked for."""
    urls = [url for one in subjects for url in (one.url, *(part.url for part in one.beside))]
    shown = "".join(sheet.picture(url, "") for url in dict.fromkeys(urls))
    return f'<div class="b-ahead" aria-hidden="true">{shown}</div>'


@st.fragment
def rate(way: Session) -> None:
    """One picture, and its stars."""
    progress = st.empty()
    board = st.empty()
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.html(sheet.note("1 is useless, 5 is flawless:"), width="content")
        for number in range(1, 6):
            st.button(
                "★" * number,
                key=f"star-{number}",
                shortcut=str(number),
                help=STARS[number],
                on_click=way.rate,
                args=(number,),
                disabled=way.current is None,
            )
        st.button("Skip", key="skip", shortcut="s", on_click=way.skip, disabled=not way.current)
        st.button("Undo", key="undo", shortcut="u", on_click=way.undo, disabled=way.place == 0)
    total = len(way.subjects)
    progress.progress(way.done / total if total else 1.0, text=f"{way.done} of {total} rated")
    subject = way.current
    if subject is None:
        board.success(
            "All done. Thank you." if way.done == total else "The end; some were skipped."
        )
        return
    shown = beside(subject) + figure(subject, "How good is this?")
    board.html(f'<div class="b-look">{shown}{fetched_ahead(way.ahead)}</div>')
    st.html(sheet.note(KEYS))


@st.fragment
def pairs(way: Pairs) -> None:
    """Two pictures of one case."""
    progress = st.empty()
    board = st.empty()
    over = way.current is None
    with st.container(horizontal=True, gap="small"):
        for words, side, key in (
            ("Left is better", "left", "1"),
            ("Right is better", "right", "2"),
        ):
            st.button(
                words,
                key=side,
                shortcut=key,
                on_click=way.prefer,
                args=(side,),
                disabled=over,
            )
        st.button("Skip", key="skip-pair", shortcut="s", on_click=way.skip, disabled=over)
        st.button("Undo", key="undo-pair", shortcut="u", on_click=way.undo, disabled=not way.place)
    progress.progress(
        way.done / way.total if way.total else 1.0, text=f"{way.done} of {way.total} pairs"
    )
    pair = way.current
    if pair is None:
        board.success("No pair is left.")
        return
    left, right = pair
    shown = figure(left, "Left") + figure(right, "Right")
    board.html(
        f'<div class="b-look">{shown}</div><div class="b-look">{beside(left)}</div>'
        f"{fetched_ahead(way.ahead)}"
    )
    st.html(sheet.note(PAIR_KEYS))


def who() -> str:
    """The rater's name."""
    return st.text_input(
        "Your name (saved with your ratings)",
        value=remembered("rater"),
        max_chars=80,
        key="rater",
        placeholder="any name",
        width=280,
    ).strip()


def main() -> None:
    """Who rates what, then one picture after another."""
    known = remembered("rater")
    # Once that is settled it steps back: the pictures are what the page is for.
    words = f"{sheet.label(known, 30)} rates" if known else "Who rates what"
    with st.expander(words, expanded=not known):
        asked = scope()
        if asked is None:
            return
        name = who()
        paired = st.toggle(
            "Pairs: which of two is better?",
            key="pairs",
            bind="query-params",
            disabled=asked[0] != "run_item",
        )
    if not name:
        st.info("Say who rates: a name, so that you can go on where you stopped.")
        return
    remember(rater=name)
    way = session(*asked, name, paired and asked[0] == "run_item")
    if not way.subjects:
        st.info("This run has no picture yet.")
        return
    (pairs if isinstance(way, Pairs) else rate)(way)


st.html(sheet.STYLE)
title("Rate", "Blind and in random order: say how good each picture is.")
try:
    main()
except GenlabError as fault:
    st.error(sheet.label(fault, 500))
