"""The person-swap benchmark: choose cases and tools, run, follow, compare, report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

from genlab.benchmark.cases import split_by_consent
from genlab.benchmark.judge import estimate_cost
from genlab.benchmark.leaderboard.standings import SUBJECT
from genlab.benchmark.leaderboard.table import format_number
from genlab.benchmark.plugins.base import ImageTool, why_unavailable
from genlab.benchmark.plugins.registry import make_contenders
from genlab.benchmark.service.jobs import jobs
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.schema import Contender, Run
from genlab.core.params import BenchmarkParams
from genlab.web.components import figures
from genlab.web.components.escape import label, line
from genlab.web.components.frame import (
    ask_rater,
    choose,
    make_unique,
    recall,
    remember,
    show_errors,
)
from genlab.web.components.leaderboard import show_leaderboard

CASES_PER_PAGE = 12
RUNS_PER_PAGE = 50
CELL = 168  # pixels of a picture's width: two side by side on a phone
LIVE = st.components.v2.component(
    "genlab_live", js=(Path(figures.__file__).parent / "live.js").read_text(encoding="utf-8")
)
"""Follows a run's events in the browser; triggers: `end`, and `row` when a case has ended."""
SIGNS = {"running": "▶", "finished": "✓", "cancelled": "■", "interrupted": "!"}


def choose_run() -> None:
    """Let the visitor choose cases, tools and options, and start a run."""
    cases = jobs().cases()
    params = jobs().params
    st.html(figures.gallery(cases))
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
        chosen_cases = [case for case in runnable if case.case_id in chosen]
        run_id = jobs().start(chosen_cases, contenders, int(repeats), ceiling)
        remember("run", run_id)
        st.rerun()
    if not count:
        st.caption("Choose a case and a tool.")


def choose_contenders(params: BenchmarkParams) -> tuple[list[Contender], dict[str, ImageTool]]:
    """Let the visitor choose tools and options; returns the contenders, and all tools by id.

    Several values of an option, separated by commas, make several contenders.
    """
    tools = jobs().tools()
    reasons = {name: why_unavailable(tool) for name, tool in tools.items()}

    def describe(name: str) -> str:
        needs = tools[name].needs
        cost = f", about ${needs.cost:.2f} per image" if needs.cost else ""
        sends = ", sends photographs to a service" if needs.network else ""
        return label(f"{line(tools[name].title, 60)}{cost}{sends}", 200)

    available = [name for name, reason in reasons.items() if not reason]
    chosen = st.pills(
        "Tools", available, selection_mode="multi", format_func=describe, key="tools",
        default=[name for name in params.tools if name in available],
    )  # fmt: skip
    for name, reason in reasons.items():
        if reason:
            st.caption(label(f"{line(tools[name].title, 60)} is not available: {reason}"))
    options = {name: choose_options(tools[name], params.options.get(name, {})) for name in chosen}
    return make_contenders([tools[name] for name in chosen], options), tools


def choose_options(tool: ImageTool, defaults: Mapping[str, Any]) -> dict[str, list[str]]:
    """Let the visitor choose the options of a tool. defaults: values of params.yaml."""
    chosen: dict[str, list[str]] = {}
    if not tool.needs.options:
        return chosen
    with st.expander(label(f"Options of {tool.tool_id}")):
        for name, option in tool.needs.options.items():
            text = st.text_input(
                name, _join(defaults.get(name, [])), key=f"option-{tool.tool_id}-{name}",
                help=f"{option.help}. Separate several values by commas.",
            )  # fmt: skip
            values = [value.strip() for value in text.split(",") if value.strip()]
            if values:
                chosen[name] = values
    return chosen


def _join(values: Any) -> str:
    """Write the value or the list of values of an option in one line."""
    return ", ".join(map(str, values if isinstance(values, list) else [values]))


