"""The person-swap benchmark: choose cases and tools, run, follow, compare, report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from genlab.benchmark.cases import split_by_consent
from genlab.benchmark.judge import describe_unrated, estimate_cost
from genlab.benchmark.leaderboard.standings import (
    SUBJECT,
    RaterStatistics,
    Standing,
    rank_contenders,
    read_tables,
    summarize_raters,
)
from genlab.benchmark.leaderboard.table import (
    describe_estimate,
    format_number,
    list_estimates,
    list_notes,
    tabulate,
)
from genlab.benchmark.plugins.base import ImageTool, why_unavailable
from genlab.benchmark.plugins.registry import make_contenders
from genlab.benchmark.service.jobs import jobs
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.schema import Contender, Run
from genlab.core.params import BenchmarkParams
from genlab.web.components import grid
from genlab.web.components.escape import label, line
from genlab.web.components.frame import (
    ask_rater,
    choose,
    make_unique,
    recall,
    remember,
    show_errors,
)
from genlab.web.files import cache_by_file

CASES_PER_PAGE, RUNS_PER_PAGE = 12, 50
CELL = 168  # pixels of a picture's width: two side by side on a phone
LIVE = st.components.v2.component(
    "genlab_live", js=(Path(grid.__file__).parent / "live.js").read_text(encoding="utf-8")
)
"""Follows a run's events in the browser; triggers: `end`, and `row` when a case has ended."""
SIGNS = {"running": "▶", "finished": "✓", "cancelled": "■", "interrupted": "!"}


def choose_run() -> None:
    """Choose cases, tools and options, and start a run."""
    cases, params = jobs().cases(), jobs().params
    st.html(grid.gallery(cases))
    runnable, skipped = split_by_consent(cases)
    titles = make_unique({case.case_id: case.title for case in runnable})
    names = list(titles)
    chosen = st.multiselect("Cases", names, names, format_func=lambda n: titles[n], key="cases")
    for reason in skipped:
        st.caption(label(reason))
    contenders, tools = choose_contenders(params)
    if params.judge:
        words = f"{params.judge} rates each image: template, avatars and image are sent to it."
        st.caption(label(words))
    left, right = st.columns(2)
    repeats = left.number_input("Images per case and tool", 1, 100, params.repeats, key="repeats")
    ceiling = right.number_input(
        "Ceiling in dollars", 0.0, 10_000.0, params.max_cost, key="max_cost",
        help="Images that would cost more are skipped.",
    )  # fmt: skip
    count = len(chosen) * len(contenders) * repeats
    cost = len(chosen) * repeats * estimate_cost(contenders, tools, params.judge)
    words = f"Run {count} image{'s' * (count != 1)}" if count else "Run"
    words += f", about ${cost:.2f}" if cost else ""
    if st.button(label(words), type="primary", disabled=not count, key="run"):
        wanted = [case for case in runnable if case.case_id in chosen]
        run_id = jobs().start(wanted, contenders, int(repeats), ceiling)
        remember("run", run_id)
        st.rerun()
    if not count:
        st.caption("Choose a case and a tool.")


def choose_contenders(params: BenchmarkParams) -> tuple[list[Contender], dict[str, ImageTool]]:
    """The contenders that take part, and all tools by id.

    Several values of an option, separated by commas, make several contenders.
    """
    tools = jobs().tools()
    absent = {name: reason for name, tool in tools.items() if (reason := why_unavailable(tool))}

    def describe(name: str) -> str:
        needs = tools[name].needs
        cost = f", about ${needs.cost:.2f} per image" if needs.cost else ""
        sends = ", sends photographs to a service" if needs.network else ""
        return label(f"{line(tools[name].title, 60)}{cost}{sends}", 200)

    available = [name for name in tools if name not in absent]
    chosen = st.pills(
        "Tools", available, selection_mode="multi", format_func=describe, key="tools",
        default=[name for name in params.tools if name in available],
    )  # fmt: skip
    for name, reason in absent.items():
        st.caption(label(f"{line(tools[name].title, 60)} is not available: {reason}"))
    options: dict[str, dict[str, list[str]]] = {name: {} for name in chosen}
    for name in chosen:
        if known := tools[name].needs.options:
            with st.expander(label(f"Options of {name}")):
                for option, meaning in known.items():
                    help_text = f"{meaning.help}. Separate several values by commas."
                    value = st.text_input(
                        option, _join(params.options.get(name, {}).get(option, [])),
                        key=f"option-{name}-{option}", help=help_text,
                    )  # fmt: skip
                    if values := [part.strip() for part in value.split(",") if part.strip()]:
                        options[name][option] = values
    return make_contenders([tools[name] for name in chosen], options), tools


