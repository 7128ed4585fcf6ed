"""Evaluation of models: training in the sandbox, and a judge outside that measures them."""
