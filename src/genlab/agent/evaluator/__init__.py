"""Evaluation of models: training in the sandbox, and measurement outside of it."""
