"""Image tools: the contract, the registry, and the kinds that `tools.yaml` configures."""
