"""The person-swap benchmark: choose cases and tools, run, follow, rate, compare, report."""

import streamlit as st

from genlab.benchmark.plugins import why_absent
from genlab.benchmark.store.repository import Run
from genlab.core.errors import GenlabError
from genlab.web import charts, sheet
from genlab.web.divider import show_divider
from genlab.web.frame import chart, remember, remembered, title
from genlab.web.live import live
from genlab.web.swaps import Board, Cell, read_board

LIVE = live()
EVERY = 0.3  # seconds between looks at a run under way
CASES_A_PAGE = 12
SIGNS = {"running": "▶", "finished": "✓", "cancelled": "■", "interrupted": "!"}


def begin() -> None:
    """Choose cases and tools, and run."""
    try:
        cases, tools = LIVE.cases(), list(LIVE.tools().values())
        preset = LIVE.params.tools
    except GenlabError as error:
        st.info(sheet.label(error, 500))
        return
    st.subheader("Cases")
    everything = st.toggle("All cases", value=True, key="all_cases")
    chosen = []
    with st.container(horizontal=True, gap="small"):
        for case in cases:
            with st.container(width=160, gap="small", key=f"b-choice-{case.case_id}"):
                base = f"/api/test-cases/{case.case_id}"
                avatars = {name: f"{base}/{name}" for name in case.avatars}
                shown = sheet.CaseShown(case.case_id, case.title, f"{base}/template", avatars)
                st.html(sheet.case_cell(shown))
                ticked = st.checkbox(
                    sheet.label(case.case_id, 40),
                    value=case.consent,
                    key=f"case-{case.case_id}",
                    disabled=everything or not case.consent,
                    help=None if case.consent else "No consent: see consent in its case.yaml.",
                )
                if case.consent and (everything or ticked):
                    chosen.append(case)
    st.subheader("Tools")
    picked = []
    for tool in tools:
        reason = why_absent(tool)
        cost = f", about ${tool.needs.cost:.2f} a picture" if tool.needs.cost else ""
        sends = ", sends photographs to a service" if tool.needs.network else ""
        ticked = st.checkbox(
            sheet.label(f"{sheet.line(tool.title, 60)}{cost}{sends}", 200),
            value=not reason and tool.tool_id in preset,
            key=f"tool-{tool.tool_id}",
            disabled=bool(reason),
        )
        if reason:
            st.html(f'<div class="b-why">Not available: {sheet.text(reason, 300)}</div>')
        if ticked and not reason:
            picked.append(tool)
    launch(chosen, picked)


def launch(cases: list, tools: list) -> None:
    """The button, with what it will take."""
    count = len(cases) * len(tools)
    estimate = len(cases) * sum(tool.needs.cost for tool in tools)
    ceiling = 0.0
    if estimate:
        ceiling = st.number_input(
            "Dollars it may take at most",
            0.0,
            10_000.0,
            0.0,
            help=f"About ${estimate:.2f} are needed. With 0, tools that cost are skipped.",
        )
    words = f"Run {count} picture{'s' * (count != 1)}" if count else "Run"
    if st.button(words, type="primary", disabled=not count, key="run"):
        try:
            remember(run=LIVE.start(cases, tools, max_cost=ceiling))
        except GenlabError as error:
            st.error(sheet.label(error, 500))
            return
        st.rerun()
    if not count:
        st.html(sheet.note("Tick a case and a tool."))


def runs() -> None:
    """All runs, the newest first."""
    known = LIVE.store.runs()
    if not known:
        st.info("No run yet. Begin one above, or with: `genlab-benchmark run`")
    for run in known[:50]:
        status, _ = LIVE.status(run)
        words = f"{SIGNS[status]} {run.run_id}: {len(run.cases)} cases, {len(run.tools)} tools"
        if st.button(sheet.label(f"{words}, {status}"), key=f"open-{run.run_id}", type="tertiary"):
            remember(run=run.run_id)
            st.rerun()


