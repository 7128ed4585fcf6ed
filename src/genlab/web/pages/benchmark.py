"""The person-swap benchmark: choose cases and tools, run, follow, compare, report."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from genlab.benchmark.cases import Case, split_by_consent
from genlab.benchmark.leaderboard.standings import leaderboard, people, rated_images
from genlab.benchmark.leaderboard.table import columns, findings, notes, sentence
from genlab.benchmark.plugins.base import ImageTool, why_absent
from genlab.benchmark.plugins.contender import make_contenders
from genlab.benchmark.store.schema import FINISHED, STATUSES, Item, Run
from genlab.core.errors import GenlabError
from genlab.web.components import grid
from genlab.web.components.frame import remember, remembered, title
from genlab.web.components.slider import show_slider
from genlab.web.jobs import jobs

JOBS = jobs()
EVERY = 0.5  # seconds between two looks at a run under way
CASES_PER_PAGE = 12
SIGNS = {"running": "▶", "finished": "✓", "cancelled": "■", "interrupted": "!"}


def choose_run() -> None:
    """Choose cases, tools and options, and start a run."""
    cases, tools = JOBS.cases(), list(JOBS.tools().values())
    params = JOBS.params
    st.html(grid.gallery(cases))
    runnable, skipped = split_by_consent(cases)
    titles = {case.case_id: case.title for case in runnable}
    chosen = st.multiselect(
        "Cases",
        list(titles),
        default=list(titles),
        format_func=lambda name: grid.line(titles[name], 80),
        key="cases",
    )
    for line in skipped:
        st.html(grid.note(line))
    picked = [tool for tool in tools if choose_tool(tool, tool.tool_id in params.tools)]
    options = {tool.tool_id: choose_options(tool) for tool in picked}
    left, right = st.columns(2)
    repeats = left.number_input("Images per case and tool", 1, 100, params.repeats, key="repeats")
    ceiling = right.number_input(
        "Ceiling in dollars", 0.0, 10_000.0, params.max_cost, key="max_cost",
        help="Images that would cost more are skipped.",
    )  # fmt: skip
    wanted = [case for case in runnable if case.case_id in chosen]
    launch(wanted, picked, options, int(repeats), ceiling)


def choose_tool(tool: ImageTool, preset: bool) -> bool:
    """Whether a tool takes part."""
    reason = why_absent(tool)
    cost = f", about ${tool.needs.cost:.2f} per image" if tool.needs.cost else ""
    sends = ", sends photographs to a service" if tool.needs.network else ""
    ticked = st.checkbox(
        grid.label(f"{grid.line(tool.title, 60)}{cost}{sends}", 200),
        value=preset and not reason,
        key=f"tool-{tool.tool_id}",
        disabled=bool(reason),
    )
    if reason:
        st.html(f'<div class="b-why">Not available: {grid.text(reason, 300)}</div>')
    return ticked and not reason


def choose_options(tool: ImageTool) -> dict[str, Any]:
    """The options of a tool; several values, separated by commas, make several contenders."""
    known = tool.needs.options or {}
    if not known:
        return {}
    options: dict[str, Any] = {}
    with st.expander(grid.label(f"Options of {tool.tool_id}")):
        for name, option in known.items():
            help_text = f"{option.help}. Separate several values by commas."
            value = st.text_input(name, key=f"option-{tool.tool_id}-{name}", help=help_text)
            values = [part.strip() for part in value.split(",") if part.strip()]
            if values:
                options[name] = values
    return options


def launch(
    cases: list[Case],
    tools: list[ImageTool],
    options: dict[str, dict[str, Any]],
    repeats: int,
    ceiling: float,
) -> None:
    """The button, with the number of images and their estimated cost."""
    try:
        contenders = make_contenders(tools, options)
    except GenlabError as error:
        st.error(grid.label(error, 500))
        return
    costs = {tool.tool_id: tool.needs.cost for tool in tools}
    count = len(cases) * len(contenders) * repeats
    estimate = len(cases) * repeats * sum(costs[each.tool_id] for each in contenders)
    words = f"Run {count} image{'s' * (count != 1)}" if count else "Run"
    words += f", about ${estimate:.2f}" if estimate else ""
    if st.button(grid.label(words), type="primary", disabled=not count, key="run"):
        try:
            remember(run=JOBS.start(cases, contenders, repeats=repeats, max_cost=ceiling))
        except GenlabError as error:
            st.error(grid.label(error, 500))
            return
        st.rerun()
    if not count:
        st.html(grid.note("Choose a case and a tool."))


def list_runs() -> None:
    """All runs, the newest first."""
    known = JOBS.store.runs()
    if not known:
        st.info("No run yet. Start one here, or with: `genlab benchmark run`")
    for run in known[:50]:
        status, _ = JOBS.status(run)
        words = f"{SIGNS[status]} {run.run_id}: {len(run.cases)} cases, {len(run.tools)} contenders"
        if st.button(grid.label(f"{words}, {status}"), key=f"open-{run.run_id}", type="tertiary"):
            remember(run=run.run_id)
            st.rerun()


def show_run(run: Run) -> None:
    """A run: its state, or its results."""
    status, reason = JOBS.status(run)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(f"{SIGNS[status]} Run {grid.label(run.run_id)}", width="content")
        st.button("New run", key="new", on_click=leave)
        if status == "running":
            st.button("Cancel", key="cancel", on_click=cancel, args=(run.run_id,))
        else:
            items = JOBS.store.items(run.run_id)
            unfinished = any(item.status != "scored" for item in items)
            if unfinished and st.button("Resume", key="resume", help="Failed items, too."):
                JOBS.resume(run.run_id, again=True)
                st.rerun()
            st.download_button(
                "Export report",
                data=lambda: render_report(run.run_id),
                file_name=f"report_{run.run_id}.html",
                mime="text/html",
                key="export",
                type="primary",
            )
    if reason:
        st.warning(grid.label(reason, 400))
    if status == "running":
        st.fragment(follow, run_every=EVERY)(run)
        return
    views = {"Grid": show_grid, "Compare": compare, "Leaderboard": show_ranking, "People": agree}
    views[choose_view(list(views), "view")](run)


def choose_view(views: list[str], key: str) -> str:
    """The view that the address names."""
    chosen = st.segmented_control(
        "View", views, default=views[0], required=True, key=key, bind="query-params",
        label_visibility="collapsed",
    )  # fmt: skip
    return str(chosen)


def leave() -> None:
    """From a run to all of them."""
    remember(run="")


def cancel(run_id: str) -> None:
    """End a run."""
    JOBS.cancel(run_id)


def follow(run: Run) -> None:
    """The run under way, again every moment; at its end the whole page once more."""
    items = JOBS.store.items(run.run_id)
    ended = sum(item.status in FINISHED for item in items)
    counts = {each: sum(item.status == each for item in items) for each in STATUSES}
    words = ", ".join(f"{count} {each}" for each, count in counts.items() if count)
    st.progress(ended / max(len(items), 1), text=words or "waiting")
    labels = grid.labels_of(run.contenders)
    by_case = group(run, items)
    # What moves comes first: a long run has more rows than a screen.
    order = sorted(by_case, key=lambda case: all(i.status in FINISHED for i in by_case[case]))
    for case_id in order[:CASES_PER_PAGE]:
        known = next(case for case in run.cases if case["case_id"] == case_id)
        st.html(grid.case_row(known, by_case[case_id], labels))
    if len(order) > CASES_PER_PAGE:
        st.html(grid.note(f"{CASES_PER_PAGE} of {len(order)} cases are shown while it runs."))
    if JOBS.status(run)[0] != "running":
        st.rerun()


def group(run: Run, items: list[Item]) -> dict[str, list[Item]]:
    """Items by case, in the run's order."""
    return {
        case["case_id"]: [item for item in items if item.case_id == case["case_id"]]
        for case in run.cases
    }


