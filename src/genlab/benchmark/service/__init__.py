"""Code that pages, API and command line share, without HTTP and without Streamlit."""