def show(run_id: str) -> None:
    """A run: where it stands, and what came of it."""
    board = read_board(LIVE, run_id)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(f"{SIGNS[board.status]} Run {sheet.label(run_id)}", width="content")
        st.button("New run", key="new", on_click=leave)
        if board.running:
            if st.button("Cancel", key="cancel"):
                LIVE.cancel(run_id)
        else:
            st.download_button(
                "Export report",
                data=lambda: report_of(run_id),
                file_name=f"report_{run_id}.html",
                mime="text/html",
                key="export",
                type="primary",
            )
    if board.reason:
        st.warning(sheet.label(board.reason, 400))
    if board.running:
        st.fragment(follow, run_every=EVERY)(run_id)
        return
    views = {"Grid": grid, "Compare": compare, "Leaderboard": leaders, "People": people}
    views[choose_view(list(views), "view")](board)


def choose_view(views: list[str], key: str) -> str:
    """What is shown, as the address says."""
    return st.segmented_control(
        "View",
        views,
        default=views[0],
        required=True,
        key=key,
        bind="query-params",
        label_visibility="collapsed",
    )


def leave() -> None:
    """From a run to all of them."""
    remember(run="")


def follow(run_id: str) -> None:
    """The run under way, again every moment; at its end the whole page once more."""
    board = read_board(LIVE, run_id)
    counts = ", ".join(f"{count} {status}" for status, count in board.counts.items())
    st.progress(board.done, text=counts or "waits for its turn")
    # What moves comes first: a long run has more rows than a screen.
    order = {case.case_id: settled(board.of_case(case.case_id)) for case in board.cases}
    shown = sorted(board.cases, key=lambda case: order[case.case_id])[:CASES_A_PAGE]
    for case in shown:
        st.html(sheet.case_row(case, board.of_case(case.case_id), board.tools))
    if len(board.cases) > CASES_A_PAGE:
        st.html(sheet.note(f"{CASES_A_PAGE} of {len(board.cases)} cases are shown while it runs."))
    if not board.running:
        st.rerun()


def settled(cells: list[Cell]) -> bool:
    """Whether nothing in a row may still change."""
    return all(cell.status in ("scored", "failed", "skipped") for cell in cells)


def report_of(run_id: str) -> str:
    """The report as one HTML file."""
    from genlab.benchmark.report import page

    return page(LIVE.store, run_id)


def rater() -> str:
    """Whose stars they are."""
    name = st.text_input(
        "Your name (saved with your ratings)",
        value=remembered("rater", "anonymous"),
        max_chars=80,
        key="rater",
        width=280,
    )
    remember(rater=name)
    return name.strip() or "anonymous"


