"""Acceptance criteria and diagnosis rules."""
