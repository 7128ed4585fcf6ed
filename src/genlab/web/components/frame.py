"""What pages share: choices, tables, names of raters, errors as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from genlab.benchmark.store.schema import MAX_RATER
from genlab.core.errors import GenlabError, describe_os_error
from genlab.core.params import Params, load_params
from genlab.evaluation.reports import formats
from genlab.web.api.ratings import name_guest
from genlab.web.components.escape import label
from genlab.web.components.files import fresh
from genlab.web.results import key_numbers, read_verdict

T = TypeVar("T")

STATES = {
    "passed": "green", "met": "green", "stretch target met": "green", "up to date": "green",
    "refuted": "green", "supported": "orange", "stale": "orange", "missed": "red",
    "not passed": "red", "reported": "gray", "undecided": "gray", "untestable": "gray",
}  # fmt: skip


@contextmanager
def sentences() -> Iterator[None]:
    """Show an error of the block as a sentence; the page continues after the block."""
    try:
        yield
    except GenlabError as error:
        empty = error.path is not None and not error.path.exists()
        (st.info if empty else st.error)(label(error))
    except OSError as error:
        st.error(label(describe_os_error(error)))


def choose(name: str, options: Sequence[str], key: str) -> str:
    """One of a few options, kept in the page's address."""
    return st.segmented_control(
        name, options, default=options[0], required=True, key=key, bind="query-params"
    )


def choose_dataset() -> str:
    """One of the pipeline's datasets."""
    return choose("Dataset", list(params().datasets), "dataset")


def in_rows(found: Sequence[T], across: int) -> Iterator[tuple[DeltaGenerator, T]]:
    """Things with their columns, `across` in a row."""
    for start in range(0, len(found), across):
        yield from zip(st.columns(across), found[start : start + across], strict=False)


def table(rows: Sequence[Mapping[str, Any]], caption: str) -> None:
    """Rows as a table: known states as badges, all other values as escaped text."""
    st.caption(label(caption))
    shown = pd.DataFrame(rows, dtype=object).map(format_cell)
    shown.columns = [label(formats.words(column)).capitalize() for column in shown.columns]
    st.table(shown, hide_index=True, alt=caption)


def format_cell(found: Any) -> str:
    """A value of a table as Markdown."""
    text = formats.value(found)
    return f":{STATES[text]}-badge[{text}]" if text in STATES else label(text)


def show_verdict(root: Path, dataset: str) -> None:
    """Verdict, diagnoses and key numbers. Raises as their readers do."""
    (state, reasons), numbers = read_verdict(root, dataset), key_numbers(root, dataset)
    st.markdown(f"{format_cell(state)} {label(reasons)}")
    for column, (name, number, interval) in zip(st.columns(len(numbers)), numbers, strict=True):
        column.metric(label(name), number, interval or None, delta_color="off", delta_arrow="off")


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


def ask_rater() -> str:
    """The name that ratings are saved with, asked once; a guest's where none is given."""
    name = st.text_input(
        "Your name (saved with your ratings)", remembered("rater"), MAX_RATER, key="rater",
        placeholder="a guest", width=280,
    ).strip()  # fmt: skip
    remember(rater=name)
    return name or str(st.session_state.setdefault("guest", name_guest()))


_load_params = fresh(load_params)


def params() -> Params:
    """The params of the pipeline. Raises a GenlabError of one line."""
    return _load_params(Path("params.yaml"))
