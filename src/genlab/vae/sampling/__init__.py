"""Encoding, bounds and samplers of a trained VAE."""
