"""Objective, schedules and the training loop."""
