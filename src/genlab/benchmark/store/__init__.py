"""The SQLite store of runs, run items and human scores."""
