"""The pages, one module each; raters see only the page Rate."""

import gc
from functools import partial
from importlib import import_module

import streamlit as st

from genlab.web.components import look
from genlab.web.components.frame import show_errors
from genlab.web.security import sees_all

PAGES = {
    "overview": "Test cases, state of the pipeline, results of its last runs, and the next step.",
    "data": "The training data, item by item, and how the parser reads a grid.",
    "training": "The objective and the terms of the ELBO by epoch, run by run.",
    "evaluation": "Reconstructions and samples of the model, compared with its targets.",
    "failures": "The worst items, why they may have failed, and whether you agree.",
    "agent": "Plans, writes, trains and decides until a number meets the goal, in a sandbox.",
    "benchmark": "Put cases of people through image tools: run, follow, compare, report.",
    "cases": "Photographs, and who is replaced by whom in them.",
    "rate": "Blind: the tools are hidden until you are done.",
}


def show(name: str) -> None:
    """Show a page: its title, a sentence about it, and its content or an error."""
    st.title(name.capitalize(), anchor=False)
    st.caption(PAGES[name])
    with show_errors():
        import_module(f"genlab.web.pages.{name}").main()
    exempt_imports(name)


@st.cache_resource(show_spinner=False)
def exempt_imports(name: str) -> None:
    """Exempt a page's imports from garbage collection after the page is shown for the first time.

    Streamlit collects all garbage after each run of a script: with this project's libraries
    loaded, that takes 130 ms per click.
    """
    gc.collect()
    gc.freeze()


def main() -> None:
    """Show the page that the address names, below links to all pages."""
    st.set_page_config(page_title="genlab", layout="wide")
    st.html(look.STYLE)
    for name in {"rater", "run"} & st.query_params.keys():  # kept for the session's other pages
        st.session_state[f"said_{name}"] = st.query_params[name]
    names = list(PAGES) if sees_all(st.context.headers, st.context.cookies) else ["rate"]
    pages = [
        st.Page(
            partial(show, name), title=name.capitalize(), url_path=name, default=name == names[0]
        )
        for name in names
    ]
    st.navigation(pages, position="top").run()


if __name__ == "__main__":  # a scoring process imports its parent's main module, too
    main()
