"""What the project measures as a ratio or against a target; `python benchmarks/run.py --list`."""
