"""The leaderboard of a run or of all runs, with statistics of people's answers."""

from pathlib import Path

import pandas as pd
import streamlit as st

from genlab.benchmark.judge import describe_unrated
from genlab.benchmark.leaderboard.standings import (
    RaterStatistics,
    Standing,
    rank_contenders,
    read_tables,
    summarize_raters,
)
from genlab.benchmark.leaderboard.table import (
    describe_estimate,
    list_estimates,
    list_notes,
    tabulate,
)
from genlab.benchmark.service.jobs import jobs
from genlab.benchmark.store.schema import Run
from genlab.web.components.escape import label, line
from genlab.web.files import cache_by_file


@cache_by_file
def read_standings(
    store: Path, log: Path, run_id: str | None
) -> tuple[list[Standing], RaterStatistics]:
    """Compute the leaderboard and statistics of people's answers.

    store, log: the files of the database; when they change, the cached result is outdated.
    """
    tables = read_tables(jobs().store, run_id)
    return rank_contenders(tables), summarize_raters(tables)


def show_leaderboard(run: Run | None = None) -> None:
    """Show the leaderboard of a run (None: of all runs), and statistics of people's answers."""
    path = jobs().store.path
    run_id = run.run_id if run else None
    with st.spinner("Resampling…"):
        standings, raters = read_standings(path, Path(f"{path}-wal"), run_id)
    if not standings:
        st.info("Nothing has been scored yet. Run some cases, or: `genlab benchmark run`")
        return
    st.dataframe(pd.DataFrame(tabulate(standings)).map(line), hide_index=True)
    unrated = describe_unrated(jobs().store.items(run.run_id)) if run else []
    for note in (*list_notes(standings), *unrated):
        st.caption(label(note))
    for name, estimate in list_estimates(raters).items():
        st.markdown("- " + label(f"{name}: {describe_estimate(estimate)}"))
