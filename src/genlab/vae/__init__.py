"""Variational autoencoders: networks, priors, likelihoods, the bound, training and sampling."""
