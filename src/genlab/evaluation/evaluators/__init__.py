"""Evaluators: a checkpoint and a test split in; metrics, verdict, diagnosis and figures out."""
