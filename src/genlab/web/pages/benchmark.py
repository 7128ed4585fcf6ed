"""The person-swap benchmark: choose cases and tools, run, follow, compare, report."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from genlab.benchmark.cases import split_by_consent
from genlab.benchmark.leaderboard.standings import SUBJECT, Standing, leaderboard, people
from genlab.benchmark.leaderboard.table import findings, notes, number, sentence, tabulate
from genlab.benchmark.plugins.base import ImageTool, why_absent
from genlab.benchmark.plugins.registry import make_contenders
from genlab.benchmark.store.schema import FINISHED, STATUSES, Item, Run
from genlab.web.components import grid
from genlab.web.components.escape import label, line
from genlab.web.components.frame import ask_rater, choose, remember, remembered, sentences
from genlab.web.jobs import jobs

CASES_PER_PAGE = 12
SIGNS = {"running": "▶", "finished": "✓", "cancelled": "■", "interrupted": "!"}


def choose_run() -> None:
    """Choose cases, tools and options, and start a run."""
    cases, params = jobs().cases(), jobs().params
    st.html(grid.gallery(cases))
    runnable, skipped = split_by_consent(cases)
    titles = {case.case_id: line(case.title, 80) for case in runnable}
    names = list(titles)
    chosen = st.multiselect("Cases", names, names, format_func=lambda n: titles[n], key="cases")
    for reason in skipped:
        st.caption(label(reason))
    tools = choose_tools(params.tools)
    options = {tool.tool_id: choose_options(tool) for tool in tools}
    left, right = st.columns(2)
    repeats = left.number_input("Images per case and tool", 1, 100, params.repeats, key="repeats")
    ceiling = right.number_input(
        "Ceiling in dollars", 0.0, 10_000.0, params.max_cost, key="max_cost",
        help="Images that would cost more are skipped.",
    )  # fmt: skip
    contenders = make_contenders(tools, options)
    costs = {tool.tool_id: tool.needs.cost for tool in tools}
    count = len(chosen) * len(contenders) * repeats
    estimate = len(chosen) * repeats * sum(costs[each.tool_id] for each in contenders)
    words = f"Run {count} image{'s' * (count != 1)}" if count else "Run"
    words += f", about ${estimate:.2f}" if estimate else ""
    if st.button(label(words), type="primary", disabled=not count, key="run"):
        wanted = [case for case in runnable if case.case_id in chosen]
        remember(run=jobs().start(wanted, contenders, repeats=int(repeats), max_cost=ceiling))
        st.rerun()
    if not count:
        st.caption("Choose a case and a tool.")


def choose_tools(preset: list[str]) -> list[ImageTool]:
    """The tools that take part."""
    available, absent = {}, []
    for tool in jobs().tools().values():
        if reason := why_absent(tool):
            absent.append(f"{line(tool.title, 60)} is not available: {reason}")
        else:
            available[tool.tool_id] = tool

    def describe(tool_id: str) -> str:
        tool = available[tool_id]
        cost = f", about ${tool.needs.cost:.2f} per image" if tool.needs.cost else ""
        sends = ", sends photographs to a service" if tool.needs.network else ""
        return label(f"{line(tool.title, 60)}{cost}{sends}", 200)

    chosen = st.pills(
        "Tools", list(available), selection_mode="multi", format_func=describe, key="tools",
        default=[name for name in preset if name in available],
    )  # fmt: skip
    for reason in absent:
        st.caption(label(reason))
    return [available[name] for name in chosen]


def choose_options(tool: ImageTool) -> dict[str, Any]:
    """The options of a tool; several values, separated by commas, make several contenders."""
    options: dict[str, Any] = {}
    if tool.needs.options:
        with st.expander(label(f"Options of {tool.tool_id}")):
            for name, option in tool.needs.options.items():
                help_text = f"{option.help}. Separate several values by commas."
                value = st.text_input(name, key=f"option-{tool.tool_id}-{name}", help=help_text)
                if values := [part.strip() for part in value.split(",") if part.strip()]:
                    options[name] = values
    return options


def list_runs() -> None:
    """All runs, the newest first."""
    known = jobs().store.runs()
    if not known:
        st.info("No run yet. Start one here, or with: `genlab benchmark run`")
    for run in known[:50]:
        status, _ = jobs().status(run)
        words = f"{SIGNS[status]} {run.run_id}: {len(run.cases)} cases, {len(run.tools)} contenders"
        if st.button(label(f"{words}, {status}"), key=f"open-{run.run_id}", type="tertiary"):
            remember(run=run.run_id)
            st.rerun()


def show_run(name: str) -> None:
    """A run: its state, or its results."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("New run", key="new", on_click=remember, kwargs={"run": ""})
        run = jobs().store.run(name)
        status, reason = jobs().status(run)
        st.subheader(f"{SIGNS[status]} Run {label(run.run_id)}", width="content")
        if status == "running":
            if st.button("Cancel", key="cancel"):
                jobs().cancel(run.run_id)
        else:
            items = jobs().store.items(run.run_id)
            unfinished = any(item.status != "scored" for item in items)
            if unfinished and st.button("Resume", key="resume", help="Failed items, too."):
                jobs().resume(run.run_id, again=True)
                st.rerun()
            st.link_button("Export report", f"/api/report/{run.run_id}")
    if reason:
        st.warning(label(reason))
    if status == "running":
        st.fragment(follow, run_every=0.5)(run)
        return
    views = {"Grid": show_grid, "Compare": compare, "Leaderboard": show_ranking}
    views[choose("View", [*views], "view")](run)


