"""The pages, one file each; a page whose file is not there yet is left out."""

from pathlib import Path

import streamlit as st

from genlab.web import look
from genlab.web.frame import keep

PAGES = (
    "overview",
    "data",
    "training",
    "evaluation",
    "failures",
    "agent",
    "benchmark",
    "rate",
)
HERE = Path(__file__).parent

if __name__ == "__main__":  # not where a scoring process imports the main module of its parent
    st.set_page_config(page_title="genlab", layout="wide")
    st.html(look.STYLE)
    # Who asks, and for which run, goes along to the other pages.
    keep(**{name: st.query_params[name] for name in ("rater", "run") if name in st.query_params})
    pages = [
        st.Page(file, title=name.capitalize(), default=name == PAGES[0])
        for name in PAGES
        if (file := HERE / f"{name}.py").is_file()
    ]
    st.navigation(pages, position="top").run()
