"""Planners, which propose the next attempt (a language model or random search), and prompts."""
