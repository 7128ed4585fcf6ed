"""What loop and tools call: write, inspect and train a module in a workspace."""
