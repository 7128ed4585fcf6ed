"""What every page has in common: its title, the choice of a dataset, and faults as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from genlab.core.errors import GenlabError, describe_os_error
from genlab.core.params import Params, load_params
from genlab.datasets.registry import find_dataset
from genlab.web.components import charts, look
from genlab.web.components.files import Missing, fresh


def title(name: str, lead: str) -> None:
    """The page's heading and a sentence about what is to be seen."""
    st.title(name, anchor=False)
    st.html(f'<p class="g-lead">{look.text(lead)}</p>')


@contextmanager
def sentences() -> Iterator[None]:
    """Show a fault of what stands inside as a sentence, and go on behind it."""
    try:
        yield
    except Missing as empty:
        st.info(f"Nothing to show yet: {empty.what}. This makes it:")
        # Not "bash": the colour of `make` in it is too light on a light page.
        st.code(empty.command, language=None)
    except GenlabError as error:
        # It may quote a file: without the bracket, Markdown makes neither link nor picture of it.
        st.error(str(error).replace("[", "\\["))
    except OSError as error:
        st.error(describe_os_error(error))


def choose_dataset(kinds: Sequence[str] = ("grids", "images")) -> str | None:
    """The dataset that the page is about, `?dataset=` of its address; None where there is none."""
    with sentences():
        names = [name for name in params().datasets if find_dataset(name).kind in kinds]
        if names:
            return st.segmented_control(
                "Dataset",
                names,
                default=names[0],
                required=True,
                key="dataset",
                bind="query-params",
            )
        st.info("params.yaml names no such dataset: add one to `datasets`.")
    return None


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


def chart(spec: charts.Spec, words: str, place: DeltaGenerator | None = None) -> None:
    """Draw a chart in the inks of the page's light; words: the same for those who don't see it."""
    inked = {**spec, "config": charts.inks(dark=st.context.theme.type == "dark")}
    (place or st).vega_lite_chart(inked, alt=words)


def params(root: Path = Path()) -> Params:
    """The params of the pipeline. Raises a GenlabError of one line."""
    return _params(root / "params.yaml")


@fresh()
def _params(path: Path) -> Params:
    return load_params(path)
