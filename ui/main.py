"""The pages, one file each."""

import streamlit as st

st.set_page_config(page_title="genlab", layout="wide")
st.navigation([st.Page("overview.py", title="Overview", default=True)]).run()
