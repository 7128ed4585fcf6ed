"""Acceptance criteria, diagnosis rules and error analysis."""
