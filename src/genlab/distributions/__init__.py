"""Likelihoods and KL terms."""
