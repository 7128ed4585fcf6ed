"""Reports, rendered from result files."""
