"""Parts of all pages: choices, tables, remembered choices, errors as sentences."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from pydantic import TypeAdapter, ValidationError

from genlab.benchmark.service.rating_session import name_guest
from genlab.benchmark.store.schema import MAX_RATER, Rater
from genlab.core.errors import GenlabError, describe_os_error
from genlab.core.params import Params, load_params
from genlab.evaluation.reports import formats
from genlab.web.components.escape import label, line
from genlab.web.files import cache_by_file

STATES = {
    "passed": "green", "met": "green", "stretch target met": "green", "up to date": "green",
    "refuted": "green", "supported": "orange", "stale": "orange", "missed": "red",
    "not passed": "red", "reported": "gray", "undecided": "gray", "untestable": "gray",
    "not measured": "orange",
}  # fmt: skip

XSRF_COOKIE = "_streamlit_xsrf"


@contextmanager
def show_errors() -> Iterator[None]:
    """Show an error of the block as a sentence; the page continues after the block."""
    try:
        yield
    except GenlabError as error:
        empty = error.path is not None and not error.path.exists()
        (st.info if empty else st.error)(label(error))
    except OSError as error:
        st.error(label(describe_os_error(error)))


def show_committed(figure: Path) -> None:
    """Show a figure of the last run that git holds, where the run's other files are missing."""
    if figure.exists():
        caption = "Of the last committed run"
        st.image(str(figure), caption=caption, alt=caption)


def choose(name: str, options: Sequence[str], key: str) -> str:
    """Let the visitor choose one of a few options; the choice is kept in the page's address."""
    return st.segmented_control(
        name, options, default=options[0], required=True, key=key, bind="query-params"
    )


def choose_dataset() -> str:
    """Let the visitor choose one of the pipeline's datasets."""
    return choose("Dataset", list(params().datasets), "dataset")


def make_unique(labels: Mapping[str, str]) -> dict[str, str]:
    """Shorten labels of options and append the key to duplicates.

    Streamlit identifies options by their labels.
    """
    short = {key: line(text, 80) for key, text in labels.items()}
    counts = Counter(short.values())
    return {key: text if counts[text] == 1 else f"{text}, {key}" for key, text in short.items()}


def show_table(rows: Sequence[Mapping[str, Any]] | pd.DataFrame, caption: str) -> None:
    """Show rows as a table: states as badges, all other values as escaped text."""
    st.caption(label(caption))
    cells = pd.DataFrame(rows, dtype=object).map(format_cell)
    cells.columns = [label(formats.to_heading(column)) for column in cells.columns]
    st.table(cells, hide_index=True, alt=caption)


def format_cell(value: Any) -> str:
    """Format a value of a table as Markdown."""
    text = formats.format_value(value)
    return f":{STATES[text]}-badge[{text}]" if text in STATES else label(text)


def recall(name: str) -> str:
    """Return the value of `name` in the address, else the last one of this session, else ""."""
    return str(st.query_params.get(name) or st.session_state.get(f"said_{name}", ""))


def remember(name: str, value: str) -> None:
    """Save a value in the address, and for the session's other pages; "" deletes it."""
    st.session_state[f"said_{name}"] = value
    if value:
        st.query_params[name] = value
    else:
        st.query_params.pop(name, None)


def ask_rater() -> str:
    """Ask for the name that is saved with ratings; an empty one becomes a guest's.

    Raises a GenlabError of one line for a name that cannot be saved.
    """
    name = st.text_input(
        "Your name (saved with your ratings)", recall("rater"), MAX_RATER, key="rater",
        placeholder="a guest", width=280,
    ).strip()  # fmt: skip
    try:
        TypeAdapter(Rater).validate_python(name or "guest")
    except ValidationError as error:
        remember("rater", "")
        rule = "is printable and starts with none of = + - @"
        raise GenlabError(f"a rater's name {rule}, got {name!r}; change it") from error
    remember("rater", name)
    return name or str(st.session_state.setdefault("guest", name_guest(_find_browser())))


def _find_browser() -> str:
    """Return a secret that identifies the browser's session; "" if it has no cookies.

    It is that of Streamlit's cookie against forged requests, 2|mask|masked secret|time, whose mask
    changes at each visit.
    """
    fields = str(st.context.cookies.get(XSRF_COOKIE, "")).split("|")
    if len(fields) < 3:
        return ""
    try:
        mask = bytes.fromhex(fields[1])
        masked = bytes.fromhex(fields[2])
    except ValueError:
        return ""
    return bytes(byte ^ key for byte, key in zip(masked, cycle(mask))).hex()


_load_params = cache_by_file(load_params)


def params() -> Params:
    """Return the params of the pipeline. Raises a GenlabError of one line if they are faulty."""
    return _load_params(Path("params.yaml"))
