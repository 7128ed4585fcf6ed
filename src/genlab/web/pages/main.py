"""The pages, one file each; a rater sees the page Rate alone."""

from pathlib import Path

import streamlit as st

from genlab.web.components import look
from genlab.web.components.frame import keep
from genlab.web.security import sees_all

PAGES = (
    "overview", "data", "training", "evaluation", "failures", "agent", "benchmark", "cases", "rate",
)  # fmt: skip
HERE = Path(__file__).parent


if __name__ == "__main__":  # not where a scoring process imports the main module of its parent
    st.set_page_config(page_title="genlab", layout="wide")
    st.html(look.STYLE)
    # Who asks, and for which run, goes along to the other pages.
    keep(**{name: st.query_params[name] for name in ("rater", "run") if name in st.query_params})
    names = PAGES if sees_all(st.context.headers, st.context.cookies) else PAGES[-1:]
    pages = [
        st.Page(HERE / f"{name}.py", title=name.capitalize(), default=name == names[0])
        for name in names
    ]
    st.navigation(pages, position="top").run()
