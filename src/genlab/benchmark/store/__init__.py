"""What benchmark runs did and what people said about them, in one SQLite file under `runs/`."""
