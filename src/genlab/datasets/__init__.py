"""The datasets: generated or read from their source, split, stored and checked."""
