"""Evaluation of trained models: metrics, diagnosis, figures, failure gallery and reports."""