def follow(run: Run) -> None:
    """The run under way, again every moment; at its end the whole page once more."""
    items = jobs().store.items(run.run_id)
    ended = sum(item.status in FINISHED for item in items)
    counts = {each: sum(item.status == each for item in items) for each in STATUSES}
    words = ", ".join(f"{count} {each}" for each, count in counts.items() if count)
    st.progress(ended / max(len(items), 1), text=words or "waiting")
    # What moves comes first: a long run has more rows than a screen.
    by_case = group(run, items)
    order = sorted(by_case, key=lambda case: all(i.status in FINISHED for i in by_case[case]))
    for case_id in order[:CASES_PER_PAGE]:
        show_case(run, case_id, by_case[case_id])
    if len(order) > CASES_PER_PAGE:
        st.caption(f"{CASES_PER_PAGE} of {len(order)} cases are shown while it runs.")
    if jobs().status(run)[0] != "running":
        st.rerun()


def group(run: Run, items: list[Item]) -> dict[str, list[Item]]:
    """Items by case, in the run's order."""
    return {
        case["case_id"]: [item for item in items if item.case_id == case["case_id"]]
        for case in run.cases
    }


def show_case(
    run: Run, case_id: str, items: list[Item], rater: str = "", given: dict[str, int] | None = None
) -> None:
    """A case beside its items; with a rater, stars to give. given: stars by image."""
    [known] = [case for case in run.cases if case["case_id"] == case_id]
    st.markdown(f"##### {label(known.get('title', case_id), 80)}")
    with st.container(horizontal=True):
        st.html(grid.case_cell(grid.read_run_case(known), "template"), width=220)
        for item in items:
            with st.container(gap="small", width=220):
                st.html(grid.item_cell(item, run.contenders[item.contender].label))
                if item.image and rater:
                    give_stars(item, rater, (given or {}).get(item.image_sha256))


