"""Image tools that come along: one file a tool, the controls together."""
