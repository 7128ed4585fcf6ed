"""The research agent: plans, writes, tests and decides; it never imports vae, nor benchmark."""