def grid(board: Board) -> None:
    """Cases by tools: pictures, badges, and stars to give."""
    name = rater()
    mine = {}
    try:
        ratings = LIVE.store.ratings("run_item", rater=name)
        mine = {rating.subject_hash: rating.stars for rating in ratings}
    except GenlabError as error:
        st.error(sheet.label(error, 300))
    digests = {item.item_id: item.image_sha256 for item in LIVE.store.items(board.run.run_id)}
    pages = -(-len(board.cases) // CASES_A_PAGE)
    page = st.number_input("Page", 1, pages, key="page", bind="query-params") if pages > 1 else 1
    for case in board.cases[(page - 1) * CASES_A_PAGE : page * CASES_A_PAGE]:
        cells = board.of_case(case.case_id)
        st.html(sheet.case_head(case))
        with st.container(horizontal=True, key=f"b-row-{1 + len(cells)}-{case.case_id}"):
            with st.container():
                st.html(sheet.case_cell(case, "template"))
            for cell in cells:
                with st.container(gap="small"):
                    st.html(sheet.cell(cell, board.tools.get(cell.tool_id, "")))
                    if cell.picture:
                        stars(cell, name, digests[cell.item_id], mine)


def stars(cell: Cell, name: str, digest: str, mine: dict[str, int]) -> None:
    """Stars of one picture, as this person gave them."""
    key = f"stars-{cell.item_id}-{name}"

    def keep() -> None:
        given = st.session_state[key]
        number = None if given is None else given + 1
        try:
            LIVE.store.rate("run_item", digest, name, number, run_item_id=cell.item_id, blind=False)
        except GenlabError as error:
            st.session_state["fault"] = str(error)

    known = mine.get(digest)
    st.feedback("stars", key=key, default=None if known is None else known - 1, on_change=keep)


def compare(board: Board) -> None:
    """Two pictures of a case with a divider between them."""
    cases = {case.case_id: case for case in board.cases if len(board.pictured(case.case_id)) > 1}
    if not cases:
        st.info("It takes a case with two pictures; run it with two tools.")
        return
    case_id = st.selectbox("Case", list(cases), key="case", bind="query-params")
    case = cases[case_id]
    cells = {cell.tool_id: cell for cell in board.pictured(case_id)}
    places = st.columns(2)
    one, other = (
        place.selectbox(side, list(cells), index, key=side.lower(), bind="query-params")
        for index, (place, side) in enumerate(zip(places, ("Left", "Right"), strict=True))
    )
    width = "?width=1280"
    st.html(sheet.case_head(case))
    show_divider(
        (cells[one].picture + width, one),
        (cells[other].picture + width, other),
        case.template and case.template + width,
        key="divider",
    )


@st.cache_data(max_entries=32, show_spinner="Resampling…")
def standings(state: tuple) -> tuple:
    """Leaderboard and people's word; `state` says on what they rest."""
    from genlab.benchmark.leaderboard import leaderboard
    from genlab.benchmark.leaderboard import people as found

    return (
        leaderboard(LIVE.store, run_id=state[0]),
        found(LIVE.store, run_id=state[0]),
    )


def leaders(board: Board) -> None:
    """The leaderboard of this run."""
    ranking(board.run.run_id, board.tools)


def ranking(run_id: str | None, titles: dict[str, str]) -> None:
    """The leaderboard of a run, or of all."""
    from genlab.web.standings import state_of, table

    found, _ = standings(state_of(LIVE.store, run_id))
    if not found:
        st.info("Nothing has been scored yet. Run some cases, or: `genlab-benchmark run`")
        return
    st.html(table(found, titles))
    st.html(
        sheet.note(
            "Tools share a rank where the cases can't tell them apart. A failure is no score and"
            " never counts as 0. Intervals: bootstrap over cases."
        )
    )


def people(board: Board) -> None:
    """Machine against people."""
    from genlab.web.standings import points, sentences, state_of

    _, found = standings(state_of(LIVE.store, board.run.run_id))
    for said in sentences(found):
        st.markdown("- " + sheet.label(said, 300))
    pairs = points(LIVE.store, board.run.run_id)
    if not pairs:
        st.info("Nobody has rated a scored picture of this run yet. The page Rate asks for it.")
        return
    chart(charts.points(pairs), f"{len(pairs)} pictures, people's stars by the machine's score")


def all_titles(known: list[Run]) -> dict[str, str]:
    """Titles of all tools that were ever run."""
    return {tool["tool_id"]: str(tool.get("title", "")) for run in known for tool in run.tools}


def overview() -> None:
    """What is shown while no run is chosen."""
    views = ["New run", "Runs", "Leaderboard"]
    view = choose_view(views, "list")
    if view == "Runs":
        runs()
    elif view == "Leaderboard":
        ranking(None, all_titles(LIVE.store.runs()))
    else:
        begin()


st.html(sheet.STYLE)
title("Benchmark", "Cases of people through image tools: run, follow, score, compare, report.")
try:
    if wanted_run := remembered("run"):
        remember(run=wanted_run)
        show(wanted_run)
    else:
        overview()
except GenlabError as fault:
    st.error(sheet.label(fault, 500))
    st.button("Back", on_click=leave)
if said := st.session_state.pop("fault", None):
    st.error(sheet.label(said, 300))
