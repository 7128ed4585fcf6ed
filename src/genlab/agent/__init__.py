"""The research agent: plan a network, write it, evaluate it in a sandbox, decide, repeat."""
