"""The pages, one module each; a rater sees the page Rate alone."""

import gc
from functools import partial
from importlib import import_module

import streamlit as st

from genlab.web.components import look
from genlab.web.components.frame import sentences
from genlab.web.security import sees_all

PAGES = {
    "overview": "Test cases, state of the pipeline, results of its last runs, and the next step.",
    "data": "What the models learn from, item by item; how the parser reads a grid.",
    "training": "The objective and the terms of the ELBO by epoch, run by run.",
    "evaluation": "What the model reconstructs and draws, compared with its targets.",
    "failures": "The worst items, why they may have failed, and whether you agree.",
    "agent": "Plans, writes, trains and decides until a number meets the goal, in a sandbox.",
    "benchmark": "Cases of people through image tools: run, follow, compare, report.",
    "cases": "Photographs, and who is replaced by whom in them.",
    "rate": "Blind: the tools are hidden until you are done.",
}


def show(name: str) -> None:
    """Show a page: heading, a sentence about it, and its content or what is wrong with it."""
    st.title(name.capitalize(), anchor=False)
    st.caption(PAGES[name])
    with sentences():
        import_module(f"genlab.web.pages.{name}").main()
    exempt_imports(name)


@st.cache_resource(show_spinner=False)
def exempt_imports(name: str) -> None:
    """Exempt from garbage collection what a page imported, once it was shown for the first time.

    Streamlit collects all garbage after each run of a script before it reports its end: with the
    libraries of this project loaded, that takes 130 ms per click.
    """
    gc.collect()
    gc.freeze()


def main() -> None:
    """Show the page of the address, below links to the others."""
    st.set_page_config(page_title="genlab", layout="wide")
    st.html(look.STYLE)
    for name in {"rater", "run"} & st.query_params.keys():  # they go along to the other pages
        st.session_state[f"said_{name}"] = st.query_params[name]
    names = list(PAGES) if sees_all(st.context.headers, st.context.cookies) else ["rate"]
    pages = [
        st.Page(partial(show, each), title=each.capitalize(), url_path=each, default=not number)
        for number, each in enumerate(names)
    ]
    st.navigation(pages, position="top").run()


if __name__ == "__main__":  # not where a scoring process imports the main module of its parent
    main()
