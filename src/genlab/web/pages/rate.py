"""Blind rating: one image after another, stars by key or click; or pairs."""

from contextlib import suppress
from html import escape

import streamlit as st
from PIL import Image, ImageDraw

from genlab.benchmark.cases import Case
from genlab.benchmark.judge import QUESTION, STARS
from genlab.benchmark.service.jobs import jobs
from genlab.core.errors import GenlabError
from genlab.web.components import grid, look
from genlab.web.components.escape import label, text
from genlab.web.components.frame import ask_rater, params, remember, remembered, sentences
from genlab.web.components.rating_session import KINDS, Kind, Session, list_dataset, list_run

SIDES = {1: "Left", 2: "Right"}
KEYS = "Keys: 1 to 5 give stars, S skips, U undoes, T shows the template in the image's place."
PAIR_KEYS = "Keys: 1 left, 2 right, S skips, U goes back."


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
    template = _case.open_template()
    gap = round(template.width * 0.03)
    side = min(round(template.width * 0.22), (template.width - gap) // len(_case.swaps) - gap)
    top = template.height + gap
    sheet = Image.new("RGB", (template.width, top + side + gap), "white")
    sheet.paste(template, (0, 0))
    pen = ImageDraw.Draw(sheet)
    stroke = max(2, template.width // 200)
    for number, swap in enumerate(sorted(_case.swaps, key=lambda swap: swap.region.left)):
        face_left, _, face_right, bottom = swap.region.box
        left = gap + number * (side + gap)
        avatar = _case.open_avatar(swap.avatar).resize((side, side), Image.Resampling.LANCZOS)
        sheet.paste(avatar, (left, top))
        for box in (swap.region.box, (left, top, left + side, top + side)):
            pen.rectangle(box, outline=look.OUTLINE, width=stroke)
        ends = (face_left + face_right) / 2, bottom, left + side / 2, top
        pen.line(ends, fill=look.OUTLINE, width=stroke)
    sheet.thumbnail((640, 1280), Image.Resampling.LANCZOS)
    return look.data_url(sheet, "jpeg")


def figure(url: str, caption: str, target: str = "", kind: str = "") -> str:
    """An image that opens `target`, or itself, on a click, in the largest size."""
    shown, target = grid.picture(url, caption), target or url
    if not target.startswith("data:"):  # a browser opens no such address
        large = escape(target.replace("width=640", "width=1280"))
        shown = f'<a href="{large}" target="_blank" rel="noopener">{shown}</a>'
    return f'<figure class="{kind}"><figcaption>{text(caption)}</figcaption>{shown}</figure>'


def show(way: Session) -> str:
    """The template with who is replaced by whom, the images to rate, and the next ones, unseen."""
    subject, *_ = task = way.current
    kind = "" if subject.kind == "run_item" else " b-pixels"
    shown = ""
    if isinstance(subject.case, Case):
        with suppress(GenlabError, OSError):  # it may have been deleted meanwhile
            connected = connect(subject.case, subject.case.digest)
            shown = figure(connected, "who is replaced by whom", subject.template)
    elif subject.case:
        shown = f"<figure><figcaption>{text(subject.case, 160)}</figcaption></figure>"
    elif subject.template:
        shown = figure(subject.template, "original", kind=kind)
    main = f"b-main{kind}"
    if way.paired:
        for one, side in zip(task, SIDES.values(), strict=True):
            shown += figure(one.url, side, kind=main)
    elif shown and subject.template and st.session_state.get("flipped") == subject.sha256:
        shown += figure(subject.template, "the template", kind=main)
    else:
        shown += figure(subject.url, "How good is this?" if kind else QUESTION, kind=main)
    urls = (url for one in way.ahead for url in (one.url, one.template) if url.startswith("/"))
    ahead = "".join(grid.picture(url, "") for url in dict.fromkeys(urls))
    return f'<div class="b-look">{shown}<div class="b-ahead" aria-hidden="true">{ahead}</div></div>'


@st.fragment
def rate(way: Session) -> None:
    """One image and its stars, or two and which is better."""
    progress, board = st.empty(), st.empty()
    task = way.current
    answer, undo = sentences()(way.answer), sentences()(way.undo)

    def flip() -> None:  # to the template in this image's place, or back
        flipped = st.session_state.get("flipped") == task[0].sha256
        st.session_state["flipped"] = "" if flipped else task[0].sha256

    with st.container(horizontal=True, gap="small"):
        for value in SIDES if way.paired else STARS:
            st.button(
                f"{SIDES[value]} is better" if way.paired else "★" * value,
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
            off = not task or not task[0].template
            st.button("Template", key="flip", shortcut="t", on_click=flip, disabled=off)
    share = way.done / way.total if way.total else 1.0
    unit = "pairs" if way.paired else "rated"
    progress.progress(share, text=f"{way.done} of {way.total} {unit}")
    if not task:
        ended = way.done == way.total
        board.success("All done. Thank you." if ended else "The end; some were skipped.")
        return
    board.html(show(way))
    st.caption(PAIR_KEYS if way.paired else KEYS)
    if task[0].kind == "run_item" and not way.paired:
        st.caption("; ".join(f"{number}: {meaning}" for number, meaning in STARS.items()) + ".")


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
    subjects = list_run(jobs(), of, controls) if swapped else list_dataset(jobs(), of, kind)
    contents = [(subject.sha256, bool(subject.template)) for subject in subjects]
    key = (kind, of, name, paired and swapped, contents)
    if st.session_state.get("rating_key") != key:  # kept while the page is open
        way = Session(jobs().store, name, subjects, paired=paired and swapped)
        st.session_state["rating"], st.session_state["rating_key"] = way, key
    if not st.session_state["rating"].total:
        st.info("Nothing to rate here. Controls are hidden unless you ask for them.")
        return
    rate(st.session_state["rating"])