def _join(values: Any) -> str:
    """Values of an option in params.yaml, one or a list, as one writes them here."""
    return ", ".join(map(str, values if isinstance(values, list) else [values]))


def list_runs() -> None:
    known = jobs().store.runs()
    if not known:
        st.info("No run yet. Start one here, or with: `genlab benchmark run`")
    pages = -(-len(known) // RUNS_PER_PAGE)
    page = st.pagination(pages, key="runs", bind="query-params") if pages > 1 else 1
    for run in known[(page - 1) * RUNS_PER_PAGE : page * RUNS_PER_PAGE]:
        status, _ = jobs().status(run)
        words = f"{SIGNS[status]} {run.run_id}: {len(run.cases)} cases, {len(run.tools)} contenders"
        if st.button(label(f"{words}, {status}"), key=f"open-{run.run_id}"):
            remember("run", run.run_id)
            st.rerun()


def show_run(name: str) -> None:
    """A run: its state, or its results."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("New run", key="new", on_click=remember, args=("run", ""))
        run = jobs().store.run(name)
        status, reason = jobs().status(run)
        st.subheader(f"{SIGNS[status]} Run {label(run.run_id)}", width="content")
        if status == "running":
            ours = jobs().executes(run.run_id)
            help_text = None if ours else "Another process does this run; end it there."
            if st.button("Cancel", key="cancel", disabled=not ours, help=help_text):
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
        follow(run)
        return
    views = {"Grid": show_grid, "Compare": compare, "Leaderboard": show_ranking}
    views[choose("View", [*views], "view")](run)


@st.fragment
def follow(run: Run) -> None:
    """The run under way: the browser follows its events, and asks again for what else changes."""
    log = jobs().log(run.run_id)
    by_case = group_items(run, log.items)
    st.html(grid.progress(log.counts))
    # What moves comes first: a long run has more rows than a screen.
    order = sorted(by_case, key=lambda case: all(item.finished for item in by_case[case]))
    for case_id in order[:CASES_PER_PAGE]:
        show_case(run, case_id, by_case[case_id])
    more = len(order) > CASES_PER_PAGE
    if more:
        st.caption(f"{CASES_PER_PAGE} of {len(order)} cases are shown while it runs.")
    data = {"path": f"/api/run/{run.run_id}/cells", "rotate": more}
    events = LIVE(key=f"live-{run.run_id}", data=data, on_end_change=ignore, on_row_change=ignore)
    if events.end:
        st.rerun()


def ignore() -> None:
    """Streamlit runs the fragment again; there is nothing else to do."""


def read_items(run: Run) -> dict[str, list[ItemResult]]:
    """Items by case, in the run's order."""
    return group_items(run, jobs().store.items(run.run_id))


def group_items(run: Run, items: Sequence[ItemResult]) -> dict[str, list[ItemResult]]:
    """The items of a run by case, in the run's order."""
    by_case: dict[str, list[ItemResult]] = {case["case_id"]: [] for case in run.cases}
    for item in items:
        by_case[item.case_id].append(item)
    return by_case


def show_case(
    run: Run,
    case_id: str,
    items: list[ItemResult],
    rater: str = "",
    given: dict[str, int] | None = None,
) -> None:
    """A case beside its items; with a rater, stars to give. given: stars by image."""
    [known] = [case for case in run.cases if case["case_id"] == case_id]
    st.markdown(f"##### {label(known.get('title', case_id), 80)}")
    with st.container(horizontal=True):
        case = grid.read_run_case(jobs().store, run.run_id, known)
        st.html(grid.case_cell(case, "template"), width=CELL)
        for item in items:
            with st.container(gap="small", width=CELL):
                st.html(grid.item_cell(item, run.contenders[item.contender].label))
                if item.image and rater:
                    give_stars(item, rater, (given or {}).get(item.image_sha256))


def show_grid(run: Run) -> None:
    """Cases by contenders: images, badges, and stars to give."""
    name = ask_rater()
    labels = make_unique({each: kept.label for each, kept in run.contenders.items()})
    shown = st.multiselect(
        "Contenders", list(labels), list(labels), format_func=lambda n: labels[n], key="shown"
    )
    ratings = jobs().store.ratings(SUBJECT, rater=name, context="grid")
    given = {rating.subject_hash: rating.stars for rating in ratings}
    by_case = {
        case: [item for item in items if item.contender in shown]
        for case, items in read_items(run).items()
    }
    pages = -(-len(by_case) // CASES_PER_PAGE)
    page = st.pagination(pages, key="page", bind="query-params") if pages > 1 else 1
    for case_id in list(by_case)[(page - 1) * CASES_PER_PAGE : page * CASES_PER_PAGE]:
        show_case(run, case_id, by_case[case_id], name, given)
    explain([item for items in by_case.values() for item in items], labels)


def give_stars(item: ItemResult, name: str, given: int | None) -> None:
    """Stars of one image, of the context `grid`."""
    key = f"stars-{item.item_id}-{name}"

    def keep() -> None:
        stars = st.session_state[key]
        number = None if stars is None else stars + 1
        with show_errors():
            jobs().store.rate(SUBJECT, item.image_sha256, name, number, "grid")

    default = None if given is None else given - 1
    st.feedback("stars", key=key, default=default, on_change=keep)


def explain(items: list[ItemResult], labels: dict[str, str]) -> None:
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
        from genlab.benchmark.explanations import explain_item, label_term  # it loads dlib

        for term in explain_item(jobs().store, chosen):
            left, right = st.columns([1, 2])
            left.image(term.overlay, caption="red: where the term loses")
            right.markdown(f"**{label(label_term(term))}**: {format_number(term.value)}")
            right.markdown(label(term.sentence))


def compare(run: Run) -> None:
    """Two images of a case with a divider between them."""
    by_case = {
        case: {item.contender: item for item in items if item.image and item.repeat == 1}
        for case, items in read_items(run).items()
    }
    cases = [case for case, images in by_case.items() if len(images) > 1]
    if not cases:
        st.info("This view needs a case with two images; run it with two tools.")
        return
    images = by_case[st.selectbox("Case", cases, key="case", bind="query-params")]
    labels = make_unique({name: run.contenders[name].label for name in images})
    shown = ""
    for index, (place, side) in enumerate(zip(st.columns(2), ("Left", "Right"), strict=True)):
        name = place.selectbox(
            side, list(images), index, key=side.lower(), bind="query-params",
            format_func=lambda each: labels[each],
        )  # fmt: skip
        url = f"/api/pictures/{images[name].image_sha256}?width=1280"
        shown += grid.picture(url, labels[name])
    cut = st.slider("Divider", 0, 100, 50, format="%d %%", key="cut", width=460)
    st.html(f'<div class="b-cut" style="--cut:{cut}%">{shown}</div>')


@cache_by_file
def read_standings(
    store: Path, log: Path, run_id: str | None
) -> tuple[list[Standing], RaterStatistics]:
    """Leaderboard and people's answers. store, log: files whose change makes them out of date."""
    tables = read_tables(jobs().store, run_id)
    return rank_contenders(tables), summarize_raters(tables)


def show_ranking(run: Run | None = None) -> None:
    """The leaderboard of a run, or of all, and what people's answers say about the score."""
    path = jobs().store.path
    with st.spinner("Resampling…"):
        standings, found = read_standings(path, Path(f"{path}-wal"), run.run_id if run else None)
    if not standings:
        st.info("Nothing has been scored yet. Run some cases, or: `genlab benchmark run`")
        return
    st.dataframe(pd.DataFrame(tabulate(standings)).map(line), hide_index=True)
    unrated = describe_unrated(jobs().store.items(run.run_id)) if run else []
    for note in (*list_notes(standings), *unrated):
        st.caption(label(note))
    for name, finding in list_estimates(found).items():
        st.markdown("- " + label(f"{name}: {describe_estimate(finding)}"))


def main() -> None:
    if name := recall("run"):
        remember("run", name)
        show_run(name)
    else:
        views = {"New run": choose_run, "Runs": list_runs, "Leaderboard": show_ranking}
        views[choose("View", [*views], "list")]()
