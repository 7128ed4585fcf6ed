"""Measurement: arrays in, numbers and pictures out. Knows grids, never the model that made them."""
