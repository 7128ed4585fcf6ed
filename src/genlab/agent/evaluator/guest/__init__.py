"""Scripts that run inside the sandbox; they import nothing of genlab."""
