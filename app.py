"""The server: Streamlit pages of `ui/` on http://127.0.0.1:8000 (`make app`, `make dev`)."""

import streamlit as st

app = st.App("ui/main.py")
