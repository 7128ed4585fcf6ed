"""What pages share: title, choice of a dataset, tables, charts, errors as sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from genlab.core.errors import GenlabError, describe_os_error
from genlab.core.params import Params, load_params
from genlab.evaluation.reports import formats
from genlab.web.components import charts
from genlab.web.components.files import fresh
from genlab.web.components.grid import label
from genlab.web.results import key_numbers, read_verdict

T = TypeVar("T")

LONGEST = 400  # characters of a text from a file, of dvc or of git
STATES = {
    "passed": "green", "met": "green", "stretch target met": "green", "up to date": "green",
    "refuted": "green", "supported": "orange", "stale": "orange", "missed": "red",
    "not passed": "red", "reported": "gray", "undecided": "gray", "untestable": "gray",
}  # fmt: skip


def title(name: str, lead: str) -> None:
    """The page's heading and a sentence about what it shows."""
    st.title(name, anchor=False)
    st.caption(lead)


@contextmanager
def sentences() -> Iterator[None]:
    """Show an error of the block as a sentence; the page continues after the block."""
    try:
        yield
    except GenlabError as error:
        empty = error.path is not None and not error.path.exists()
        (st.info if empty else st.error)(label(error, LONGEST))
    except OSError as error:
        st.error(label(describe_os_error(error), LONGEST))


def choose(name: str, options: Sequence[str], key: str) -> str:
    """One of a few options, kept in the page's address."""
    return st.segmented_control(
        name, options, default=options[0], required=True, key=key, bind="query-params"
    )


def show_dataset(show: Callable[[str], None]) -> None:
    """Show the chosen dataset, `?dataset=` of the page's address."""
    with sentences():
        show(choose("Dataset", list(params().datasets), "dataset"))


def in_rows(found: Sequence[T], across: int) -> Iterator[tuple[DeltaGenerator, T]]:
    """Things with their columns, `across` in a row."""
    for start in range(0, len(found), across):
        yield from zip(st.columns(across), found[start : start + across], strict=False)


def table(rows: Sequence[Mapping[str, Any]], caption: str) -> None:
    """Rows as a table: known states as badges, all other values as escaped text."""
    st.caption(label(caption))
    shown = pd.DataFrame([{k: format_cell(v) for k, v in row.items()} for row in rows])
    shown.columns = [label(formats.words(column)).capitalize() for column in shown.columns]
    st.table(shown, hide_index=True, alt=caption)


def format_cell(found: Any) -> str:
    """A value of a table as Markdown."""
    text = formats.value(found)
    return f":{STATES[text]}-badge[{text}]" if text in STATES else label(text, LONGEST)


def show_verdict(root: Path, dataset: str) -> None:
    """Verdict, diagnoses and key numbers. Raises as their readers do."""
    (state, reasons), numbers = read_verdict(root, dataset), key_numbers(root, dataset)
    st.markdown(f"{format_cell(state)} {label(reasons, LONGEST)}")
    for column, (name, number, interval) in zip(st.columns(len(numbers)), numbers, strict=True):
        column.metric(label(name), number, interval or None, delta_color="off", delta_arrow="off")


def chart(spec: charts.Spec, words: str, place: DeltaGenerator | None = None) -> None:
    """Draw a chart; words: the same for people who do not see it."""
    inked = {**spec, "config": charts.inks(dark=st.context.theme.type == "dark")}
    (place or st).vega_lite_chart(inked, alt=words)


def remembered(name: str, usual: str = "") -> str:
    """What the address says of `name`, else what was said last in this session, else `usual`."""
    return str(st.query_params.get(name) or st.session_state.get(f"said_{name}") or usual)


def remember(**said: str) -> None:
    """Keep it in the address, and for the session's other pages; "" forgets it."""
    for name, value in said.items():
        if value:
            st.query_params[name] = value
        else:
            st.query_params.pop(name, None)
    keep(**said)


def keep(**said: str) -> None:
    """Keep it for the session's other pages alone."""
    st.session_state.update({f"said_{name}": value for name, value in said.items()})


_load_params = fresh(load_params)


def params() -> Params:
    """The params of the pipeline. Raises a GenlabError of one line."""
    return _load_params(Path("params.yaml"))
