"""Networks, heads and priors of the VAE."""