def list_runs() -> None:
    runs = jobs().store.runs()
    if not runs:
        st.info("No run yet. Start one here, or with: `genlab benchmark run`")
    pages = -(-len(runs) // RUNS_PER_PAGE)
    page = st.pagination(pages, key="runs", bind="query-params") if pages > 1 else 1
    for run in runs[(page - 1) * RUNS_PER_PAGE : page * RUNS_PER_PAGE]:
        status, _ = jobs().status(run)
        words = f"{SIGNS[status]} {run.run_id}: {len(run.cases)} cases, {len(run.tools)} contenders"
        if st.button(label(f"{words}, {status}"), key=f"open-{run.run_id}"):
            remember("run", run.run_id)
            st.rerun()


def show_run(name: str) -> None:
    """Show a run: its progress or its results."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("New run", key="new", on_click=remember, args=("run", ""))
        run = jobs().store.run(name)
        status, reason = jobs().status(run)
        st.subheader(f"{SIGNS[status]} Run {label(run.run_id)}", width="content")
        if status == "running":
            ours = jobs().executes(run.run_id)
            help_text = None if ours else "Another process executes this run; cancel it there."
            if st.button("Cancel", key="cancel", disabled=not ours, help=help_text):
                jobs().cancel(run.run_id)
        else:
            items = jobs().store.items(run.run_id)
            unfinished = any(item.status != "scored" for item in items)
            if unfinished and st.button("Resume", key="resume", help="Also tries failed items."):
                with show_errors():
                    jobs().resume(run.run_id, again=True)
                    st.rerun()
            st.link_button("Export report", f"/api/report/{run.run_id}")
    if reason:
        st.warning(label(reason))
    if status == "running":
        follow(run)
        return
    views = {"Grid": show_grid, "Compare": compare, "Leaderboard": show_leaderboard}
    views[choose("View", [*views], "view")](run)


@st.fragment
def follow(run: Run) -> None:
    """Show a run under way; the browser follows its events and reruns this fragment."""
    log = jobs().log(run.run_id)
    by_case = group_items(run, log.items)
    st.html(figures.progress(log.counts))
    # Unfinished cases come first: a long run has more rows than fit on a screen.
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
    """Do nothing: Streamlit runs the fragment again after the callback."""


def read_items(run: Run) -> dict[str, list[ItemResult]]:
    """Read the items of a run by case, in the run's order."""
    return group_items(run, jobs().store.items(run.run_id))


def group_items(run: Run, items: Sequence[ItemResult]) -> dict[str, list[ItemResult]]:
    """Group the items of a run by case, in the run's order."""
    by_case: dict[str, list[ItemResult]] = {case["case_id"]: [] for case in run.cases}
    for item in items:
        by_case[item.case_id].append(item)
    return by_case


def show_case(
    run: Run,
    case_id: str,
    items: list[ItemResult],
    rater: str = "",
    stars: dict[str, int] | None = None,
) -> None:
    """Show a case beside its items. rater: can give stars; stars: the rater's, by image."""
    [facts] = [case for case in run.cases if case["case_id"] == case_id]
    st.markdown(f"##### {label(facts.get('title', case_id), 80)}")
    with st.container(horizontal=True):
        case = figures.read_run_case(jobs().store, run.run_id, facts)
        st.html(figures.case_figure(case, "template"), width=CELL)
        for item in items:
            with st.container(gap="small", width=CELL):
                st.html(figures.item_figure(item, run.contenders[item.contender].label))
                if item.image and rater:
                    ask_for_stars(item, rater, (stars or {}).get(item.image_sha256))


def show_grid(run: Run) -> None:
    """Show cases by contenders: images, badges, and stars to give."""
    rater = ask_rater()
    contenders = run.contenders.items()
    labels = make_unique({name: contender.label for name, contender in contenders})
    chosen = st.multiselect(
        "Contenders", list(labels), list(labels), format_func=lambda n: labels[n], key="shown"
    )
    ratings = jobs().store.ratings(SUBJECT, rater=rater, context="grid")
    stars = {rating.subject_hash: rating.stars for rating in ratings}
    by_case = {
        case: [item for item in items if item.contender in chosen]
        for case, items in read_items(run).items()
    }
    pages = -(-len(by_case) // CASES_PER_PAGE)
    page = st.pagination(pages, key="page", bind="query-params") if pages > 1 else 1
    for case_id in list(by_case)[(page - 1) * CASES_PER_PAGE : page * CASES_PER_PAGE]:
        show_case(run, case_id, by_case[case_id], rater, stars)
    explain([item for items in by_case.values() for item in items], labels)


def ask_for_stars(item: ItemResult, rater: str, stars: int | None) -> None:
    """Let the rater give stars to an image, in the context `grid`. stars: the current ones."""
    key = f"stars-{item.item_id}-{rater}"

    def save() -> None:
        index = st.session_state[key]
        chosen = None if index is None else index + 1
        with show_errors():
            jobs().store.rate(SUBJECT, item.image_sha256, rater, chosen, "grid")

    default = None if stars is None else stars - 1
    st.feedback("stars", key=key, default=default, on_change=save)


def explain(items: list[ItemResult], labels: dict[str, str]) -> None:
    """Show the terms of an item's score, each with its overlay."""
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
        from genlab.benchmark.explanations import explain_item, label_term  # imports dlib

        for term in explain_item(jobs().store, chosen):
            left, right = st.columns([1, 2])
            left.image(term.overlay, caption="red: where the term loses")
            right.markdown(f"**{label(label_term(term))}**: {format_number(term.value)}")
            right.markdown(label(term.sentence))


def compare(run: Run) -> None:
    """Show two images of a case with a divider between them."""
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
    pictures = ""
    for index, (column, side) in enumerate(zip(st.columns(2), ("Left", "Right"), strict=True)):
        name = column.selectbox(
            side, list(images), index, key=side.lower(), bind="query-params",
            format_func=lambda contender: labels[contender],
        )  # fmt: skip
        url = f"/api/pictures/{images[name].image_sha256}?width=1280"
        pictures += figures.picture(url, labels[name])
    cut = st.slider("Divider", 0, 100, 50, format="%d %%", key="cut", width=460)
    st.html(f'<div class="b-cut" style="--cut:{cut}%">{pictures}</div>')


def main() -> None:
    if name := recall("run"):
        remember("run", name)
        show_run(name)
    else:
        views = {"New run": choose_run, "Runs": list_runs, "Leaderboard": show_leaderboard}
        views[choose("View", [*views], "list")]()
