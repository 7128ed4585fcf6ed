"""What pages, API and command line share: without HTTP, without Streamlit."""
