"""Metrics of reconstructions, samples and likelihoods: arrays in, numbers out."""
