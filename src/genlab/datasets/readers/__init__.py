"""Datasets that people bring: one module per convention, and what all conventions share."""