def show_grid(run: Run) -> None:
    """Cases by contenders: images, badges, and stars to give."""
    name = ask_rater()
    labels = {each: line(kept.label, 80) for each, kept in run.contenders.items()}
    shown = st.multiselect(
        "Contenders", list(labels), list(labels), format_func=lambda n: labels[n], key="shown"
    )
    ratings = jobs().store.ratings(SUBJECT, rater=name, context="grid")
    given = {rating.subject_hash: rating.stars for rating in ratings}
    items = [item for item in jobs().store.items(run.run_id) if item.contender in shown]
    by_case = group(run, items)
    pages = -(-len(by_case) // CASES_PER_PAGE)
    page = st.number_input("Page", 1, pages, key="page", bind="query-params") if pages > 1 else 1
    for case_id in list(by_case)[(page - 1) * CASES_PER_PAGE : page * CASES_PER_PAGE]:
        show_case(run, case_id, by_case[case_id], name, given)
    explain(items, labels)


def give_stars(item: Item, name: str, given: int | None) -> None:
    """Stars of one image, of the context `grid`."""
    key = f"stars-{item.item_id}-{name}"

    def keep() -> None:
        stars = st.session_state[key]
        number = None if stars is None else stars + 1
        with sentences():
            jobs().store.rate(SUBJECT, item.image_sha256, name, number, "grid")

    default = None if given is None else given - 1
    st.feedback("stars", key=key, default=default, on_change=keep)


def explain(items: list[Item], labels: dict[str, str]) -> None:
    """The terms of an item's score, each with its overlay."""
    scored = {
        item.item_id: line(f"{item.item_id}: {item.case_id}, {labels[item.contender]}")
        for item in items
        if item.score is not None
    }
    with st.expander("Explain a score"):
        chosen = st.selectbox(
            "Item", list(scored), format_func=lambda n: scored[n], key="explained"
        )
        if not st.button("Explain", key="explain", disabled=not scored):
            return
        from genlab.benchmark.explanations import explain_item, name_of  # it loads dlib

        for term in explain_item(jobs().store, chosen):
            left, right = st.columns([1, 2])
            left.image(term.overlay, caption="red: where the term loses")
            right.markdown(f"**{label(name_of(term))}**: {number(term.value)}")
            right.markdown(label(term.sentence))


def compare(run: Run) -> None:
    """Two images of a case with a divider between them."""
    items = [item for item in jobs().store.items(run.run_id) if item.image and item.repeat == 1]
    by_case = {case: own for case, own in group(run, items).items() if len(own) > 1}
    if not by_case:
        st.info("This view needs a case with two images; run it with two tools.")
        return
    case_id = st.selectbox("Case", list(by_case), key="case", bind="query-params")
    images = {item.contender: item for item in by_case[case_id]}
    labels = {name: line(run.contenders[name].label, 80) for name in images}
    shown = ""
    for index, place in enumerate(st.columns(2)):
        side = ("Left", "Right")[index]
        name = place.selectbox(
            side, list(images), index, key=side.lower(), bind="query-params",
            format_func=lambda each: labels[each],
        )  # fmt: skip
        url = f"/api/pictures/{images[name].image_sha256}?width=1280"
        shown += grid.picture(url, labels[name])
    cut = st.slider("Divider", 0, 100, 50, format="%d %%", key="cut", width=460)
    st.html(f'<div class="b-cut" style="--cut:{cut}%">{shown}</div>')


@st.cache_data(max_entries=32, show_spinner="Resampling…")
def read_standings(run_id: str | None, state: list[int]) -> tuple[list[Standing], Any]:
    """Leaderboard and people's answers; state: times of change of the store."""
    return leaderboard(jobs().store, run_id=run_id), people(jobs().store, run_id=run_id)


def show_ranking(run: Run | None = None) -> None:
    """The leaderboard of a run, or of all, and what people's answers say about the score."""
    files = sorted(jobs().runs_folder.glob(f"{jobs().store.path.name}*"))  # the log of writes, too
    state = [file.stat().st_mtime_ns for file in files if not file.name.endswith("-shm")]
    standings, found = read_standings(run.run_id if run else None, state)
    if not standings:
        st.info("Nothing has been scored yet. Run some cases, or: `genlab benchmark run`")
        return
    table = pd.DataFrame(tabulate(standings)).map(line)
    st.dataframe(table, hide_index=True, width="stretch")
    for note in notes(standings):
        st.caption(label(note))
    for name, finding in findings(found).items():
        st.markdown("- " + label(f"{name}: {sentence(finding)}"))


def main() -> None:
    """A run, or what can be done without one."""
    if name := remembered("run"):
        remember(run=name)
        show_run(name)
    else:
        views = {"New run": choose_run, "Runs": list_runs, "Leaderboard": show_ranking}
        views[choose("View", [*views], "list")]()
