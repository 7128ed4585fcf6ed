"""What an attempt is worth: training in the sandbox, measured by a judge outside of it."""
