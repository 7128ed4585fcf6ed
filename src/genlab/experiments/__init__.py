"""Documented experiments: runs of the pipeline with other params, and their table of results."""
