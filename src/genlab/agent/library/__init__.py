"""The library below the tools: assemble, inspect and train a module in a workspace."""
