"""The pipeline as a user runs it: real processes, real files."""
