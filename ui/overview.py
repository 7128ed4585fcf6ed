"""What the last run of each dataset found: verdict, key numbers, diagnoses, figures."""

from pathlib import Path

import streamlit as st

from genlab.core.console import GenlabError
from genlab.core.params import load_params
from genlab.measure.overview import Overview, read_overview

st.title("genlab")
try:
    datasets = load_params().datasets
except GenlabError as error:
    st.error(str(error))
    st.stop()
for name in datasets:
    st.header(name)
    found = read_overview(Path(), name)
    if not isinstance(found, Overview):
        st.info(found)
        continue
    (st.success if found.passed else st.warning)(found.sentence)
    for column, (label, value) in zip(st.columns(len(found.numbers)), found.numbers, strict=True):
        column.metric(label, value)
    st.dataframe(found.criteria, hide_index=True, width="stretch")
    for picture in found.pictures:
        st.image(str(picture.path), caption=picture.caption)
