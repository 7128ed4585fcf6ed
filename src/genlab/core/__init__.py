"""Foundations of every other package: params, files, errors, engine, tracking, statistics."""
