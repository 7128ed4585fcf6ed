"""What pages share: choices, tables, what visitors said, errors as sentences."""

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
from genlab.web.files import fresh

STATES = {
    "passed": "green", "met": "green", "stretch target met": "green", "up to date": "green",
    "refuted": "green", "supported": "orange", "stale": "orange", "missed": "red",
    "not passed": "red", "reported": "gray", "undecided": "gray", "untestable": "gray",
    "not measured": "orange",
}  # fmt: skip

XSRF_COOKIE = "_streamlit_xsrf"


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


def distinct(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels of options by their keys, each once: Streamlit tells options apart by their labels."""
    short = {key: line(text, 80) for key, text in labels.items()}
    counts = Counter(short.values())
    return {key: text if counts[text] == 1 else f"{text}, {key}" for key, text in short.items()}


def table(rows: Sequence[Mapping[str, Any]] | pd.DataFrame, caption: str) -> None:
    """Rows as a table: known states as badges, all other values as escaped text."""
    st.caption(label(caption))
    shown = pd.DataFrame(rows, dtype=object).map(format_cell)
    shown.columns = [label(formats.to_heading(column)) for column in shown.columns]
    st.table(shown, hide_index=True, alt=caption)


def format_cell(found: Any) -> str:
    """A value of a table as Markdown."""
    text = formats.format_value(found)
    return f":{STATES[text]}-badge[{text}]" if text in STATES else label(text)


def remembered(name: str) -> str:
    """What the address says of `name`, else what was said last in this session."""
    return str(st.query_params.get(name) or st.session_state.get(f"said_{name}", ""))


def remember(name: str, said: str) -> None:
    """Keep it in the address, and for the session's other pages; "" forgets it."""
    st.session_state[f"said_{name}"] = said
    if said:
        st.query_params[name] = said
    else:
        st.query_params.pop(name, None)


def ask_rater() -> str:
    """The name that ratings are saved with, asked once; a guest's where none is given.

    Raises a GenlabError of one line for a name that no rating can be saved with.
    """
    name = st.text_input(
        "Your name (saved with your ratings)", remembered("rater"), MAX_RATER, key="rater",
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
    """What distinguishes this browser's session from others; "" where it has no cookies.

    Streamlit gives each browser a cookie against forged requests: 2|mask|masked secret|time, whose
    mask is another one at each visit.
    """
    _, mask, masked, *_ = (*str(st.context.cookies.get(XSRF_COOKIE, "")).split("|"), "", "", "")
    try:
        pairs = zip(bytes.fromhex(masked), cycle(bytes.fromhex(mask)))
    except ValueError:
        return ""
    return bytes(byte ^ key for byte, key in pairs).hex()


_load_params = fresh(load_params)


def params() -> Params:
    """The params of the pipeline. Raises a GenlabError of one line."""
    return _load_params(Path("params.yaml"))
