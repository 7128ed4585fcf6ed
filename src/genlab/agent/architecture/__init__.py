"""Architectures: a declarative model config, the code written from it, and its training recipe."""