def render_report(run_id: str) -> str:
    """The report as one HTML file."""
    from genlab.benchmark.report import render_report as render

    return render(JOBS.store, run_id)


def rater() -> str:
    """The name that stars in the grid are saved with."""
    name = st.text_input(
        "Your name, for your stars", value=remembered("rater"), max_chars=80, key="rater", width=280
    )
    remember(rater=name)
    return str(name).strip()


def show_grid(run: Run) -> None:
    """Cases by contenders: images, badges, and stars to give."""
    name = rater()
    labels = grid.labels_of(run.contenders)
    shown = st.multiselect(
        "Contenders", list(labels), default=list(labels), key="shown",
        format_func=lambda each: grid.line(labels[each], 80),
    )  # fmt: skip
    ratings = JOBS.store.ratings("run_item", rater=name, context="grid") if name else []
    mine = {rating.subject_hash: rating.stars for rating in ratings}
    items = [item for item in JOBS.store.items(run.run_id) if item.contender in shown]
    by_case, cases = group(run, items), run.cases
    pages = max(1, -(-len(cases) // CASES_PER_PAGE))
    page = st.number_input("Page", 1, pages, key="page", bind="query-params") if pages > 1 else 1
    for known in cases[(page - 1) * CASES_PER_PAGE : page * CASES_PER_PAGE]:
        own = by_case[known["case_id"]]
        st.html(grid.case_head(str(known.get("title", known["case_id"]))))
        with st.container(horizontal=True, key=f"b-row-{1 + len(own)}-{known['case_id']}"):
            with st.container():
                st.html(grid.run_case(known))
            for item in own:
                with st.container(gap="small"):
                    st.html(grid.item_cell(item, labels[item.contender]))
                    if item.image and name:
                        give_stars(item, name, mine.get(item.image_sha256))
    explain(items, labels)


def give_stars(item: Item, name: str, given: int | None) -> None:
    """Stars of one image, of the context `grid`."""
    key = f"stars-{item.item_id}-{name}"

    def keep() -> None:
        stars = st.session_state[key]
        number = None if stars is None else stars + 1
        try:
            JOBS.store.rate("run_item", item.image_sha256, name, number, "grid")
        except GenlabError as error:
            st.session_state["fault"] = str(error)

    default = None if given is None else given - 1
    st.feedback("stars", key=key, default=default, on_change=keep)


def explain(items: list[Item], labels: dict[str, str]) -> None:
    """The terms of an item's score, each with its overlay."""
    scored = {item.item_id: item for item in items if item.score is not None}
    if not scored:
        return
    with st.expander("Explain a score"):
        number = st.selectbox(
            "Item", list(scored), key="explained",
            format_func=lambda n: grid.line(
                f"{n}: {scored[n].case_id}, {labels[scored[n].contender]}"
            ),
        )  # fmt: skip
        if not st.button("Explain", key="explain"):
            return
        from genlab.benchmark.explanations import explain_item, name_of

        for term in explain_item(JOBS.store, number):
            left, right = st.columns([1, 2])
            left.image(term.overlay, caption="red: where the term loses")
            right.markdown(f"**{grid.label(name_of(term))}**: {grid.number(term.value)}")
            right.markdown(grid.label(term.sentence, 300))


def compare(run: Run) -> None:
    """Two images of a case with a divider between them."""
    labels = grid.labels_of(run.contenders)
    items = [item for item in JOBS.store.items(run.run_id) if item.image and item.repeat == 1]
    by_case = {case: own for case, own in group(run, items).items() if len(own) > 1}
    if not by_case:
        st.info("This view needs a case with two images; run it with two tools.")
        return
    case_id = st.selectbox("Case", list(by_case), key="case", bind="query-params")
    images = {item.contender: item for item in by_case[case_id]}
    places = st.columns(2)
    one, other = (
        place.selectbox(
            side, list(images), index, key=side.lower(), bind="query-params",
            format_func=lambda each: grid.line(labels[each], 80),
        )
        for index, (place, side) in enumerate(zip(places, ("Left", "Right"), strict=True))
    )  # fmt: skip
    width = "?width=1280"
    show_slider(
        (grid.image_url(images[one]) + width, labels[one]),
        (grid.image_url(images[other]) + width, labels[other]),
        f"/api/test-cases/{case_id}/template{width}",
        key="slider",
    )


@st.cache_data(max_entries=32, show_spinner="Resampling…")
def read_standings(run_id: str | None, state: tuple[Any, ...]) -> tuple[Any, Any]:
    """Leaderboard and people's answers; state: what they rest on."""
    return leaderboard(JOBS.store, run_id=run_id), people(JOBS.store, run_id=run_id)


def state_of(run_id: str | None) -> tuple[Any, ...]:
    """A short description of the store's content that a leaderboard depends on."""
    where = "" if run_id is None else " WHERE run_id = :run"
    queries = (
        f"SELECT count(*) AS n, max(updated) AS last FROM run_items{where}",
        "SELECT count(*) AS n, max(rated) AS last FROM human_scores",
        "SELECT count(*) AS n, max(rated) AS last FROM preferences",
    )
    found = [JOBS.store.table(query, run=run_id).iloc[0] for query in queries]
    return tuple((int(row.n), str(row["last"])) for row in found)


def show_ranking(run: Run | None) -> None:
    """The leaderboard of a run, or of all."""
    run_id = run.run_id if run else None
    standings, _ = read_standings(run_id, state_of(run_id))
    if not standings:
        st.info("Nothing has been scored yet. Run some cases, or: `genlab benchmark run`")
        return
    shown = columns(standings)
    table = pd.DataFrame(
        {each.heading: [grid.line(each.text(row)) for row in standings] for each in shown}
    )
    st.dataframe(table, hide_index=True, width="stretch")
    for line in notes(standings):
        st.html(grid.note(line))


def agree(run: Run) -> None:
    """The machine score against blind stars."""
    _, found = read_standings(run.run_id, state_of(run.run_id))
    for name, finding in findings(found).items():
        st.markdown("- " + grid.label(f"{name}: {sentence(finding)}", 300))
    points = rated_images(JOBS.store, run.run_id)
    if points.empty:
        st.info("Nobody has rated a scored image of this run blind yet; the page Rate asks for it.")
        return
    st.scatter_chart(points, x="score", y="stars", x_label="machine score", y_label="blind stars")


def main() -> None:
    """A run, or what can be done without one."""
    st.html(grid.STYLE)
    title("Benchmark", "Cases of people through image tools: run, follow, compare, report.")
    try:
        if name := remembered("run"):
            remember(run=name)
            show_run(JOBS.store.run(name))
            return
        view = choose_view(["New run", "Runs", "Leaderboard"], "list")
        if view == "New run":
            choose_run()
        elif view == "Runs":
            list_runs()
        else:
            show_ranking(None)
    except GenlabError as fault:
        st.error(grid.label(fault, 500))
        st.button("Back", on_click=leave, key="back")
    if said := st.session_state.pop("fault", None):
        st.error(grid.label(said, 300))


main()
