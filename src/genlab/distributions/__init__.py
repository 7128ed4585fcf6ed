"""Likelihoods of grids and images, and KL terms of Gaussians."""
